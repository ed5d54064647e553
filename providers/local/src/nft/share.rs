//! Which share of the connections a backend gets, as a table that the kernel picks from. Pure.

use std::net::{IpAddr, SocketAddr};

use super::listener::Side;
use crate::intent::{Algorithm, Backend};
use crate::proxy::choose::{Candidate, choose};

/// Who is picked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shares {
    /// There is only one.
    One(SocketAddr),
    /// One of several.
    Many {
        /// What gives the place, in `nft`'s words.
        pick: String,
        /// Every place, or range of places, and who has it.
        places: Vec<(String, SocketAddr)>,
    },
}

/// Rounds up to this long are laid out turn by turn; in longer ones, chance mixes the backends.
const LONGEST_ROUND: u32 = 256;
/// The places that clients are hashed to, and what the hash begins with.
///
/// INVARIANT: with others, every client would move. Without a beginning of ours the kernel takes a random one for each rule.
pub(super) const SLOTS: u32 = 256;
pub(super) const SEED: u32 = 0x6e65_7068;

/// The shares of these backends, of which there is one at least. The kernel counts no connections of a backend, so those
/// who ask for the least loaded one are served in turn.
pub(super) fn shares(algorithm: Algorithm, side: Side, backends: &[Backend]) -> Shares {
    if let [only] = backends {
        return Shares::One(only.socket());
    }
    match algorithm {
        Algorithm::SourceHash => {
            let places = (0..SLOTS).filter_map(|slot| {
                let client = IpAddr::from(slot.to_be_bytes());
                let taken =
                    choose(Algorithm::SourceHash, client, candidates(backends, &mut turns(backends)))?;
                Some((slot.to_string(), taken))
            });
            Shares::Many {
                pick: format!("jhash {} saddr mod {SLOTS} seed {SEED:#x}", side.word()),
                places: places.collect(),
            }
        }
        Algorithm::RoundRobin | Algorithm::LeastConnections => in_turn(backends),
    }
}

fn in_turn(backends: &[Backend]) -> Shares {
    let divisor = backends.iter().map(|backend| u32::from(backend.weight)).fold(0, gcd).max(1);
    let weights: Vec<u32> = backends.iter().map(|backend| u32::from(backend.weight) / divisor).collect();
    let round: u32 = weights.iter().sum();
    if round > LONGEST_ROUND {
        let mut first = 0;
        let places = backends.iter().zip(&weights).map(|(backend, weight)| {
            let place = format!("{first}-{}", first + weight - 1);
            first += weight;
            (place, backend.socket())
        });
        return Shares::Many { places: places.collect(), pick: format!("numgen random mod {round}") };
    }
    if weights.iter().all(|weight| *weight == 1) {
        let places = backends.iter().enumerate().map(|(turn, backend)| (turn.to_string(), backend.socket()));
        return Shares::Many { places: places.collect(), pick: format!("numgen inc mod {round}") };
    }
    let mut turns = turns(backends);
    let places = (0..round).filter_map(|turn| {
        let nobody = IpAddr::from([0, 0, 0, 0]);
        let taken = choose(Algorithm::RoundRobin, nobody, candidates(backends, &mut turns))?;
        Some((turn.to_string(), taken))
    });
    Shares::Many { places: places.collect(), pick: format!("numgen inc mod {round}") }
}

fn turns(backends: &[Backend]) -> Vec<i64> {
    vec![0; backends.len()]
}

fn candidates<'a>(backends: &[Backend], turns: &'a mut [i64]) -> Vec<Candidate<'a>> {
    let candidate = |(backend, turn): (&Backend, &'a mut i64)| Candidate {
        socket: backend.socket(),
        weight: backend.weight,
        active: 0,
        turn,
    };
    backends.iter().zip(turns).map(candidate).collect()
}

fn gcd(one: u32, other: u32) -> u32 {
    if other == 0 { one } else { gcd(other, one % other) }
}
