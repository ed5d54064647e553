//! How a leader is elected.

use controller_kit::leader::Timing;

use crate::options::leader::LeaderOptions;

/// How to elect a leader.
#[derive(Debug, Clone)]
pub struct Election {
    /// The Lease's namespace.
    pub namespace: String,
    /// The Lease's name.
    pub name: String,
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
    Ok(Some(Election {
        namespace: leader.leader_elect_resource_namespace.clone(),
        name: leader.leader_elect_resource_name.clone(),
        timing,
    }))
}
