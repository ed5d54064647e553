//! Why a load balancer is not as its Service asks, in words that say what to do. The reason stands in the condition and
//! in the metric alike; the Events carry upstream's reasons.

use std::time::Duration;

use cloud_provider::load_balancer::Feature;
use cloud_provider::{Decision, Error};
use controller_kit::log::report;

/// How long something may be under way before anybody is told: clouds take their time.
const PATIENCE: Duration = Duration::from_secs(15);

/// The API server takes no longer text in an Event.
const LONGEST: usize = 1000;

/// A step that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// One word for machines; INVARIANT: dashboards and scripts match on it.
    pub reason: &'static str,
    /// What happened and what to do about it.
    pub message: String,
    /// When to try again, if the cloud says.
    pub after: Option<Duration>,
    /// How long it may last before anybody is told.
    pub patience: Duration,
    /// Nothing is wrong: the cloud is at work.
    pub pending: bool,
    /// Trying again changes nothing before the Service changes.
    pub hopeless: bool,
}

impl Failure {
    fn new(reason: &'static str, what: impl AsRef<str>, advice: &str) -> Self {
        let message = shortened(&format!("{}; {advice}", what.as_ref()));
        Self { reason, message, after: None, patience: Duration::ZERO, pending: false, hopeless: false }
    }

    /// A call to the cloud failed; `attempt` says which, in upstream's words.
    pub fn of(error: &Error, attempt: &str) -> Self {
        let what = format!("{attempt}: {}", error.report());
        match error.decision() {
            Decision::RetryAfter { after } => Self {
                after: Some(*after),
                patience: PATIENCE,
                pending: true,
                ..Self::new(
                    "Pending",
                    what,
                    "the cloud is at work, and it is looked at again when the cloud said",
                )
            },
            Decision::Throttled { after } => Self {
                after: *after,
                patience: PATIENCE,
                ..Self::new("CloudThrottled", what, "it is tried again more slowly")
            },
            Decision::Unauthorized => {
                Self::new("CredentialInvalid", what, "renew the credential in the cloud config")
            }
            Decision::QuotaExceeded => {
                Self::new("QuotaExceeded", what, "make room in the account, or have its quota raised")
            }
            Decision::InvalidConfig => Self::new(
                "InvalidConfig",
                what,
                "correct the Service's field or annotation, or the cloud config, that it names",
            ),
            Decision::NotOwned => Self::new(
                "NotOwned",
                what,
                "it is left alone, because nothing proves that it is this cluster's; rename or remove it, or tag it",
            ),
            _ => Self::new("CloudFailed", what, "it is tried again"),
        }
    }

    /// The Service cannot be read.
    pub fn unreadable(error: &Error) -> Self {
        let failure = Self::new("InvalidService", error.report(), "correct the Service");
        Self { hopeless: true, ..failure }
    }

    /// The Service asks for what the provider does not have.
    pub fn unsupported(features: &[Feature]) -> Self {
        let names: Vec<String> = features.iter().map(ToString::to_string).collect();
        let what = format!("this cloud's load balancers do not support {}", names.join(", "));
        let failure = Self::new(
            "UnsupportedField",
            what,
            "nothing was made or changed, so that nobody relies on what is not there; remove it from the Service",
        );
        Self { hopeless: true, ..failure }
    }

    /// The load balancer is made, and the cloud names no address.
    pub fn no_address() -> Self {
        let failure = Self::new(
            "NoAddress",
            "the cloud names no address of the load balancer yet",
            "it is asked again",
        );
        Self { patience: PATIENCE, pending: true, ..failure }
    }

    /// The API server did not take a write.
    pub fn write(error: &kube::Error) -> Self {
        let what = format!("failed to update load balancer status: {}", report(error));
        match error {
            kube::Error::Api(status) if status.code == 403 => Self::new(
                "WriteForbidden",
                what,
                "grant this manager's service account patch on services/status and get on services",
            ),
            kube::Error::Api(status) if status.code == 422 => Self::new(
                "WriteRefused",
                what,
                "the cloud's answer holds something that no Service may carry",
            ),
            _ => Self { patience: PATIENCE, ..Self::new("WriteFailed", what, "it is tried again") },
        }
    }
}

fn shortened(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let mut end = LONGEST;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}
