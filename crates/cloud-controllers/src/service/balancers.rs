//! The cloud's load balancers, as the controller calls them: one handle per urgency, so that the budget knows who waits.

use std::sync::Arc;

use cloud_provider::{Capability, LoadBalancers};

use crate::around::{Surrounded, Urgency};

/// The cloud has no load balancers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", Capability::LoadBalancers.missing())]
pub struct NotSupported;

/// One handle per urgency.
#[derive(Clone)]
pub struct Balancers {
    /// For what somebody waits for.
    pub create: Arc<dyn LoadBalancers>,
    /// For keeping known load balancers true.
    pub refresh: Arc<dyn LoadBalancers>,
    /// For comparing what should not have changed.
    pub drift: Arc<dyn LoadBalancers>,
}

impl std::fmt::Debug for Balancers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Balancers")
    }
}

impl Balancers {
    /// Those of a surrounded cloud.
    pub fn of(cloud: &Surrounded) -> Result<Self, NotSupported> {
        let handle = |urgency| cloud.cloud(urgency).load_balancers.ok_or(NotSupported);
        Ok(Self {
            create: handle(Urgency::Create)?,
            refresh: handle(Urgency::Refresh)?,
            drift: handle(Urgency::Drift)?,
        })
    }
}
