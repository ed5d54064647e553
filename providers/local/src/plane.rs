//! What makes an intent true: the seam between the balancers that Services ask for and whatever forwards their traffic.

use std::io;
use std::time::Duration;

use async_trait::async_trait;
use cloud_provider::{Decision, Error, Permit};

use crate::intent::{Intent, Status};

mod feed;

/// A data plane: it holds one intent and keeps it true, whoever wrote it and whether or not the writer still lives.
#[async_trait]
pub trait DataPlane: Send + Sync + 'static {
    /// How it forwards.
    fn forwarding(&self) -> Forwarding {
        Forwarding::UserSpace
    }

    /// The intent in force.
    async fn intent(&self) -> Result<Intent, PlaneError>;

    /// What of the intent is true.
    async fn status(&self) -> Result<Status, PlaneError>;

    /// The same of one balancer; whatever is told of others besides is not asked for.
    async fn status_of(&self, _uid: &str) -> Result<Status, PlaneError> {
        self.status().await
    }

    /// Puts a whole new intent in force, which was made from the one of its own revision, and tells the revision that it
    /// has now. Refused whole or taken whole. The permit shows that the gate let this change start.
    async fn apply(&self, intent: Intent, permit: &Permit) -> Result<u64, PlaneError>;
}

/// How a data plane forwards: what a Service may ask of it, and what its status says, follow from that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forwarding {
    /// It ends the client's connection and makes one of its own: nodes must not take a short cut to the virtual address.
    UserSpace,
    /// It passes packets on: nodes know the virtual address and may answer there themselves.
    Kernel,
}

/// Why a data plane did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum PlaneError {
    /// Somebody else changed the intent meanwhile: read it again.
    #[error("the data plane is at revision {in_force}, and the change was made from revision {made_from}")]
    Conflict {
        /// The revision in force.
        in_force: u64,
        /// The revision from which the refused intent was made.
        made_from: u64,
    },
    /// It can never be true.
    #[error("the data plane refuses the intent: {0}")]
    Refused(String),
    /// Nobody answers at the socket, or the answer cannot be read. Whether the intent is in force is not known.
    #[error("speaking to the data plane at {place}")]
    Unreachable {
        /// Where it should be.
        place: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// It tried and failed.
    #[error("the data plane failed: {0}")]
    Failed(String),
}

/// How soon a writer that came too late looks again.
const AFTER_CONFLICT: Duration = Duration::from_millis(100);

impl PlaneError {
    /// As an error of the contract; `attempt` says what was tried.
    pub fn during(self, attempt: impl Into<String>) -> Error {
        let decision = match &self {
            Self::Conflict { .. } => Decision::RetryAfter { after: AFTER_CONFLICT },
            Self::Refused(_) => Decision::InvalidConfig,
            Self::Unreachable { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Decision::Unauthorized
            }
            Self::Unreachable { .. } | Self::Failed(_) => Decision::Other,
        };
        Error::new(decision, attempt).because(self)
    }
}
