//! What we write on Services: the finalizer, the addresses, and conditions that say why there are none yet. One PATCH of
//! the status subresource carries all that changes together.

use cloud_provider::well_known::{finalizers, ip_modes};
use controller_kit::patch::Patch;
use controller_kit::patch::service::{add_finalizer, load_balancer_status, remove_finalizer};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{LoadBalancerStatus, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Value, json};

use super::failure::Failure;
use super::plan::Applied;
use super::wish;

/// The condition that is false while a load balancer cannot be made or is not ready, and says why. INVARIANT: it stands on
/// Services, in alerts and in scripts.
pub const PROVISIONED: &str = "LoadBalancerProvisioned";

/// The condition that is true while a load balancer cannot be removed, and says why. INVARIANT: as [`PROVISIONED`].
pub const CLEANUP_BLOCKED: &str = "LoadBalancerCleanupBlocked";

/// Whether what stands on a Service is not what its load balancer is. `complaints` says whether a complaint counts that
/// is over.
pub(super) fn differs(service: &Service, applied: &Applied, complaints: bool) -> bool {
    (complaints && complaint(service, PROVISIONED, "False").is_some())
        || addresses(service, applied).is_some()
}

/// Whether the addresses on a Service are those of this load balancer.
pub(super) fn is_told(service: &Service, applied: &Applied) -> bool {
    wish::has_address(service) && applied.status.is_some() && addresses(service, applied).is_none()
}

/// The patch that puts finalizer, addresses and condition right; `None` if they are.
pub(super) fn mend(service: &Service, applied: &Applied, now: Timestamp) -> Option<Patch> {
    let resolved = complaint(service, PROVISIONED, "False").map(|_| {
        condition(
            service,
            PROVISIONED,
            "True",
            "Provisioned",
            "the load balancer is as the Service asks",
            now,
        )
    });
    together([hold(service), addresses(service, applied), resolved])
}

/// The patch that holds a Service; `None` if it is held.
pub(super) fn hold(service: &Service) -> Option<Patch> {
    add_finalizer(service, finalizers::LOAD_BALANCER_CLEANUP)
}

/// The patch that lets a Service go; `clear` takes its addresses along.
pub(super) fn release(service: &Service, clear: bool, now: Timestamp) -> Option<Patch> {
    let cleared = clear.then(|| load_balancer_status(service, &LoadBalancerStatus::default())).flatten();
    let unblocked = complaint(service, CLEANUP_BLOCKED, "True")
        .map(|_| condition(service, CLEANUP_BLOCKED, "False", "CleanedUp", "the load balancer is gone", now));
    together([remove_finalizer(service, finalizers::LOAD_BALANCER_CLEANUP), cleared, unblocked])
}

/// The patch that says why there is no load balancer, or why it is still there.
pub(super) fn complain(service: &Service, failure: &Failure, blocked: bool, now: Timestamp) -> Patch {
    let (type_, status) = if blocked { (CLEANUP_BLOCKED, "True") } else { (PROVISIONED, "False") };
    condition(service, type_, status, failure.reason, &failure.message, now)
}

/// An address without a mode is stored with the mode `VIP`: what the server filled in is no difference.
fn addresses(service: &Service, applied: &Applied) -> Option<Patch> {
    let mut wanted =
        applied.status.clone().filter(|status| status.ingress.as_ref().is_some_and(|all| !all.is_empty()))?;
    let current = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let current = current.and_then(|balancer| balancer.ingress.as_deref()).unwrap_or_default();
    for (wanted, current) in wanted.ingress.iter_mut().flatten().zip(current) {
        let filled_in = current.ip_mode.as_deref() == Some(ip_modes::VIP) && wanted.ip == current.ip;
        if wanted.ip_mode.is_none() && filled_in {
            wanted.ip_mode.clone_from(&current.ip_mode);
        }
    }
    load_balancer_status(service, &wanted)
}

fn complaint<'a>(service: &'a Service, type_: &str, status: &str) -> Option<&'a Condition> {
    find(service, type_).filter(|condition| condition.status == status)
}

fn find<'a>(service: &'a Service, type_: &str) -> Option<&'a Condition> {
    let conditions = service.status.as_ref()?.conditions.as_deref()?;
    conditions.iter().find(|condition| condition.type_ == type_)
}

fn condition(
    service: &Service,
    type_: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> Patch {
    let since = find(service, type_).filter(|current| current.status == status);
    let condition = Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: since.map_or(Time(now), |current| current.last_transition_time.clone()),
        observed_generation: None,
    };
    Patch::strategic(json!({ "status": { "conditions": [condition] } })).on_status()
}

/// Strategic patches of one Service's status, sent as one request.
fn together<const N: usize>(patches: [Option<Patch>; N]) -> Option<Patch> {
    let mut bodies = patches.into_iter().flatten().map(|patch| patch.body());
    let mut all = bodies.next()?;
    for body in bodies {
        merge(&mut all, body);
    }
    Some(Patch::strategic(all).on_status())
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}
