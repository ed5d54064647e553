//! The error of the contract. Its [`Decision`] says what the caller should do; its message says what was attempted;
//! its source says why it failed.
//!
//! A decision survives wrapping: [`Error::context`] keeps it, and an error of another type that carries one of ours
//! anywhere in its chain of sources is recognised by [`Decision::of`] and by [`Error::from_source`].

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

type Source = Box<dyn StdError + Send + Sync + 'static>;

/// What the caller should do about a failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// The cloud answered, and the thing does not exist. Never say this because of an error or a short list.
    NotFound,
    /// The provider does not have this operation; the caller goes on as if the capability were absent.
    NotImplemented,
    /// Another controller does this one: success for the caller, who writes nothing.
    ImplementedElsewhere,
    /// Not finished yet, and nothing is wrong: come back after this time. No failure is counted.
    RetryAfter {
        /// When to come back.
        after: Duration,
    },
    /// The configuration, an annotation or a field cannot be honoured: a person must change it.
    InvalidConfig,
    /// The credential is missing, expired, or not allowed to do this: a person must change it.
    Unauthorized,
    /// The account has no room for one more: a person must make some.
    QuotaExceeded,
    /// The cloud asks us to slow down.
    Throttled {
        /// How long the cloud asks us to wait, if it says.
        after: Option<Duration>,
    },
    /// The volume is in use: it cannot be deleted, or not be attached elsewhere.
    InUse {
        /// The node that holds it, where known.
        by: Option<String>,
        /// The device path there, where known.
        device: Option<String>,
    },
    /// What would have to be changed is not provably ours, so it was left alone.
    NotOwned,
    /// The gate did not let the call start: this process may no longer hold the lease.
    Fenced,
    /// The gate runs in observe mode: the call was recorded, not made. The pass ends here.
    Recorded,
    /// Anything else: retry with back-off.
    Other,
}

impl Decision {
    /// The decision of the first error of ours in the chain, from the outside in; [`Decision::Other`] without one.
    pub fn of(error: &(dyn StdError + 'static)) -> Decision {
        chain(error)
            .find_map(|link| link.downcast_ref::<Error>())
            .map_or(Decision::Other, |ours| ours.decision.clone())
    }
}

/// A failed call to a cloud.
pub struct Error {
    decision: Decision,
    attempt: String,
    source: Option<Source>,
}

impl Error {
    /// An error with this decision; `attempt` says what was tried, in lower case.
    pub fn new(decision: Decision, attempt: impl Into<String>) -> Self {
        Self { decision, attempt: attempt.into(), source: None }
    }

    /// Wraps an error of another type. If one of ours is in its chain, its decision is kept.
    pub fn from_source(attempt: impl Into<String>, source: impl Into<Source>) -> Self {
        let source = source.into();
        Self { decision: Decision::of(source.as_ref()), attempt: attempt.into(), source: Some(source) }
    }

    /// Adds what was attempted around this error; the decision stays.
    #[must_use]
    pub fn context(self, attempt: impl Into<String>) -> Self {
        Self { decision: self.decision.clone(), attempt: attempt.into(), source: Some(Box::new(self)) }
    }

    /// Names the cause.
    #[must_use]
    pub fn because(mut self, source: impl Into<Source>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What the caller should do.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The whole chain on one line, outermost first: what a log or an Event shows.
    pub fn report(&self) -> String {
        let links: Vec<String> = chain(self).map(ToString::to_string).collect();
        links.join(": ")
    }

    /// The thing does not exist, and the cloud said so.
    pub fn not_found(attempt: impl Into<String>) -> Self {
        Self::new(Decision::NotFound, attempt)
    }

    /// The provider does not have this operation.
    pub fn not_implemented(attempt: impl Into<String>) -> Self {
        Self::new(Decision::NotImplemented, attempt)
    }

    /// Another controller does this one.
    pub fn implemented_elsewhere(attempt: impl Into<String>) -> Self {
        Self::new(Decision::ImplementedElsewhere, attempt)
    }

    /// Not finished yet: come back after this time.
    pub fn retry_after(after: Duration, attempt: impl Into<String>) -> Self {
        Self::new(Decision::RetryAfter { after }, attempt)
    }

    /// A person must change the configuration.
    pub fn invalid_config(attempt: impl Into<String>) -> Self {
        Self::new(Decision::InvalidConfig, attempt)
    }

    /// A person must change the credential.
    pub fn unauthorized(attempt: impl Into<String>) -> Self {
        Self::new(Decision::Unauthorized, attempt)
    }

    /// A person must make room in the account.
    pub fn quota_exceeded(attempt: impl Into<String>) -> Self {
        Self::new(Decision::QuotaExceeded, attempt)
    }

    /// The cloud asks us to slow down.
    pub fn throttled(after: Option<Duration>, attempt: impl Into<String>) -> Self {
        Self::new(Decision::Throttled { after }, attempt)
    }

    /// The volume is in use.
    pub fn in_use(by: Option<String>, device: Option<String>, attempt: impl Into<String>) -> Self {
        Self::new(Decision::InUse { by, device }, attempt)
    }

    /// What would have to be changed is not provably ours.
    pub fn not_owned(attempt: impl Into<String>) -> Self {
        Self::new(Decision::NotOwned, attempt)
    }

    /// Anything else.
    pub fn other(attempt: impl Into<String>) -> Self {
        Self::new(Decision::Other, attempt)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.attempt)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.decision, self.report())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

fn chain<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |link: &&'a (dyn StdError + 'static)| (*link).source())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A provider's own error type, as a vendor SDK would have it.
    #[derive(Debug, thiserror::Error)]
    #[error("calling the vendor")]
    struct VendorError(#[source] Error);

    /// Proves: IFACE-37, IFACE-38
    #[test]
    fn every_decision_survives_context_and_foreign_wrapping() {
        let decisions = [
            Decision::NotFound,
            Decision::NotImplemented,
            Decision::ImplementedElsewhere,
            Decision::RetryAfter { after: Duration::from_secs(42) },
            Decision::InvalidConfig,
            Decision::Unauthorized,
            Decision::QuotaExceeded,
            Decision::Throttled { after: None },
            Decision::InUse { by: Some("a".into()), device: None },
            Decision::NotOwned,
            Decision::Fenced,
            Decision::Recorded,
        ];
        for decision in decisions {
            let inner = Error::new(decision.clone(), "reading it").context("ensuring it");
            let wrapped = Error::from_source("syncing", VendorError(inner));
            assert_eq!(wrapped.decision(), &decision);
            assert_eq!(Decision::of(&VendorError(wrapped)), decision);
        }
    }

    /// Proves: IFACE-19
    #[test]
    fn a_retry_time_is_found_through_two_layers_of_wrapping() {
        let error =
            Error::retry_after(Duration::from_secs(42), "load balancer is being built").context("ensuring");
        assert_eq!(
            Decision::of(&VendorError(error)),
            Decision::RetryAfter { after: Duration::from_secs(42) }
        );
    }

    #[test]
    fn an_error_of_another_type_asks_for_a_retry() {
        assert_eq!(Decision::of(&std::io::Error::other("connection reset")), Decision::Other);
    }

    #[test]
    fn the_report_names_each_link_once() {
        let error = Error::other("listing servers")
            .because(std::io::Error::other("connection reset"))
            .context("looking up 3 nodes");
        assert_eq!(error.report(), "looking up 3 nodes: listing servers: connection reset");
        assert_eq!(error.to_string(), "looking up 3 nodes");
    }

    /// Proves: IFACE-40
    #[test]
    fn a_dangling_attachment_names_the_node_and_the_device() {
        let error =
            Error::in_use(Some("node-a".into()), Some("/dev/sdb".into()), "attaching volume v1 to node-b");
        assert_eq!(
            error.decision(),
            &Decision::InUse { by: Some("node-a".into()), device: Some("/dev/sdb".into()) }
        );
    }
}
