//! Who has which address, gathered anew for each allocation.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::Request;
use crate::intent::PortKey;

/// Who has which address.
#[derive(Debug, Clone, Default)]
pub struct Ledger(BTreeMap<IpAddr, Vec<Use>>);

/// One use of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use {
    /// By whom, for messages: `service default/web`, `node a`.
    pub who: String,
    /// The key under which it shares.
    pub share_key: Option<String>,
    /// The ports that it has there.
    pub ports: BTreeSet<PortKey>,
}

impl Ledger {
    /// Notes a use.
    pub fn note(&mut self, address: IpAddr, by: Use) {
        let uses = self.0.entry(address).or_default();
        if !uses.contains(&by) {
            uses.push(by);
        }
    }

    /// Whether nobody has this address.
    pub fn is_free(&self, address: IpAddr) -> bool {
        !self.0.contains_key(&address)
    }

    /// The first use that keeps a Service from having this address: one without the same key, or with one of its ports.
    pub fn conflict(&self, address: IpAddr, request: &Request<'_>) -> Option<&Use> {
        self.0.get(&address)?.iter().find(|other| {
            let shares = request.share_key.is_some() && other.share_key.as_deref() == request.share_key;
            !shares || !other.ports.is_disjoint(&request.ports)
        })
    }

    /// The addresses that are shared under this key, in order.
    pub fn shared_under(&self, key: &str) -> impl Iterator<Item = IpAddr> {
        let shares = move |uses: &[Use]| uses.iter().all(|each| each.share_key.as_deref() == Some(key));
        self.0.iter().filter(move |(_, uses)| shares(uses)).map(|(address, _)| *address)
    }
}
