//! How the two node controllers ask for instances: by what for. How many calls that takes, and whose turn it is, is the
//! business of whoever implements it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cloud_provider::{Existence, NodeRef};

use crate::around::{Age, Loader, Urgency};

/// What an answer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// A Node waits to be initialised.
    Initialise,
    /// Known Nodes are kept true; nobody waits.
    Refresh,
    /// A Node is not ready: is there still an instance?
    Watch,
    /// The cloud does not know a Node: does it know those that must exist? Only an answer that was asked for now will do.
    Suspect,
    /// A Node may be deleted: only an answer that was asked for now, of the cloud itself, will do.
    Confirm,
}

/// Answers for Nodes. It never fails: what cannot be answered is [`Existence::Unknown`].
#[async_trait]
pub trait Lookup: Send + Sync + 'static {
    /// The answer for one node; questions that come at the same time may be asked together.
    async fn one(&self, node: &NodeRef, purpose: Purpose) -> Arc<Existence>;

    /// One answer per node, in the order asked.
    async fn many(&self, nodes: &[NodeRef], purpose: Purpose) -> Vec<Arc<Existence>>;

    /// A Node of this name is gone; another of that name may be another machine.
    fn forget(&self, name: &str);
}

/// How old an answer may be that says what to do about a Node that is not ready.
const WATCH_AGE: Duration = Duration::from_secs(2);

/// How old an answer may be that keeps a Node true.
const REFRESH_AGE: Duration = Duration::from_secs(30);

#[async_trait]
impl Lookup for Loader {
    async fn one(&self, node: &NodeRef, purpose: Purpose) -> Arc<Existence> {
        Loader::one(self, node, purpose.urgency()).await
    }

    async fn many(&self, nodes: &[NodeRef], purpose: Purpose) -> Vec<Arc<Existence>> {
        let age = match purpose {
            Purpose::Confirm => Age::Now,
            Purpose::Suspect => Age::AtMost(Duration::ZERO),
            Purpose::Watch | Purpose::Initialise => Age::AtMost(WATCH_AGE),
            Purpose::Refresh => Age::AtMost(REFRESH_AGE),
        };
        Loader::many(self, nodes, purpose.urgency(), age).await
    }

    fn forget(&self, name: &str) {
        Loader::forget(self, name);
    }
}

impl Purpose {
    fn urgency(self) -> Urgency {
        match self {
            Self::Initialise | Self::Watch | Self::Suspect | Self::Confirm => Urgency::Initialise,
            Self::Refresh => Urgency::Refresh,
        }
    }
}
