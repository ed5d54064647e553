//! Why a Node is not initialised, in words that say what to do. The reason stands in the Event, in the condition and in
//! the metric alike.

use std::time::Duration;

use cloud_provider::{Decision, Doubt, Error, Evidence, Existence};
use controller_kit::log::report;

use super::plan::Refusal;

/// A failed try to initialise a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// One word for machines; INVARIANT: dashboards and scripts match on it.
    pub reason: &'static str,
    /// What happened and what to do about it.
    pub message: String,
    /// When the cloud asks to be asked again, if it says.
    pub after: Option<Duration>,
    /// How long it may last before anybody is told: an instance that was just made is often not to be seen yet.
    pub patience: Duration,
}

/// How long a new instance may be missing before that is worth an Event.
const NOT_SEEN_YET: Duration = Duration::from_secs(15);

impl Failure {
    /// Why an answer does not let a Node be initialised; `None` for answers that do, or that say it is not ours.
    pub fn of(answer: &Existence) -> Option<Self> {
        match answer {
            Existence::Found(_) | Existence::NotMine => None,
            Existence::Absent(evidence) => Some(Self::absent(evidence)),
            Existence::Unknown(doubt) => Some(Self::unknown(doubt)),
        }
    }

    fn new(reason: &'static str, what: impl AsRef<str>, advice: &str) -> Self {
        let message = format!("{}; {advice}", what.as_ref());
        Self { reason, message, after: None, patience: Duration::ZERO }
    }

    fn absent(evidence: &Evidence) -> Self {
        let saw = match evidence {
            Evidence::NotFound { asked } => format!("the cloud answered \"not found\" to {asked}"),
            Evidence::NotListed { listed } => format!("none of the cloud's {listed} instances is this node"),
            _ => "the cloud has no instance for this node".to_owned(),
        };
        let advice = "check that the node's name or its kubelet's --provider-id is that of an instance in the \
                      region and project of the cloud config";
        Self { patience: NOT_SEEN_YET, ..Self::new("InstanceNotFound", saw, advice) }
    }

    fn unknown(doubt: &Doubt) -> Self {
        match doubt {
            Doubt::Failed(error) => Self::failed(error),
            Doubt::Incomplete(_) => Self::new(
                "InventoryIncomplete",
                doubt.to_string(),
                "it is tried again; if it persists, look at the cloud's own status page",
            ),
            Doubt::EmptyInventory => Self::new(
                "InventoryEmpty",
                "the cloud shows no instance at all",
                "check region, project and credential in the cloud config",
            ),
            Doubt::Ambiguous(_) => Self::new(
                "AmbiguousInstance",
                doubt.to_string(),
                "rename or remove all but one of them, or set the kubelet's --provider-id",
            ),
            Doubt::BadProviderId(_) => Self::new(
                "ProviderIDInvalid",
                doubt.to_string(),
                "correct the kubelet's --provider-id, delete this Node and let it register again",
            ),
            other => Self::new("CloudUnavailable", report(other).to_string(), "it is tried again"),
        }
    }

    fn failed(error: &Error) -> Self {
        let what = error.report();
        match error.decision() {
            Decision::Unauthorized => {
                Self::new("CredentialInvalid", what, "renew the credential in the cloud config")
            }
            Decision::InvalidConfig => Self::new("CloudConfigInvalid", what, "correct the cloud config"),
            Decision::Throttled { after } => {
                let failure = Self::new("CloudThrottled", what, "it is tried again more slowly");
                Self { after: *after, patience: NOT_SEEN_YET, ..failure }
            }
            Decision::RetryAfter { after } => {
                let failure = Self::new("CloudNotReady", what, "it is tried again when the cloud said");
                Self { after: Some(*after), patience: NOT_SEEN_YET, ..failure }
            }
            _ => {
                Self::new("CloudUnavailable", what, "it is tried again; check that the cloud can be reached")
            }
        }
    }

    /// The API server did not take the writes.
    pub fn write(error: &kube::Error) -> Self {
        let what = format!("writing the node: {}", report(error));
        match error {
            kube::Error::Api(status) if status.code == 403 => Self::new(
                "WriteForbidden",
                what,
                "grant this manager's service account get and patch on nodes and nodes/status",
            ),
            kube::Error::Api(status) if status.code == 422 => {
                Self::new("WriteRefused", what, "the cloud's answer holds something that no Node may carry")
            }
            _ => Self { patience: NOT_SEEN_YET, ..Self::new("WriteFailed", what, "it is tried again") },
        }
    }
}

impl From<&Refusal> for Failure {
    fn from(refusal: &Refusal) -> Self {
        let what = report(refusal).to_string();
        match refusal {
            Refusal::NodeIp { .. } => Self::new(
                "NodeIPNotInCloud",
                what,
                "start the kubelet with a --node-ip that the cloud knows of this instance",
            ),
            Refusal::NoProviderId(_) => {
                Self::new("NoProviderID", what, "start the kubelet with --provider-id")
            }
        }
    }
}
