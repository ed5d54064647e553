//! The condition that tells whoever describes a Node why it is not initialised.

use controller_kit::patch::Patch;
use controller_kit::patch::node::condition as condition_patch;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use super::failure::Failure;

/// The type of the condition. INVARIANT: it stands on Nodes, in alerts and in scripts.
pub const CLOUD_INITIALIZED: &str = "CloudInitialized";

/// The patch that says why a Node is not initialised.
pub(super) fn failing(node: &Node, failure: &Failure, now: Timestamp) -> Option<Patch> {
    let since = find(node).filter(|current| current.status == "False");
    let condition = NodeCondition {
        type_: CLOUD_INITIALIZED.to_owned(),
        status: "False".to_owned(),
        reason: Some(failure.reason.to_owned()),
        message: Some(failure.message.clone()),
        last_heartbeat_time: Some(Time(now)),
        last_transition_time: since
            .and_then(|current| current.last_transition_time.clone())
            .or(Some(Time(now))),
    };
    condition_patch(node, &condition)
}

/// The patch that takes the complaint back; `None` if there never was one.
pub(super) fn resolved(node: &Node, now: Timestamp) -> Option<Patch> {
    find(node).filter(|current| current.status != "True")?;
    let condition = NodeCondition {
        type_: CLOUD_INITIALIZED.to_owned(),
        status: "True".to_owned(),
        reason: Some("Initialized".to_owned()),
        message: Some("the cloud knows this node".to_owned()),
        last_heartbeat_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    };
    condition_patch(node, &condition)
}

fn find(node: &Node) -> Option<&NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_deref()?;
    conditions.iter().find(|condition| condition.type_ == CLOUD_INITIALIZED)
}

/// Two strategic patches of one Node's status, sent as one request.
pub(super) fn together(one: Option<Patch>, other: Option<Patch>) -> Option<Patch> {
    match (one, other) {
        (Some(one), Some(other)) => {
            let mut body = one.body();
            if let (Some(status), Value::Object(more)) =
                (body["status"].as_object_mut(), &other.body()["status"])
            {
                status.extend(more.clone());
            }
            Some(Patch::strategic(body).on_status())
        }
        (one, other) => one.or(other),
    }
}
