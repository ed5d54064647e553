//! How a leader is elected.

use controller_kit::leader::Timing;

use crate::options::leader::LeaderOptions;

/// Which Lease this manager is known by: it is what Events about the manager itself refer to, with an election or without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl LeaseName {
    pub(super) fn of(leader: &LeaderOptions) -> Self {
        Self {
            namespace: leader.leader_elect_resource_namespace.clone(),
            name: leader.leader_elect_resource_name.clone(),
        }
    }
}

/// How to elect a leader.
#[derive(Debug, Clone)]
pub struct Election {
    /// The Lease.
    pub lease: LeaseName,
    /// The three numbers.
    pub timing: Timing,
}

/// `None` to run without an election.
pub(super) fn check(leader: &LeaderOptions) -> Result<Option<Election>, Vec<String>> {
    if !leader.leader_elect {
        return Ok(None);
    }
    let timing = Timing {
        lease_duration: leader.leader_elect_lease_duration.get(),
        renew_deadline: leader.leader_elect_renew_deadline.get(),
        retry_period: leader.leader_elect_retry_period.get(),
    };
    let mut errors = Vec::new();
    if leader.leader_elect_resource_lock != "leases" {
        errors.push(format!(
            "--leader-elect-resource-lock={} is not supported: only leases is",
            leader.leader_elect_resource_lock
        ));
    }
    if let Err(error) = timing.validate() {
        errors.push(format!("--leader-elect-*: {error}"));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok(Some(Election { lease: LeaseName::of(leader), timing }))
}
