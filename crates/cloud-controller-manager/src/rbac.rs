//! The rights that the manager needs, as data: printed as roles by `rbac`, and asked for at start by the self-check.
//!
//! Each right is there because some request is made; what is not enabled asks for nothing. No wildcard, no Secret.

mod manifest;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use cloud_provider::Capability;
use cloud_provider::well_known::{config_maps, leases};

pub use self::manifest::manifest;
use crate::app::controllers::{Row, Watched};
use crate::config::Config;

/// A right that a controller needs on a whole kind, everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Right {
    /// The API group; empty for the core.
    pub group: &'static str,
    /// The resource, with its subresource: `nodes/status`.
    pub resource: &'static str,
    /// What is done to it.
    pub verbs: &'static [&'static str],
    /// What goes without it, where the rest works still.
    pub without: Option<&'static str>,
}

impl Right {
    /// A right that there is no work without.
    pub const fn needed(group: &'static str, resource: &'static str, verbs: &'static [&'static str]) -> Self {
        Self { group, resource, verbs, without: None }
    }

    /// A right for something extra.
    pub const fn extra(
        group: &'static str,
        resource: &'static str,
        verbs: &'static [&'static str],
        without: &'static str,
    ) -> Self {
        Self { group, resource, verbs, without: Some(without) }
    }
}

/// A right with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// On what.
    pub right: Right,
    /// In this namespace; everywhere if `None`.
    pub namespace: Option<String>,
    /// On the object of this name; on all if `None`.
    pub name: Option<String>,
}

/// Who needs what, by account: the manager's own under the empty name, then one per service account.
pub type Grants = BTreeMap<&'static str, Vec<Grant>>;

/// What decides which rights are needed.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each for itself")]
pub struct Needs {
    /// The controllers that run.
    pub controllers: Vec<&'static Row>,
    /// Namespace and names of the leases that are stood for.
    pub leases: Vec<(String, String)>,
    /// Whether a port is served and tokens and rights of its clients are looked up.
    pub serving: bool,
    /// Whether the API server's published authorities are read.
    pub lookup: bool,
    /// Whether each controller has a service account of its own.
    pub own_accounts: bool,
    /// Whether the pods behind Services are read.
    pub endpoints: bool,
}

impl Needs {
    /// What a configuration needs with these controllers.
    pub fn of(config: &Config, controllers: Vec<&'static Row>) -> Self {
        let mut leases = Vec::new();
        if let Some(election) = &config.election {
            leases.push((election.lease.namespace.clone(), election.lease.name.clone()));
            let second = config.migration.as_ref().map(|migration| migration.leader_name.clone());
            leases.extend(second.map(|name| (election.lease.namespace.clone(), name)));
        }
        Self {
            controllers,
            leases,
            serving: config.serving.options.port.is_some(),
            lookup: !config.serving.authentication.skip_lookup,
            own_accounts: config.own_accounts,
            endpoints: false,
        }
    }
}

/// The manager's own account in [`Grants`].
pub const MANAGER: &str = "";

const EVENTS: Right = Right::needed("", "events", &["create", "patch"]);

const ENDPOINTS: Right = Right::extra(
    "discovery.k8s.io",
    "endpointslices",
    &["list", "watch"],
    "load balancers for Services without node ports",
);

/// All rights that are needed.
pub fn grants(needs: &Needs) -> Grants {
    let mut grants = Grants::new();
    let everywhere = |right| Grant { right, namespace: None, name: None };
    let own = grants.entry(MANAGER).or_default();
    own.extend(manager(needs));
    for (kind, resource) in [(Watched::Nodes, "nodes"), (Watched::Services, "services")] {
        if needs.controllers.iter().any(|row| row.watches.contains(&kind)) {
            own.push(everywhere(Right::needed("", resource, &["list", "watch"])));
        }
    }
    if needs.endpoints && needs.controllers.iter().any(|row| row.needs == Some(Capability::LoadBalancers)) {
        own.push(everywhere(ENDPOINTS));
    }
    for row in &needs.controllers {
        let account = if needs.own_accounts { row.client } else { MANAGER };
        let account = grants.entry(account).or_default();
        for right in row.rights {
            let grant = everywhere(*right);
            if !account.contains(&grant) {
                account.push(grant);
            }
        }
    }
    grants
}

/// What the process needs whichever controllers run.
fn manager(needs: &Needs) -> Vec<Grant> {
    let named = |namespace: &str, name: &str, right| Grant {
        right,
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
    };
    let everywhere = |right| Grant { right, namespace: None, name: None };
    let mut grants = vec![everywhere(EVENTS)];
    let identity =
        Right::extra("", "namespaces", &["get"], "telling this cluster's cloud objects from others' by tag");
    grants.push(Grant { right: identity, namespace: None, name: Some(leases::NAMESPACE.to_owned()) });
    for (namespace, name) in &needs.leases {
        // A create cannot be bound to a name: the API server does not know it yet.
        let create = Right::needed("coordination.k8s.io", "leases", &["create"]);
        grants.push(Grant { right: create, namespace: Some(namespace.clone()), name: None });
        grants.push(named(
            namespace,
            name,
            Right::needed("coordination.k8s.io", "leases", &["get", "update"]),
        ));
        let watch = Right::extra(
            "coordination.k8s.io",
            "leases",
            &["watch"],
            "noticing at once that the lease is free",
        );
        grants.push(named(namespace, name, watch));
    }
    if needs.serving {
        grants.push(everywhere(Right::needed("authentication.k8s.io", "tokenreviews", &["create"])));
        grants.push(everywhere(Right::needed("authorization.k8s.io", "subjectaccessreviews", &["create"])));
    }
    if needs.serving && needs.lookup {
        let read = Right::needed("", "configmaps", &["get"]);
        grants.push(named(leases::NAMESPACE, config_maps::AUTHENTICATION, read));
    }
    if needs.own_accounts {
        let create =
            Right::extra("", "serviceaccounts", &["create"], "making service accounts that are missing");
        grants.push(Grant { right: create, namespace: Some(leases::NAMESPACE.to_owned()), name: None });
        for account in accounts(needs) {
            grants.push(named(
                leases::NAMESPACE,
                account,
                Right::needed("", "serviceaccounts/token", &["create"]),
            ));
            grants.push(named(leases::NAMESPACE, account, Right::needed("", "serviceaccounts", &["get"])));
        }
    }
    grants
}

/// The service accounts of the controllers that run, each once.
pub fn accounts(needs: &Needs) -> Vec<&'static str> {
    let mut accounts: Vec<&'static str> = needs.controllers.iter().map(|row| row.client).collect();
    accounts.sort_unstable();
    accounts.dedup();
    accounts
}
