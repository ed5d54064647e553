//! Which of several backends takes a new connection. Pure: the caller says who may be chosen.

use std::net::{IpAddr, SocketAddr};

use crate::intent::Algorithm;

/// A backend that may be chosen.
#[derive(Debug)]
pub(crate) struct Candidate<'a> {
    /// Its address and port.
    pub(crate) socket: SocketAddr,
    /// Its share; not zero.
    pub(crate) weight: u16,
    /// The connections that it has.
    pub(crate) active: u64,
    /// Its place in the round, kept between two choices.
    pub(crate) turn: &'a mut i64,
}

/// The candidate that takes a connection of this client; `None` if there is none.
pub(crate) fn choose(
    algorithm: Algorithm,
    client: IpAddr,
    mut candidates: Vec<Candidate<'_>>,
) -> Option<SocketAddr> {
    match algorithm {
        Algorithm::RoundRobin => in_turn(&mut candidates),
        Algorithm::LeastConnections => {
            let least = candidates.iter().map(load).min_by(|one, other| compare(*one, *other))?;
            candidates.retain(|candidate| compare(load(candidate), least).is_eq());
            in_turn(&mut candidates)
        }
        Algorithm::SourceHash => by_hash(client, &candidates),
    }
}

/// Smooth weighted round robin: each candidate gains its weight, the one with the most is taken and pays the sum. Shares
/// are exact over a round, and a heavy backend is not taken several times in a row.
fn in_turn(candidates: &mut [Candidate<'_>]) -> Option<SocketAddr> {
    let mut sum = 0;
    for candidate in candidates.iter_mut() {
        *candidate.turn += i64::from(candidate.weight);
        sum += i64::from(candidate.weight);
    }
    // The first of equals, so that a round begins where the list does.
    let taken =
        candidates.iter_mut().reduce(|best, other| if *other.turn > *best.turn { other } else { best })?;
    *taken.turn -= sum;
    Some(taken.socket)
}

/// Connections per weight, were it to take one more.
fn load(candidate: &Candidate<'_>) -> (u64, u16) {
    (candidate.active + 1, candidate.weight)
}

fn compare((one, weight): (u64, u16), (other, other_weight): (u64, u16)) -> std::cmp::Ordering {
    (u128::from(one) * u128::from(other_weight)).cmp(&(u128::from(other) * u128::from(weight)))
}

/// Rendezvous hashing: each candidate draws a number from the client's address and its own, and the best draw for its
/// weight wins. If a backend goes, only its own clients move.
fn by_hash(client: IpAddr, candidates: &[Candidate<'_>]) -> Option<SocketAddr> {
    let draw = |candidate: &Candidate<'_>| -unit(client, candidate.socket).ln() / f64::from(candidate.weight);
    let best = candidates.iter().min_by(|one, other| draw(one).total_cmp(&draw(other)))?;
    Some(best.socket)
}

/// A number above 0 and at most 1, the same in every process and on every machine.
fn unit(client: IpAddr, backend: SocketAddr) -> f64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    for address in [client, backend.ip()] {
        match address {
            IpAddr::V4(v4) => add(&v4.octets()),
            IpAddr::V6(v6) => add(&v6.octets()),
        }
    }
    add(&backend.port().to_be_bytes());
    // FNV leaves neighbours near each other in the upper bits; mix them.
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^= hash >> 31;
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact in a double")]
    let numerator = ((hash >> 11) + 1) as f64;
    numerator / 9_007_199_254_740_992.0
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Chooses `count` times among backends of these weights, which keep what they get, for clients 0, 1, 2, ...
    fn shares(algorithm: Algorithm, weights: &[(u8, u16)], count: u32) -> BTreeMap<u8, u64> {
        let mut turns = vec![0; weights.len()];
        let mut shares: BTreeMap<u8, u64> = weights.iter().map(|(name, _)| (*name, 0)).collect();
        for client in 0..count {
            let candidates = weights
                .iter()
                .zip(&mut turns)
                .map(|((name, weight), turn)| Candidate {
                    socket: SocketAddr::from(([10, 0, 0, *name], 80)),
                    weight: *weight,
                    active: shares[name],
                    turn,
                })
                .collect();
            let IpAddr::V4(taken) =
                choose(algorithm, IpAddr::from(client.to_be_bytes()), candidates).unwrap().ip()
            else {
                panic!("only IPv4 here")
            };
            *shares.get_mut(&taken.octets()[3]).unwrap() += 1;
        }
        shares
    }

    #[test]
    fn round_robin_is_exact_over_a_round_and_respects_weights() {
        assert_eq!(
            shares(Algorithm::RoundRobin, &[(1, 1), (2, 1), (3, 1)], 300),
            [(1, 100), (2, 100), (3, 100)].into()
        );
        assert_eq!(
            shares(Algorithm::RoundRobin, &[(1, 5), (2, 1), (3, 1)], 70),
            [(1, 50), (2, 10), (3, 10)].into()
        );
    }

    #[test]
    fn round_robin_does_not_take_a_heavy_backend_several_times_in_a_row() {
        let mut turns = [0, 0];
        let mut order = String::new();
        for _ in 0..8 {
            let candidates = turns
                .iter_mut()
                .zip([("a", 3), ("b", 1)])
                .map(|(turn, (name, weight))| Candidate {
                    socket: SocketAddr::from(([10, 0, 0, name.as_bytes()[0]], 80)),
                    weight,
                    active: 0,
                    turn,
                })
                .collect();
            let taken = choose(Algorithm::RoundRobin, IpAddr::from([1, 1, 1, 1]), candidates).unwrap();
            order.push(if taken.ip() == IpAddr::from([10, 0, 0, b'a']) { 'a' } else { 'b' });
        }
        assert_eq!(order, "aabaaaba");
    }

    #[test]
    fn least_connections_levels_what_backends_have_by_weight() {
        assert_eq!(shares(Algorithm::LeastConnections, &[(1, 1), (2, 1)], 10), [(1, 5), (2, 5)].into());
        assert_eq!(shares(Algorithm::LeastConnections, &[(1, 3), (2, 1)], 40), [(1, 30), (2, 10)].into());
    }

    #[test]
    fn least_connections_takes_the_idle_one() {
        let (mut busy, mut idle) = (0, 0);
        let candidates = vec![
            Candidate {
                socket: SocketAddr::from(([10, 0, 0, 1], 80)),
                weight: 1,
                active: 7,
                turn: &mut busy,
            },
            Candidate {
                socket: SocketAddr::from(([10, 0, 0, 2], 80)),
                weight: 1,
                active: 6,
                turn: &mut idle,
            },
        ];
        let taken = choose(Algorithm::LeastConnections, IpAddr::from([1, 1, 1, 1]), candidates);
        assert_eq!(taken, Some(SocketAddr::from(([10, 0, 0, 2], 80))));
    }

    #[test]
    fn source_hash_spreads_clients_by_weight() {
        let shares = shares(Algorithm::SourceHash, &[(1, 1), (2, 1), (3, 2)], 40_000);
        for (name, expected) in [(1, 10_000), (2, 10_000), (3, 20_000)] {
            assert!(shares[&name].abs_diff(expected) < 500, "{shares:?}");
        }
    }

    #[test]
    fn source_hash_moves_only_the_clients_of_a_backend_that_goes() {
        let place = |client: u32, backends: &[u8]| {
            let mut turns = vec![0; backends.len()];
            let candidates = backends
                .iter()
                .zip(&mut turns)
                .map(|(name, turn)| Candidate {
                    socket: SocketAddr::from(([10, 0, 0, *name], 80)),
                    weight: 1,
                    active: 0,
                    turn,
                })
                .collect();
            choose(Algorithm::SourceHash, IpAddr::from(client.to_be_bytes()), candidates).unwrap()
        };
        let gone = SocketAddr::from(([10, 0, 0, 2], 80));
        for client in 0..2_000 {
            let before = place(client, &[1, 2, 3]);
            let after = place(client, &[1, 3]);
            assert!(before == gone || before == after, "client {client} moved without need");
        }
    }

    #[test]
    fn nobody_is_chosen_of_none() {
        for algorithm in [Algorithm::RoundRobin, Algorithm::LeastConnections, Algorithm::SourceHash] {
            assert_eq!(choose(algorithm, IpAddr::from([1, 1, 1, 1]), vec![]), None);
        }
    }
}
