//! What a client asks for when it makes or changes an object.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::{Settings, Tags};

/// What is asked of a new address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewAddress {
    /// Its name.
    pub name: String,
    /// Whether it is an IPv6 address.
    pub ipv6: bool,
    /// This very address; refused if somebody has it.
    #[serde(default)]
    pub ip: Option<IpAddr>,
    /// Its tags.
    #[serde(default)]
    pub tags: Tags,
    /// Asked again under the same token, the cloud answers with what the token made.
    #[serde(default)]
    pub token: Option<String>,
}

/// What is asked of a new balancer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewBalancer {
    /// Its name.
    pub name: String,
    /// Its tags.
    #[serde(default)]
    pub tags: Tags,
    /// The IDs of the addresses it shall answer at.
    pub addresses: BTreeSet<String>,
    /// How it is set up.
    pub settings: Settings,
    /// The instances it sends to, by their IDs.
    pub backends: BTreeSet<String>,
    /// Asked again under the same token, the cloud answers with what the token made.
    #[serde(default)]
    pub token: Option<String>,
}

/// What a balancer shall be from now on; its backends stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BalancerUpdate {
    /// Its tags.
    pub tags: Tags,
    /// The IDs of the addresses it shall answer at.
    pub addresses: BTreeSet<String>,
    /// How it is set up.
    pub settings: Settings,
}

/// What is asked of a new route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewRoute {
    /// Its name.
    pub name: String,
    /// Where it leads.
    pub destination: IpNet,
    /// The name of the instance it leads to.
    pub node: Option<String>,
    /// Pairs of type and address of that instance.
    #[serde(default)]
    pub addresses: Vec<(String, String)>,
    /// Its tags.
    #[serde(default)]
    pub tags: Tags,
    /// Asked again under the same token, the cloud answers with what the token made.
    #[serde(default)]
    pub token: Option<String>,
}

/// What is asked of a new volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewDisk {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The zones in which it may be made; empty for any.
    #[serde(default)]
    pub zones: Vec<String>,
    /// Its tags.
    #[serde(default)]
    pub tags: Tags,
    /// Asked again under the same token, the cloud answers with what the token made.
    #[serde(default)]
    pub token: Option<String>,
}
