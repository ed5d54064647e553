//! What the cloud says when it does not do what was asked, and which decision of the contract that is.

use std::time::Duration;

use cloud_provider::{Decision, Error};
use serde::{Deserialize, Serialize};

use crate::spell;

/// A refused, failed or unanswered call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ApiError {
    /// There is no such object.
    #[error("the cloud has no {what}")]
    NotFound {
        /// What was asked for.
        what: String,
    },
    /// The credential is not known.
    #[error("the cloud does not know the credential (401)")]
    Unauthorized,
    /// The credential may not do this.
    #[error("the credential may not do this (403)")]
    Forbidden,
    /// Too many calls.
    #[error("the cloud asks for fewer calls (429)")]
    Throttled {
        /// How long to wait, if the cloud says.
        #[serde(default, with = "spell::maybe")]
        after: Option<Duration>,
    },
    /// The account has no room.
    #[error("the quota of {kind} is used up")]
    QuotaExceeded {
        /// Of what.
        kind: String,
    },
    /// Something else stands in the way.
    #[error("{why}")]
    Conflict {
        /// What.
        why: String,
    },
    /// An instance or a balancer uses it.
    #[error("it is in use by {by}")]
    InUse {
        /// By what.
        by: String,
        /// The device path, for a volume.
        #[serde(default)]
        device: Option<String>,
    },
    /// The request makes no sense.
    #[error("{why}")]
    Invalid {
        /// Why.
        why: String,
    },
    /// It is still being built.
    #[error("it is still being built")]
    Pending {
        /// For how long.
        #[serde(with = "spell")]
        after: Duration,
    },
    /// The cloud broke.
    #[error("the cloud failed: {why}")]
    Failed {
        /// Its words.
        why: String,
    },
    /// The answer was lost; whether the cloud acted is not known.
    #[error("the cloud's answer was lost")]
    Lost,
    /// No answer in time; whether the cloud acted is not known.
    #[error("the cloud did not answer in time")]
    TimedOut,
    /// The cloud could not be reached: nothing was sent.
    #[error("the cloud could not be reached: {why}")]
    Unreachable {
        /// Why.
        why: String,
    },
}

impl ApiError {
    pub(crate) fn not_found(what: impl Into<String>) -> Self {
        Self::NotFound { what: what.into() }
    }

    /// A word for it, in the call log.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "not_found",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::Throttled { .. } => "throttled",
            Self::QuotaExceeded { .. } => "quota_exceeded",
            Self::Conflict { .. } => "conflict",
            Self::InUse { .. } => "in_use",
            Self::Invalid { .. } => "invalid",
            Self::Pending { .. } => "pending",
            Self::Failed { .. } => "failed",
            Self::Lost => "lost",
            Self::TimedOut => "timed_out",
            Self::Unreachable { .. } => "unreachable",
        }
    }

    /// What the caller of the provider should do.
    pub fn decision(&self) -> Decision {
        match self {
            Self::NotFound { .. } => Decision::NotFound,
            Self::Unauthorized | Self::Forbidden => Decision::Unauthorized,
            Self::Throttled { after } => Decision::Throttled { after: *after },
            Self::QuotaExceeded { .. } => Decision::QuotaExceeded,
            Self::InUse { by, device } => Decision::InUse { by: Some(by.clone()), device: device.clone() },
            Self::Invalid { .. } => Decision::InvalidConfig,
            Self::Pending { after } => Decision::RetryAfter { after: *after },
            Self::Conflict { .. }
            | Self::Failed { .. }
            | Self::Lost
            | Self::TimedOut
            | Self::Unreachable { .. } => Decision::Other,
        }
    }

    /// The contract's error for a call that was an attempt at this.
    pub fn during(self, attempt: impl Into<String>) -> Error {
        Error::new(self.decision(), attempt).because(self)
    }
}
