//! The blocks of one cluster network, each one node's: which are used, and which is the next free one. Every step takes
//! the same time however many blocks there are or are used.
//!
//! It does not know who uses a block: see [`super::ledger`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use ipnet::IpNet;

use crate::pod_networks::is_ipv6;

/// As many bits as an IPv6 set may have, as upstream's.
const IPV6_BITS: u8 = 16;

/// As many bits as any set may have: four levels of words.
const MOST_BITS: u8 = 24;

/// Why a network cannot be cut into blocks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Uncuttable {
    /// A block would be larger than the network.
    #[error("invalid --cluster-cidr {network}: its mask is longer than /{mask}, that of a node")]
    TooSmall {
        /// The network.
        network: IpNet,
        /// The mask of a node's block.
        mask: u8,
    },
    /// More blocks than can be kept account of.
    #[error(
        "the node CIDR size /{mask} is too small for {network}: that is more than 2^{bits} nodes; use a longer --cluster-cidr or a shorter node CIDR mask"
    )]
    TooMany {
        /// The network.
        network: IpNet,
        /// The mask of a node's block.
        mask: u8,
        /// How many bits the number of a block may have.
        bits: u8,
    },
    /// A mask that the family does not have.
    #[error("/{mask} is no mask of {network}'s family")]
    NoMask {
        /// The network.
        network: IpNet,
        /// The mask of a node's block.
        mask: u8,
    },
}

/// The blocks of one network.
#[derive(Debug, Clone)]
pub struct CidrSet {
    network: IpNet,
    mask: u8,
    /// The first level has one bit for each block: used. In each further one a bit says that a whole word of the level
    /// before is full. The last is a single word.
    levels: Vec<Vec<u64>>,
    used: u32,
    next: u32,
}

impl CidrSet {
    /// All blocks of `mask` in `network`, none of them used.
    pub fn new(network: IpNet, mask: u8) -> Result<Self, Uncuttable> {
        if mask > network.max_prefix_len() {
            return Err(Uncuttable::NoMask { network, mask });
        }
        let Some(bits) = mask.checked_sub(network.prefix_len()) else {
            return Err(Uncuttable::TooSmall { network, mask });
        };
        let most = if is_ipv6(&network) { IPV6_BITS } else { MOST_BITS };
        if bits > most {
            return Err(Uncuttable::TooMany { network, mask, bits: most });
        }
        let mut levels = Vec::new();
        let mut places = 1_usize << bits;
        loop {
            let mut words = vec![0_u64; places.div_ceil(64)];
            // Places that do not exist are never free.
            if let (Some(last), rest @ 1..) = (words.last_mut(), places % 64) {
                *last = u64::MAX << rest;
            }
            places = words.len();
            levels.push(words);
            if places == 1 {
                break;
            }
        }
        Ok(Self { network: network.trunc(), mask, levels, used: 0, next: 0 })
    }

    /// The network that is cut into blocks.
    pub fn network(&self) -> IpNet {
        self.network
    }

    /// How many blocks there are.
    pub fn max(&self) -> u32 {
        1 << (self.mask - self.network.prefix_len())
    }

    /// How many blocks are used.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// The free block that would be handed out next: the first after the one handed out last, so that a block that was
    /// given back rests for as long as possible. `None` if all are used.
    pub fn next_free(&self) -> Option<u32> {
        self.free_from(self.next).or_else(|| self.free_from(0))
    }

    /// Hands out a block: the next search begins behind it.
    pub fn take(&mut self, block: u32) -> bool {
        self.next = (block + 1) % self.max();
        self.occupy(block)
    }

    /// Marks a block as used; whether it was free.
    pub fn occupy(&mut self, block: u32) -> bool {
        let mut place = block as usize;
        if self.is_used(block) {
            return false;
        }
        self.used += 1;
        for level in &mut self.levels {
            let word = &mut level[place / 64];
            *word |= 1 << (place % 64);
            if *word != u64::MAX {
                break;
            }
            place /= 64;
        }
        true
    }

    /// Marks a block as free; whether it was used.
    pub fn release(&mut self, block: u32) -> bool {
        let mut place = block as usize;
        if !self.is_used(block) {
            return false;
        }
        self.used -= 1;
        for level in &mut self.levels {
            let word = &mut level[place / 64];
            let was_full = *word == u64::MAX;
            *word &= !(1 << (place % 64));
            if !was_full {
                break;
            }
            place /= 64;
        }
        true
    }

    /// Whether a block is used.
    pub fn is_used(&self, block: u32) -> bool {
        let place = block as usize;
        self.levels[0][place / 64] & (1 << (place % 64)) != 0
    }

    /// The network of a block.
    pub fn block(&self, block: u32) -> Option<IpNet> {
        let bits = number(self.network.network()) | (u128::from(block) << self.shift());
        IpNet::new(address(bits, is_ipv6(&self.network)), self.mask).ok()
    }

    /// The blocks that a network touches, be it larger or smaller than one; `None` if it lies outside.
    pub fn touched_by(&self, network: &IpNet) -> Option<RangeInclusive<u32>> {
        if is_ipv6(network) != is_ipv6(&self.network) {
            return None;
        }
        if network.contains(&self.network) {
            return Some(0..=self.max() - 1);
        }
        if !self.network.contains(network) {
            return None;
        }
        let index = |ip| u32::try_from((number(ip) - number(self.network.network())) >> self.shift()).ok();
        Some(index(network.network())?..=index(network.broadcast())?)
    }

    /// The first free block at this place or behind it.
    fn free_from(&self, from: u32) -> Option<u32> {
        let mut place = from as usize;
        let mut depth = 0;
        // Up, until a word has room at or behind the place …
        loop {
            let word = self.levels.get(depth)?.get(place / 64)?;
            let free = !word & (u64::MAX << (place % 64));
            if free != 0 {
                place = place / 64 * 64 + free.trailing_zeros() as usize;
                break;
            }
            // … where the word just looked at is known to have none.
            place = place / 64 + 1;
            depth += 1;
        }
        // … and down to the first free place below it.
        for level in self.levels[..depth].iter().rev() {
            place = place * 64 + (!level[place]).trailing_zeros() as usize;
        }
        u32::try_from(place).ok()
    }

    fn shift(&self) -> u32 {
        u32::from(self.network.max_prefix_len() - self.mask)
    }
}

fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(ip.to_bits()),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

fn address(bits: u128, ipv6: bool) -> IpAddr {
    match u32::try_from(bits) {
        Ok(bits) if !ipv6 => IpAddr::V4(Ipv4Addr::from_bits(bits)),
        _ => IpAddr::V6(Ipv6Addr::from_bits(bits)),
    }
}

#[cfg(test)]
mod tests;
