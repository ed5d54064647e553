//! The gate: every create, update and delete in a cloud passes through [`Changes`].
//!
//! A provider says what it is about to do as a [`Change`] and gets a [`Permit`], or an error that ends the pass:
//! [`Decision::Fenced`] when this process may no longer hold the lease, [`Decision::Recorded`] in observe mode. Updates
//! and deletes need a [`Proof`] of ownership to be described at all. That single choke point gives fencing, dry runs,
//! the decision log and the counts, and no provider writes any of it.
//!
//! ```
//! # use cloud_provider::{Change, Changes, Error, Permit};
//! # async fn post(_: &Permit, _: &str) -> Result<String, Error> { Ok("lb-1".into()) }
//! # async fn create(changes: &Changes) -> Result<String, Error> {
//! let id = changes
//!     .make(Change::create("load balancer", "a3f0c6"), |permit| async move { post(&permit, "a3f0c6").await })
//!     .await?;
//! # Ok(id) }
//! ```

use std::fmt;
use std::sync::Arc;

use crate::error::{Decision, Error};
use crate::ownership::Proof;

/// What is done to a cloud object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Make a new one.
    Create,
    /// Change an existing one.
    Update,
    /// Remove an existing one.
    Delete,
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        })
    }
}

/// One change that a provider is about to make, in words a person can read in a plan or a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    verb: Verb,
    kind: &'static str,
    name: String,
    detail: String,
    proof: Option<Proof>,
}

impl Change {
    /// A new object of this kind ("load balancer", "listener", "route") under this name.
    pub fn create(kind: &'static str, name: impl Into<String>) -> Self {
        Self { verb: Verb::Create, kind, name: name.into(), detail: String::new(), proof: None }
    }

    /// A change of an existing object, which must be ours.
    pub fn update(kind: &'static str, name: impl Into<String>, proof: &Proof) -> Self {
        Self { verb: Verb::Update, proof: Some(proof.clone()), ..Self::create(kind, name) }
    }

    /// The end of an existing object, which must be ours.
    pub fn delete(kind: &'static str, name: impl Into<String>, proof: &Proof) -> Self {
        Self { verb: Verb::Delete, proof: Some(proof.clone()), ..Self::create(kind, name) }
    }

    /// What exactly changes, for the plan and the log. No secrets.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    /// Create, update or delete.
    pub fn verb(&self) -> Verb {
        self.verb
    }

    /// The kind of object, in the cloud's own words.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The object's name or ID.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Why we may touch it; nothing for a create.
    pub fn proof(&self) -> Option<&Proof> {
        self.proof.as_ref()
    }

    /// What exactly changes.
    pub fn detail_text(&self) -> &str {
        &self.detail
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.verb, self.kind, self.name)?;
        if self.detail.is_empty() { Ok(()) } else { write!(f, ": {}", self.detail) }
    }
}

/// How a change ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The cloud accepted it.
    Made,
    /// The call failed; whether the cloud made the change is not known.
    Failed(Decision),
    /// The caller was cancelled while the call was under way; whether the cloud made the change is not known.
    Interrupted,
}

/// Why a gate did not let a change start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// This process may no longer hold the lease.
    Fenced,
    /// Observe mode: recorded instead of made.
    Recorded,
}

/// The keeper of the gate; the manager implements it, providers never do.
pub trait Gate: Send + Sync + 'static {
    /// Asked before each change, at the moment it would start.
    fn admit(&self, change: &Change) -> Result<(), Refusal>;

    /// Whether a call may (still) be started now: asked again before each retry of an admitted change.
    fn may_start(&self) -> bool;

    /// Told once how each admitted change ended.
    fn ended(&self, change: &Change, outcome: Outcome);
}

/// A provider's way to change its cloud. Cheap to clone.
#[derive(Clone)]
pub struct Changes {
    gate: Arc<dyn Gate>,
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Changes")
    }
}

impl Changes {
    /// Changes that pass through this gate.
    pub fn through(gate: Arc<dyn Gate>) -> Self {
        Self { gate }
    }

    /// Makes one change: asks the gate, runs `call` with the permit, and records how it ended, also when the caller
    /// is cancelled half-way.
    pub async fn make<T, F, Fut>(&self, change: Change, call: F) -> Result<T, Error>
    where
        F: FnOnce(Permit) -> Fut,
        Fut: Future<Output = Result<T, Error>>,
    {
        self.gate.admit(&change).map_err(|refusal| refused(refusal, &change))?;
        let permit = Permit { gate: Arc::clone(&self.gate), change: Arc::new(change) };
        let mut record =
            Record { gate: &*self.gate, change: Arc::clone(&permit.change), outcome: Outcome::Interrupted };
        let result = call(permit).await;
        record.outcome = match &result {
            Ok(_) => Outcome::Made,
            Err(error) => Outcome::Failed(error.decision().clone()),
        };
        result
    }
}

/// The right to make one change. Only the gate hands it out; whatever sends a write to a cloud asks for one.
pub struct Permit {
    gate: Arc<dyn Gate>,
    change: Arc<Change>,
}

impl Permit {
    /// The change that was admitted.
    pub fn change(&self) -> &Change {
        &self.change
    }

    /// To be called before each attempt after the first: a lease may have passed on while we waited.
    pub fn check(&self) -> Result<(), Error> {
        if self.gate.may_start() { Ok(()) } else { Err(refused(Refusal::Fenced, &self.change)) }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permit({})", self.change)
    }
}

fn refused(refusal: Refusal, change: &Change) -> Error {
    match refusal {
        Refusal::Fenced => Error::new(
            Decision::Fenced,
            format!("did not {change}: this process may no longer hold the leader lease"),
        ),
        Refusal::Recorded => Error::new(Decision::Recorded, format!("observe mode: would {change}")),
    }
}

/// Reports the outcome when dropped, so that a cancelled call is reported too.
struct Record<'a> {
    gate: &'a dyn Gate,
    change: Arc<Change>,
    outcome: Outcome,
}

impl Drop for Record<'_> {
    fn drop(&mut self) {
        let outcome = std::mem::replace(&mut self.outcome, Outcome::Interrupted);
        self.gate.ended(&self.change, outcome);
    }
}

#[cfg(test)]
mod tests;
