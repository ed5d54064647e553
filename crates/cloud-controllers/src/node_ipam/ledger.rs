//! Who holds which blocks. A block belongs to a Node, by UID, from the moment it is picked for it until the Node is gone
//! or turns out to have another one: a write whose end is not known therefore never frees a block, and is repeated with
//! the same one.
//!
//! It is pure: it neither asks nor writes.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use super::cidr_set::CidrSet;

/// The blocks of all pod networks, and who holds them.
#[derive(Debug)]
pub struct Ledger {
    ranges: Vec<Range>,
    /// By the Node's name.
    held: BTreeMap<String, Holding>,
}

/// One pod network.
#[derive(Debug)]
struct Range {
    set: CidrSet,
    /// Blocks with more than one holder: how many more.
    shared: BTreeMap<u32, u32>,
    taken: u64,
    returned: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Holding {
    uid: String,
    cidrs: Vec<IpNet>,
}

/// A pod network has no free block.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("all {max} node CIDRs of {network} are in use")]
pub struct Exhausted {
    /// The network.
    pub network: IpNet,
    /// How many blocks it has.
    pub max: u32,
}

/// What is odd about the pod CIDRs that a Node has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Oddities {
    /// Outside every pod network.
    pub outside: Vec<IpNet>,
    /// Other Nodes, or the Services, that hold the same addresses.
    pub shared_with: Vec<String>,
}

/// The numbers of one pod network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// The network.
    pub network: IpNet,
    /// How many blocks it has.
    pub max: u32,
    /// How many are used.
    pub used: u32,
    /// How often a free block became a used one.
    pub taken: u64,
    /// How often a used block became a free one.
    pub returned: u64,
}

/// Who holds the addresses of the Services; no Node can have this name.
const SERVICES: &str = "the cluster's Services";

impl Ledger {
    /// Nobody holds anything but the Services their own range.
    pub fn new(sets: Vec<CidrSet>, service_ranges: &[IpNet]) -> Self {
        let range = |set| Range { set, shared: BTreeMap::new(), taken: 0, returned: 0 };
        let mut ledger = Self { ranges: sets.into_iter().map(range).collect(), held: BTreeMap::new() };
        if !service_ranges.is_empty() {
            ledger.hold(SERVICES, "", service_ranges.to_vec());
        }
        ledger
    }

    /// A Node has these pod CIDRs, wherever they come from; what it held before is given back.
    pub fn hold(&mut self, name: &str, uid: &str, cidrs: Vec<IpNet>) -> Oddities {
        let holding = Holding { uid: uid.to_owned(), cidrs };
        if self.held.get(name) == Some(&holding) {
            return Oddities::default();
        }
        self.forget(name);
        let mut oddities = Oddities::default();
        let mut sharers = BTreeSet::new();
        for cidr in &holding.cidrs {
            let (mut inside, mut alone) = (false, true);
            for range in &mut self.ranges {
                let Some(blocks) = range.set.touched_by(cidr) else { continue };
                inside = true;
                for block in blocks {
                    alone &= range.occupy(block);
                }
            }
            if !inside {
                oddities.outside.push(*cidr);
            }
            if !alone {
                sharers.extend(overlapping(&self.held, cidr));
            }
        }
        oddities.shared_with = sharers.into_iter().collect();
        self.held.insert(name.to_owned(), holding);
        oddities
    }

    /// Picks a block of each pod network for a Node, or none at all. A Node for which blocks were picked already gets the
    /// same ones.
    pub fn claim(&mut self, name: &str, uid: &str) -> Result<Vec<IpNet>, Exhausted> {
        match self.held.get(name) {
            Some(holding) if holding.uid == uid => return Ok(holding.cidrs.clone()),
            Some(_) => {
                self.forget(name);
            }
            None => {}
        }
        // All are looked for before any is taken: a network that is full costs the others nothing.
        let picks = self.ranges.iter().map(Range::pick).collect::<Result<Vec<_>, _>>()?;
        let mut cidrs = Vec::new();
        for (range, (block, cidr)) in self.ranges.iter_mut().zip(picks) {
            range.set.take(block);
            range.taken += 1;
            cidrs.push(cidr);
        }
        self.held.insert(name.to_owned(), Holding { uid: uid.to_owned(), cidrs: cidrs.clone() });
        Ok(cidrs)
    }

    /// The Node of this name is gone: its blocks are free. Whether it held any.
    pub fn forget(&mut self, name: &str) -> bool {
        let Some(holding) = self.held.remove(name) else { return false };
        for cidr in &holding.cidrs {
            for range in &mut self.ranges {
                for block in range.set.touched_by(cidr).into_iter().flatten() {
                    range.release(block);
                }
            }
        }
        !holding.cidrs.is_empty()
    }

    /// As [`Ledger::forget`], if it is this very Node that holds them.
    pub fn forget_uid(&mut self, name: &str, uid: &str) -> bool {
        self.held.get(name).is_some_and(|holding| holding.uid == uid) && self.forget(name)
    }

    /// The numbers of each pod network.
    pub fn tallies(&self) -> impl Iterator<Item = Tally> {
        self.ranges.iter().map(|range| Tally {
            network: range.set.network(),
            max: range.set.max(),
            used: range.set.used(),
            taken: range.taken,
            returned: range.returned,
        })
    }
}

impl Range {
    fn pick(&self) -> Result<(u32, IpNet), Exhausted> {
        let exhausted = || Exhausted { network: self.set.network(), max: self.set.max() };
        let block = self.set.next_free().ok_or_else(exhausted)?;
        Ok((block, self.set.block(block).ok_or_else(exhausted)?))
    }

    /// One holder more; whether it is the only one.
    fn occupy(&mut self, block: u32) -> bool {
        let alone = self.set.occupy(block);
        if alone {
            self.taken += 1;
        } else {
            *self.shared.entry(block).or_default() += 1;
        }
        alone
    }

    /// One holder less; the last one frees the block.
    fn release(&mut self, block: u32) {
        match self.shared.get_mut(&block) {
            Some(more) => {
                *more -= 1;
                if *more == 0 {
                    self.shared.remove(&block);
                }
            }
            None => self.returned += u64::from(self.set.release(block)),
        }
    }
}

/// Who holds addresses of this network.
fn overlapping<'a>(
    held: &'a BTreeMap<String, Holding>,
    cidr: &'a IpNet,
) -> impl Iterator<Item = String> + 'a {
    let overlap = move |other: &IpNet| other.contains(cidr) || cidr.contains(other);
    held.iter().filter(move |(_, holding)| holding.cidrs.iter().any(overlap)).map(|(name, _)| name.clone())
}

#[cfg(test)]
mod tests;
