//! The things that this cloud has, as its API shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use cloud_provider::load_balancer::{Family, Protocol};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::spell;

mod requests;

pub use requests::{BalancerUpdate, NewAddress, NewBalancer, NewDisk, NewRoute};

/// Tags on an object.
pub type Tags = BTreeMap<String, String>;

/// What every object has: an ID, a name that need not be unique, and tags.
pub trait Object: Clone + Send + 'static {
    /// The cloud's own ID.
    fn id(&self) -> &str;
    /// The name that its maker gave it.
    fn name(&self) -> &str;
    /// Its tags.
    fn tags(&self) -> &Tags;
    /// One that belongs to somebody else's project, for a list that a foreign credential sees.
    fn stranger() -> Option<Self> {
        None
    }
}

macro_rules! object {
    ($type:ty) => {
        impl Object for $type {
            fn id(&self) -> &str {
                &self.id
            }

            fn name(&self) -> &str {
                &self.name
            }

            fn tags(&self) -> &Tags {
                &self.tags
            }
        }
    };
}

/// An instance. Its provider ID is `fake://<id>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Machine {
    /// Its ID; its name if none is given.
    #[serde(default)]
    pub id: String,
    /// Its name: a Node without a provider ID is recognised by it.
    pub name: String,
    /// The instance type.
    #[serde(default = "default_type")]
    pub instance_type: String,
    /// The zone.
    #[serde(default = "default_zone")]
    pub zone: String,
    /// The region.
    #[serde(default = "default_region")]
    pub region: String,
    /// Pairs of type and address, in the order in which the cloud tells them.
    #[serde(default)]
    pub addresses: Vec<(String, String)>,
    /// Labels that its Node gets.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Whether it is shut down.
    #[serde(default)]
    pub stopped: bool,
    /// Its tags.
    #[serde(default)]
    pub tags: Tags,
}

pub(crate) fn default_type() -> String {
    "fake.small".to_owned()
}

pub(crate) fn default_zone() -> String {
    "fake-1a".to_owned()
}

pub(crate) fn default_region() -> String {
    "fake-1".to_owned()
}

impl Machine {
    /// A running instance of this name and ID, without addresses.
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            id: name.clone(),
            name,
            instance_type: default_type(),
            zone: default_zone(),
            region: default_region(),
            addresses: Vec::new(),
            labels: BTreeMap::new(),
            stopped: false,
            tags: Tags::new(),
        }
    }

    /// Gives it an ID that is not its name.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Adds an address.
    #[must_use]
    pub fn with_address(mut self, type_: &str, address: impl Into<String>) -> Self {
        self.addresses.push((type_.to_owned(), address.into()));
        self
    }

    /// Puts it into this zone and region.
    #[must_use]
    pub fn located(mut self, zone: impl Into<String>, region: impl Into<String>) -> Self {
        self.zone = zone.into();
        self.region = region.into();
        self
    }
}

impl Object for Machine {
    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn tags(&self) -> &Tags {
        &self.tags
    }

    fn stranger() -> Option<Self> {
        Some(Self::new("stranger-1").with_address("InternalIP", "10.255.255.1"))
    }
}

/// An IP address that was reserved, with or without a balancer that uses it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Address {
    /// Its ID.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The address itself.
    pub ip: IpAddr,
    /// Its tags.
    #[serde(default)]
    pub tags: Tags,
}
object!(Address);

impl Address {
    /// Its family.
    pub fn family(&self) -> Family {
        family_of(self.ip)
    }
}

/// The family of an IP address.
pub(crate) fn family_of(ip: IpAddr) -> Family {
    if ip.is_ipv4() { Family::V4 } else { Family::V6 }
}

/// A load balancer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Balancer {
    /// Its ID.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its tags.
    #[serde(default)]
    pub tags: Tags,
    /// The addresses it answers at, by their IDs.
    #[serde(default)]
    pub addresses: BTreeMap<String, IpAddr>,
    /// How it is set up.
    #[serde(default)]
    pub settings: Settings,
    /// The instances it sends to, by their IDs.
    #[serde(default)]
    pub backends: BTreeSet<String>,
    /// How long it is still being built; nothing once it serves.
    #[serde(default, with = "spell::maybe")]
    pub pending_for: Option<std::time::Duration>,
}
object!(Balancer);

impl Balancer {
    /// A balancer of this name that serves at once, for the back door.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            id: String::new(),
            name: name.into(),
            tags: Tags::new(),
            addresses: BTreeMap::new(),
            settings: Settings::default(),
            backends: BTreeSet::new(),
            pending_for: None,
        }
    }

    /// Adds a tag.
    #[must_use]
    pub fn tagged(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.insert(key.into(), value.into());
        self
    }
}

/// How a balancer is set up, apart from its addresses and its backends.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    /// Where it listens.
    pub listeners: Vec<Listener>,
    /// Who may connect; everybody if nobody is named.
    pub source_ranges: BTreeSet<IpNet>,
    /// How many seconds a client is kept to one backend.
    pub affinity_seconds: Option<u64>,
    /// Path and port at which it asks a backend whether it serves.
    pub health_check: Option<(String, u16)>,
    /// After how many seconds of silence it ends a connection.
    pub idle_seconds: Option<u64>,
}

/// One port of a balancer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// Where clients connect.
    pub port: u16,
    /// Where the instances listen; nothing if it sends straight to pods.
    pub node_port: Option<u16>,
}

impl Listener {
    /// A listener for one port of a Service.
    pub fn new(protocol: Protocol, port: u16, node_port: Option<u16>) -> Self {
        let protocol = match protocol {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
            Protocol::Sctp => "SCTP",
        };
        Self { protocol: protocol.to_owned(), port, node_port }
    }
}

/// A route in the cloud's one table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteEntry {
    /// Its ID.
    #[serde(default)]
    pub id: String,
    /// Its name.
    pub name: String,
    /// Where it leads.
    pub destination: IpNet,
    /// The name of the instance it leads to.
    #[serde(default)]
    pub node: Option<String>,
    /// Pairs of type and address of that instance, as its maker gave them.
    #[serde(default)]
    pub addresses: Vec<(String, String)>,
    /// The instance is gone, and what is sent there is dropped.
    #[serde(default)]
    pub blackhole: bool,
    /// Its tags.
    #[serde(default)]
    pub tags: Tags,
}
object!(RouteEntry);

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Disk {
    /// Its ID.
    #[serde(default)]
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The zone it lives in.
    pub zone: String,
    /// The region it lives in.
    pub region: String,
    /// The name of the instance that holds it, and the device path there.
    #[serde(default)]
    pub attached: Option<(String, String)>,
    /// Its tags.
    #[serde(default)]
    pub tags: Tags,
}
object!(Disk);
