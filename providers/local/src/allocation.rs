//! Which addresses a balancer gets. Pure: what is asked for, the pools, and who has what already.
//!
//! Nothing is remembered between two allocations. Who has what is read each time from the data plane and from the
//! status of the Services, so a restart, another replica or a person's edit changes nothing about the rules.

use std::collections::BTreeSet;
use std::net::IpAddr;

use cloud_provider::load_balancer::Family;
use cloud_provider::nearest::nearest;
use cloud_provider::{Decision, Error};

use crate::intent::PortKey;
use crate::pool::{Pool, Pools};

mod ledger;

pub use ledger::{Ledger, Use};

/// What one Service asks for.
#[derive(Debug, Clone, Default)]
pub struct Request<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its class.
    pub class: Option<&'a str>,
    /// The pool that it names.
    pub pool: Option<&'a str>,
    /// The addresses that it names.
    pub addresses: Vec<IpAddr>,
    /// The families, in order.
    pub families: Vec<Family>,
    /// Whether one address is enough though two families are asked for: `ipFamilyPolicy: PreferDualStack`.
    pub one_is_enough: bool,
    /// The key under which it may share an address.
    pub share_key: Option<&'a str>,
    /// Its ports: what two Services at one address may not both have.
    pub ports: BTreeSet<PortKey>,
    /// The addresses that it has, or had before a restart, best proof first.
    pub kept: Vec<IpAddr>,
}

/// Why a Service gets no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The pool that it names does not exist.
    #[error("there is no pool {0:?}{1}")]
    NoSuchPool(String, String),
    /// The pool is not for it.
    #[error("{0}")]
    Closed(String),
    /// No pool is for it.
    #[error("no pool gives addresses to Services of this namespace and class without being asked")]
    NoPool,
    /// The address that it names is in no pool.
    #[error("the requested address {0} is in no pool")]
    InNoPool(IpAddr),
    /// The address that it names is in another pool than the one that it names.
    #[error("the requested address {0} is in pool {1}, and pool {2} is asked for")]
    InOtherPool(IpAddr, String, String),
    /// It names an address of a family that it does not have.
    #[error("the requested address {0} is of a family that the Service does not have")]
    WrongFamily(IpAddr),
    /// It names two addresses of one family.
    #[error("the requested addresses {0} and {1} are of the same family")]
    SameFamily(IpAddr, IpAddr),
    /// Somebody has the address that it names.
    #[error("the requested address {0} is used by {1}{2}")]
    Taken(IpAddr, String, &'static str),
    /// The pools have no address of a family at all.
    #[error("the pools {pools} have no {family} addresses")]
    NoneOfFamily {
        /// The pools that are for it.
        pools: String,
        /// The family.
        family: &'static str,
    },
    /// The pools have none left.
    #[error("no {family} address is free in the pools {pools}")]
    Exhausted {
        /// The pools that are for it.
        pools: String,
        /// The family.
        family: &'static str,
    },
}

impl Refusal {
    /// As an error of the contract.
    pub fn refuse(self, attempt: impl Into<String>) -> Error {
        let decision = match self {
            Self::Exhausted { .. } => Decision::QuotaExceeded,
            // Whoever has it may give it back: worth another try, and a warning meanwhile.
            Self::Taken(..) => Decision::Other,
            _ => Decision::InvalidConfig,
        };
        Error::new(decision, attempt).because(self)
    }
}

/// Chooses an address of each family, in the order of the families.
pub fn allocate(request: &Request<'_>, pools: &Pools, ledger: &Ledger) -> Result<Vec<IpAddr>, Refusal> {
    request.check_families()?;
    let mut chosen = Vec::new();
    let mut lacking = None;
    for family in &request.families {
        match choose(request, *family, pools, ledger) {
            Ok(address) => chosen.push(address),
            Err(lack @ (Refusal::NoneOfFamily { .. } | Refusal::Exhausted { .. }))
                if request.one_is_enough =>
            {
                lacking = Some(lack);
            }
            Err(refusal) => return Err(refusal),
        }
    }
    match lacking {
        Some(lack) if chosen.is_empty() => Err(lack),
        _ => Ok(chosen),
    }
}

fn choose(request: &Request<'_>, family: Family, pools: &Pools, ledger: &Ledger) -> Result<IpAddr, Refusal> {
    if let Some(address) = request.addresses.iter().find(|address| Family::of(**address) == family) {
        return request.may_have(*address, pools, ledger).map(|()| *address);
    }
    let of_family = |address: &IpAddr| Family::of(*address) == family;
    let kept = request.kept.iter().copied().filter(of_family);
    if let Some(address) = kept.into_iter().find(|each| request.may_have(*each, pools, ledger).is_ok()) {
        return Ok(address);
    }
    let open = request.open_pools(pools)?;
    if let Some(key) = request.share_key {
        let shared = ledger.shared_under(key).filter(of_family);
        let mut usable = shared.filter(|each| open.iter().any(|pool| pool.has(*each)));
        if let Some(address) = usable.find(|each| ledger.conflict(*each, request).is_none()) {
            return Ok(address);
        }
    }
    let names = || open.iter().map(|pool| pool.name.as_str()).collect::<Vec<_>>().join(", ");
    let mut any = false;
    for range in open.iter().flat_map(|pool| pool.ranges.iter().map(move |range| (pool, range))) {
        let (pool, range) = range;
        if range.is_ipv4() != (family == Family::V4) {
            continue;
        }
        any = true;
        let usable = |address: &IpAddr| pool.use_edges || !range.is_edge(*address);
        if let Some(free) = range.addresses().filter(usable).find(|each| ledger.is_free(*each)) {
            return Ok(free);
        }
    }
    let (pools, family) = (names(), word_for(family));
    Err(if any { Refusal::Exhausted { pools, family } } else { Refusal::NoneOfFamily { pools, family } })
}

impl Request<'_> {
    fn check_families(&self) -> Result<(), Refusal> {
        for (index, address) in self.addresses.iter().enumerate() {
            if !self.families.contains(&Family::of(*address)) {
                return Err(Refusal::WrongFamily(*address));
            }
            let earlier = &self.addresses[..index];
            if let Some(other) = earlier.iter().find(|other| Family::of(**other) == Family::of(*address)) {
                return Err(Refusal::SameFamily(*other, *address));
            }
        }
        Ok(())
    }

    /// Whether it may have this very address.
    fn may_have(&self, address: IpAddr, pools: &Pools, ledger: &Ledger) -> Result<(), Refusal> {
        let pool = pools.with(address).ok_or(Refusal::InNoPool(address))?;
        if let Some(wanted) = self.pool.filter(|wanted| *wanted != pool.name) {
            return Err(Refusal::InOtherPool(address, pool.name.clone(), wanted.to_owned()));
        }
        if let Some(why) = pools.closed_to(pool, self.namespace, self.class) {
            return Err(Refusal::Closed(why));
        }
        match ledger.conflict(address, self) {
            None => Ok(()),
            Some(other) if other.share_key.is_some() && other.share_key.as_deref() == self.share_key => {
                Err(Refusal::Taken(address, other.who.clone(), ", which has a port in common"))
            }
            Some(other) => Err(Refusal::Taken(address, other.who.clone(), "")),
        }
    }

    /// The pools to take an address from, best first.
    fn open_pools<'p>(&self, pools: &'p Pools) -> Result<Vec<&'p Pool>, Refusal> {
        let Some(name) = self.pool else {
            let mut open = pools.for_service(self.namespace, self.class);
            open.retain(|pool| pool.auto_assign);
            return if open.is_empty() { Err(Refusal::NoPool) } else { Ok(open) };
        };
        let Some(pool) = pools.named(name) else {
            let near = nearest(name, pools.iter().map(|pool| pool.name.as_str()));
            let hint = near.map_or_else(String::new, |near| format!(": did you mean {near}?"));
            return Err(Refusal::NoSuchPool(name.to_owned(), hint));
        };
        match pools.closed_to(pool, self.namespace, self.class) {
            Some(why) => Err(Refusal::Closed(why)),
            None => Ok(vec![pool]),
        }
    }
}

fn word_for(family: Family) -> &'static str {
    match family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    }
}

#[cfg(test)]
mod tests;
