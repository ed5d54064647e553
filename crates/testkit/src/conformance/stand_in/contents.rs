//! What is in a cloud, as plain data that every cloud can be brought to.

use std::collections::{BTreeMap, BTreeSet};

use cloud_provider::load_balancer::Protocol;
use cloud_provider::ownership::{CLUSTER_TAG, OWNER_TAG};
use ipnet::IpNet;

/// Everything in a cloud that a manager could have made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Contents {
    /// The objects, in any order.
    pub objects: Vec<Object>,
}

/// One object of the cloud.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// The kind, in the cloud's own word.
    pub kind: String,
    /// The cloud's ID.
    pub id: String,
    /// Its name, if it has one.
    pub name: String,
    /// Its tags; `None` if objects of this kind cannot carry any.
    pub tags: Option<BTreeMap<String, String>>,
    /// What it is to a manager.
    pub detail: Detail,
    /// All that the cloud stores of it, but for what the cloud changes of its own accord. Equal bytes mean untouched.
    pub bytes: String,
}

/// What an object is to a manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detail {
    /// A balancer, with all that belongs to it brought together.
    Balancer(Balancer),
    /// A route.
    Route(Route),
    /// A volume.
    Volume(Volume),
    /// Part of something else: a listener, an address, a firewall rule.
    Part,
}

/// A balancer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Balancer {
    /// The addresses or host names it answers at.
    pub addresses: Vec<String>,
    /// Protocol, port, and the port on the nodes where there is one.
    pub listeners: BTreeSet<(Protocol, u16, Option<u16>)>,
    /// The names of the nodes behind it.
    pub backends: BTreeSet<String>,
    /// The networks that may connect; empty for everybody.
    pub source_ranges: BTreeSet<IpNet>,
    /// For how many seconds a client is kept to one backend.
    pub affinity: Option<u64>,
}

/// A route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Where it leads.
    pub destination: IpNet,
    /// The name of the node it leads to, where the cloud can tell.
    pub node: Option<String>,
}

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Volume {
    /// Its size.
    pub bytes: u64,
    /// The names of the nodes that hold it.
    pub attached_to: BTreeSet<String>,
}

impl Object {
    /// The identity of the cluster in its tag.
    pub fn cluster(&self) -> Option<&str> {
        self.tags.as_ref()?.get(CLUSTER_TAG).map(String::as_str)
    }

    /// The UID of the owner in its tag.
    pub fn owner(&self) -> Option<&str> {
        self.tags.as_ref()?.get(OWNER_TAG).map(String::as_str)
    }
}

impl Contents {
    /// The object of this ID.
    pub fn object(&self, id: &str) -> Option<&Object> {
        self.objects.iter().find(|object| object.id == id)
    }

    /// The balancers.
    pub fn balancers(&self) -> impl Iterator<Item = (&Object, &Balancer)> {
        self.objects.iter().filter_map(|object| match &object.detail {
            Detail::Balancer(balancer) => Some((object, balancer)),
            _ => None,
        })
    }

    /// The routes.
    pub fn routes(&self) -> impl Iterator<Item = (&Object, &Route)> {
        self.objects.iter().filter_map(|object| match &object.detail {
            Detail::Route(route) => Some((object, route)),
            _ => None,
        })
    }

    /// The volumes.
    pub fn volumes(&self) -> impl Iterator<Item = (&Object, &Volume)> {
        self.objects.iter().filter_map(|object| match &object.detail {
            Detail::Volume(volume) => Some((object, volume)),
            _ => None,
        })
    }

    /// The objects that were not there before.
    pub fn added_since(&self, before: &Contents) -> Vec<&Object> {
        self.objects.iter().filter(|object| before.object(&object.id).is_none()).collect()
    }

    /// What of `before` is gone or different now, in words.
    pub fn damage_since(&self, before: &Contents) -> Vec<String> {
        let damaged = |was: &Object| match self.object(&was.id) {
            None => Some(format!("{} {} ({}) is gone", was.kind, was.id, was.name)),
            Some(now) if now.bytes != was.bytes => {
                Some(format!("{} {} changed from {} to {}", was.kind, was.id, was.bytes, now.bytes))
            }
            Some(_) => None,
        };
        before.objects.iter().filter_map(damaged).collect()
    }

    /// How many objects of each kind there are: equal shapes mean that nothing was made twice and nothing is missing.
    pub fn shape(&self) -> BTreeMap<&str, usize> {
        let mut shape = BTreeMap::new();
        for object in &self.objects {
            *shape.entry(object.kind.as_str()).or_default() += 1;
        }
        shape
    }
}

/// Names objects for a message.
pub(crate) fn listed(objects: &[&Object]) -> String {
    let names: Vec<String> =
        objects.iter().map(|object| format!("{} {} ({})", object.kind, object.id, object.name)).collect();
    names.join(", ")
}
