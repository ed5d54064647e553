//! What changes between two intents. Pure: a data plane does it, a person reads it.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::{Backend, Balancer, Delivery, Intent, Port, PortKey, Settings, Uid};

/// One step from an intent to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A balancer goes, with all it has.
    Remove(Uid),
    /// A balancer comes, with all it has.
    Add(Uid, Arc<Balancer>),
    /// It belongs to another cluster identity, namespace or name (as when a cluster's own identity becomes known).
    Rename {
        /// The UID of the Service, which stays.
        uid: Uid,
        /// The cluster.
        cluster: Option<String>,
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
    },
    /// It answers no longer at this address.
    RemoveAddress(Uid, IpAddr),
    /// It answers at this address too.
    AddAddress(Uid, IpAddr),
    /// A port goes.
    RemovePort(Uid, PortKey),
    /// A port comes.
    AddPort(Uid, PortKey, Port),
    /// The backends of a port are reached in another way.
    Deliver(Uid, PortKey, Delivery),
    /// A backend goes.
    RemoveBackend(Uid, PortKey, Backend),
    /// A backend comes.
    AddBackend(Uid, PortKey, Backend),
    /// A backend stays and has another weight or node name.
    UpdateBackend(Uid, PortKey, Backend),
    /// Other settings.
    Configure(Uid, Box<Settings>),
}

/// What must be done to come from `now` to `wanted`, in an order that works: what is freed before what is taken.
pub fn plan(now: &Intent, wanted: &Intent) -> Vec<Change> {
    let (mut freed, mut taken) = (Vec::new(), Vec::new());
    for uid in now.balancers.keys().filter(|uid| !wanted.balancers.contains_key(*uid)) {
        freed.push(Change::Remove(uid.clone()));
    }
    for (uid, balancer) in &wanted.balancers {
        match now.balancers.get(uid) {
            None => taken.push(Change::Add(uid.clone(), Arc::clone(balancer))),
            Some(before) if Arc::ptr_eq(before, balancer) => {}
            Some(before) => compare(uid, before, balancer, &mut freed, &mut taken),
        }
    }
    freed.append(&mut taken);
    freed
}

fn compare(uid: &Uid, before: &Balancer, after: &Balancer, freed: &mut Vec<Change>, taken: &mut Vec<Change>) {
    let names = |it: &Balancer| (it.cluster.clone(), it.namespace.clone(), it.name.clone());
    if names(before) != names(after) {
        let (cluster, namespace, name) = names(after);
        taken.push(Change::Rename { uid: uid.clone(), cluster, namespace, name });
    }
    let gone = before.addresses.difference(&after.addresses);
    freed.extend(gone.map(|address| Change::RemoveAddress(uid.clone(), *address)));
    let new = after.addresses.difference(&before.addresses);
    taken.extend(new.map(|address| Change::AddAddress(uid.clone(), *address)));
    for key in before.ports.keys().filter(|key| !after.ports.contains_key(*key)) {
        freed.push(Change::RemovePort(uid.clone(), *key));
    }
    for (key, port) in &after.ports {
        match before.ports.get(key) {
            None => taken.push(Change::AddPort(uid.clone(), *key, port.clone())),
            Some(old) => compare_ports(uid, *key, old, port, taken),
        }
    }
    if before.settings != after.settings {
        taken.push(Change::Configure(uid.clone(), Box::new(after.settings.clone())));
    }
}

/// A backend is the same one while its address and port are. New ones come before old ones go, so that a port whose
/// backends all change is never empty in between.
fn compare_ports(uid: &Uid, key: PortKey, before: &Port, after: &Port, changes: &mut Vec<Change>) {
    if before.delivery != after.delivery {
        changes.push(Change::Deliver(uid.clone(), key, after.delivery));
    }
    let sockets = |port: &Port| port.backends.iter().map(Backend::socket).collect::<BTreeSet<SocketAddr>>();
    let (old, new) = (sockets(before), sockets(after));
    for backend in after.backends.difference(&before.backends) {
        changes.push(if old.contains(&backend.socket()) {
            Change::UpdateBackend(uid.clone(), key, backend.clone())
        } else {
            Change::AddBackend(uid.clone(), key, backend.clone())
        });
    }
    for backend in before.backends.iter().filter(|backend| !new.contains(&backend.socket())) {
        changes.push(Change::RemoveBackend(uid.clone(), key, backend.clone()));
    }
}

impl Change {
    /// The balancer that changes.
    pub fn uid(&self) -> &Uid {
        match self {
            Self::Remove(uid)
            | Self::Add(uid, _)
            | Self::Rename { uid, .. }
            | Self::RemoveAddress(uid, _)
            | Self::AddAddress(uid, _)
            | Self::RemovePort(uid, _)
            | Self::AddPort(uid, ..)
            | Self::Deliver(uid, ..)
            | Self::RemoveBackend(uid, ..)
            | Self::AddBackend(uid, ..)
            | Self::UpdateBackend(uid, ..)
            | Self::Configure(uid, _) => uid,
        }
    }
}

/// In words for an Event, where the Service is known from elsewhere.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Remove(_) => f.write_str("the balancer is to go"),
            Self::Add(..) => f.write_str("the balancer is missing"),
            Self::Rename { namespace, name, .. } => write!(f, "the Service is now {namespace}/{name}"),
            Self::RemoveAddress(_, address) => write!(f, "address {address} is to go"),
            Self::AddAddress(_, address) => write!(f, "address {address} is missing"),
            Self::RemovePort(_, port) => write!(f, "port {port} is to go"),
            Self::AddPort(_, port, _) => write!(f, "port {port} is missing"),
            Self::Deliver(_, port, Delivery::Rewritten) => {
                write!(f, "port {port} is to reach backends at their own address")
            }
            Self::Deliver(_, port, Delivery::Unmodified) => {
                write!(f, "port {port} is to reach backends with the virtual address unmodified")
            }
            Self::RemoveBackend(_, port, backend) => write!(f, "backend {backend} of {port} is to go"),
            Self::AddBackend(_, port, backend) => write!(f, "backend {backend} of {port} is missing"),
            Self::UpdateBackend(_, port, backend) => {
                write!(f, "backend {backend} of {port} is to have weight {}", backend.weight)
            }
            Self::Configure(..) => f.write_str("the settings differ"),
        }
    }
}
