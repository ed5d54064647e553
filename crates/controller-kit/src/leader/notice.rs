//! What an elector tells its surroundings; the caller turns it into events on the Lease.

use std::fmt;
use std::sync::Arc;

/// A change of leadership as this process sees it. Displays as the message of the event that upstream writes with the
/// reason `LeaderElection`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// We lead.
    BecameLeader {
        /// Our identity.
        identity: String,
    },
    /// We led and do so no more, whether lost or released.
    StoppedLeading {
        /// Our identity.
        identity: String,
    },
    /// Another leads. Upstream logs this and writes no event.
    NewLeader {
        /// Its identity.
        identity: String,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BecameLeader { identity } => write!(f, "{identity} became leader"),
            Self::StoppedLeading { identity } => write!(f, "{identity} stopped leading"),
            Self::NewLeader { identity } => write!(f, "new leader elected: {identity}"),
        }
    }
}

/// Whoever wants to hear of it. Called from the elector's task: it must not block.
pub type Listener = Arc<dyn Fn(&Notice) + Send + Sync>;
