//! An address as an inventory writes it: `192.0.2.11`, or with its type, `ExternalIP: 203.0.113.9`.

use std::fmt;
use std::net::IpAddr;

use cloud_provider::nearest::nearest;
use cloud_provider::well_known::address_types::{
    EXTERNAL_DNS, EXTERNAL_IP, HOSTNAME, INTERNAL_DNS, INTERNAL_IP,
};
use serde::Deserialize;
use serde::de::{Error, MapAccess, Visitor};

const TYPES: [&str; 5] = [INTERNAL_IP, EXTERNAL_IP, INTERNAL_DNS, EXTERNAL_DNS, HOSTNAME];

/// An address and its type, as Nodes have them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) type_: String,
    pub(super) text: String,
}

impl Address {
    /// Whether a Node can have it; if not, why.
    pub(super) fn check(&self) -> Result<(), String> {
        if !TYPES.contains(&self.type_.as_str()) {
            let hint = nearest(&self.type_, TYPES).map(|type_| format!(": did you mean {type_}?"));
            return Err(format!("{:?} is no type of address{}", self.type_, hint.unwrap_or_default()));
        }
        if self.text.is_empty() {
            return Err(format!("the {} is empty", self.type_));
        }
        if self.type_.ends_with("IP") && self.text.parse::<IpAddr>().is_err() {
            return Err(format!("{:?} is no IP address", self.text));
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Written)
    }
}

struct Written;

impl<'de> Visitor<'de> for Written {
    type Value = Address;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an IP address, or one address with its type as in `ExternalIP: 192.0.2.1`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Address, E> {
        Ok(Address { type_: INTERNAL_IP.to_owned(), text: text.to_owned() })
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Address, M::Error> {
        let Some((type_, text)) = map.next_entry::<String, String>()? else {
            return Err(M::Error::invalid_length(0, &self));
        };
        match map.next_key::<String>()? {
            None => Ok(Address { type_, text }),
            Some(_) => Err(M::Error::invalid_length(2, &self)),
        }
    }
}
