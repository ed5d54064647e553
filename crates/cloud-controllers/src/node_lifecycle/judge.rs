//! Whether a Node whose instance was twice not found may go. Pure: the picture is handed in, the verdict comes out.

use std::time::Duration;

use super::settings::{Policy, Settings};

/// What the cloud showed of one cluster's Nodes, at the moment of the confirming look-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Picture {
    /// How many Nodes of this cloud the cluster has, and had when the budget's window began.
    pub nodes: usize,
    /// How many of them are absent now, or were deleted within the window.
    pub vanished: usize,
    /// Nodes that should exist and that the cloud knows.
    pub witnesses: usize,
    /// Nodes that should exist and that the cloud does not know.
    pub denied: usize,
    /// Nodes that should exist and of which the cloud could not tell just now.
    pub unsure: usize,
    /// How many more Nodes the budget lets go.
    pub budget: usize,
}

/// Why a picture is not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Suspicion {
    /// A Node that must exist is absent too.
    #[error(
        "the cloud does not know {0} nodes either that must exist: it looks like another project's inventory"
    )]
    Foreign(usize),
    /// No Node of this cluster is to be seen.
    #[error("the cloud shows no node of this cluster: it looks like another project's inventory")]
    NoWitness,
    /// Too many at once.
    #[error("{vanished} of {nodes} nodes vanished at once, and not more than {limit} are believed")]
    TooMany {
        /// How many.
        vanished: usize,
        /// Of how many.
        nodes: usize,
        /// How many would be believed.
        limit: usize,
    },
}

/// Why one Node is not deleted although its instance is gone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is younger than the grace period.
    #[error("it is younger than {}s, and new instances are often not to be seen yet", .0.as_secs())]
    TooYoung(Duration),
    /// It never had a provider ID.
    #[error("it has no provider ID, so nobody knows that it ever was this cloud's")]
    NeverOurs,
    /// The cloud could not even answer for Nodes that must exist.
    #[error("the cloud could not tell of {0} other nodes at that moment")]
    Unsure(usize),
    /// The breaker is open.
    #[error("{0}")]
    Breaker(Suspicion),
    /// Enough were deleted for now.
    #[error("the budget of deletions is used up for now")]
    Budget,
}

impl Refusal {
    /// The word for it in metrics. INVARIANT: alerts match on it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::TooYoung(_) => "too_young",
            Self::NeverOurs => "no_provider_id",
            Self::Unsure(_) => "unsure",
            Self::Breaker(Suspicion::Foreign(_)) => "foreign_inventory",
            Self::Breaker(Suspicion::NoWitness) => "no_witness",
            Self::Breaker(Suspicion::TooMany { .. }) => "too_many",
            Self::Budget => "budget",
        }
    }

    /// What a person can do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::TooYoung(_) | Self::Unsure(_) | Self::Budget => {
                "it is looked at again; nothing needs to be done"
            }
            Self::NeverOurs => "delete it by hand if its machine is gone",
            Self::Breaker(_) => {
                "check region, project and credential in the cloud config; if these nodes are truly gone, say so with \
                 the annotation nephos/allow-deletion=true"
            }
        }
    }
}

/// A Node whose instance was twice not found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// Its age by its own timestamp; `None` if it has none.
    pub age: Option<Duration>,
    /// For how long this process has known it.
    pub known_for: Duration,
    /// Whether it has a provider ID.
    pub has_provider_id: bool,
    /// Whether a person said that it may go.
    pub allowed: bool,
}

/// What becomes of a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is deleted.
    Delete,
    /// It is tainted.
    Taint,
    /// It is told of.
    Report,
    /// It is left alone.
    Refuse(Refusal),
}

/// Whether a picture is to be believed. Once it was not (`open`), half as many absences are believed: the Nodes that a
/// person lets go must not make the others plausible.
pub fn suspect(picture: &Picture, open: bool, settings: &Settings) -> Option<Suspicion> {
    let limit = settings.breaker.of(picture.nodes) / if open { 2 } else { 1 };
    if picture.denied > 0 {
        return Some(Suspicion::Foreign(picture.denied));
    }
    if picture.witnesses == 0 {
        return Some(Suspicion::NoWitness);
    }
    let (vanished, nodes) = (picture.vanished, picture.nodes);
    (vanished > limit).then_some(Suspicion::TooMany { vanished, nodes, limit })
}

/// The verdict on one Node, given the picture, and why it is not believed, if it is not.
///
/// A person's word overrides breaker and budget; it does not make a Node older or ours, nor the cloud surer.
pub fn judge(case: &Case, picture: &Picture, suspicion: Option<&Suspicion>, settings: &Settings) -> Verdict {
    let young = |age: Duration| age < settings.grace;
    if case.age.is_none_or(young) || young(case.known_for) {
        return Verdict::Refuse(Refusal::TooYoung(settings.grace));
    }
    if !case.has_provider_id && !settings.without_provider_id {
        return Verdict::Refuse(Refusal::NeverOurs);
    }
    let overridden = case.allowed || settings.override_by.is_some();
    match (settings.policy, suspicion) {
        (_, Some(suspicion)) if !overridden => Verdict::Refuse(Refusal::Breaker(suspicion.clone())),
        _ if picture.unsure > 0 => Verdict::Refuse(Refusal::Unsure(picture.unsure)),
        (Policy::Delete, _) if picture.budget == 0 && !overridden => Verdict::Refuse(Refusal::Budget),
        (Policy::Delete, _) => Verdict::Delete,
        (Policy::Taint, _) => Verdict::Taint,
        (Policy::Report, _) => Verdict::Report,
    }
}
