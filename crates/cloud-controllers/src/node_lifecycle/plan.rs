//! What an answer about a Node means for its taints. Pure. Carrying it out and planning again gives nothing to do.

use cloud_provider::well_known::{conditions, taints};
use cloud_provider::{Existence, Power};
use k8s_openapi::api::core::v1::{Node, Taint};

use super::{INSTANCE_GONE, OUT_OF_SERVICE_VALUE};

/// What is known of a Node.
#[derive(Debug, Clone, Copy)]
pub enum Sight<'a> {
    /// Its kubelet is well; nobody asked the cloud.
    Ready,
    /// It is not, and this is what the cloud says.
    NotReady(&'a Existence),
    /// It is not, and the cloud has said for so long that its machine is off that its pods may move.
    OutOfService,
    /// Its instance is proven to be gone, and the policy is to taint.
    Gone,
}

/// Whether the condition Ready is True; False, Unknown and no condition at all are not.
pub fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == conditions::READY && condition.status == "True")
}

/// The taints that a Node should have; `None` if it has them.
pub fn taints(node: &Node, sight: Sight<'_>) -> Option<Vec<Taint>> {
    let current = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let (mut wanted, shutdown, gone) = (current.to_vec(), taint(taints::SHUTDOWN), taint(INSTANCE_GONE));
    let out_of_service = Taint {
        value: Some(OUT_OF_SERVICE_VALUE.to_owned()),
        effect: "NoExecute".to_owned(),
        ..taint(taints::OUT_OF_SERVICE)
    };
    match sight {
        Sight::Ready => {
            remove(&mut wanted, &shutdown);
            remove(&mut wanted, &gone);
            // A person's own stays until the person is content.
            wanted.retain(|each| *each != out_of_service);
        }
        Sight::OutOfService => {
            add(&mut wanted, shutdown);
            if !wanted.iter().any(|each| is_same(each, &out_of_service)) {
                wanted.push(out_of_service);
            }
        }
        Sight::NotReady(Existence::Found(instance)) => {
            // The shutdown taint stays until the kubelet is back, as upstream: a machine that boots is not ready yet.
            if instance.power == Power::Off {
                add(&mut wanted, shutdown);
            }
            remove(&mut wanted, &gone);
        }
        Sight::NotReady(_) => {}
        Sight::Gone => add(&mut wanted, gone),
    }
    (wanted != current).then_some(wanted)
}

fn taint(key: &str) -> Taint {
    Taint { key: key.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() }
}

/// Taints are the same by key and effect; one with another value is replaced where it stands.
fn add(list: &mut Vec<Taint>, wanted: Taint) {
    let value = |taint: &Taint| taint.value.clone().unwrap_or_default();
    match list.iter_mut().find(|each| is_same(each, &wanted)) {
        Some(found) if value(found) == value(&wanted) => {}
        Some(found) => *found = wanted,
        None => list.push(wanted),
    }
}

fn remove(list: &mut Vec<Taint>, unwanted: &Taint) {
    list.retain(|each| !is_same(each, unwanted));
}

fn is_same(one: &Taint, other: &Taint) -> bool {
    (&one.key, &one.effect) == (&other.key, &other.effect)
}
