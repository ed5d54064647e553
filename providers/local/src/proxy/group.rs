//! The backends behind one port, and the choice among them.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::time::Instant;

use super::affinity::Memory;
use super::backend::{Backend, Claim, Standing};
use super::choose::{Candidate, choose};
use super::lock;
use crate::intent::{Affinity, Algorithm, Settings, TrafficPolicy};

/// The backends behind one port of one balancer.
#[derive(Debug)]
pub(super) struct Group {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    members: Vec<Member>,
    memory: Memory,
}

#[derive(Debug)]
struct Member {
    backend: Arc<Backend>,
    /// Its place in the round.
    turn: i64,
}

impl Group {
    /// No backends yet.
    pub(super) fn new() -> Self {
        Self { state: Mutex::new(State { members: Vec::new(), memory: Memory::new() }) }
    }

    /// Adds a backend.
    pub(super) fn add(&self, backend: Arc<Backend>) {
        lock(&self.state).members.push(Member { backend, turn: 0 });
    }

    /// Takes a backend out of the choice.
    pub(super) fn remove(&self, socket: SocketAddr) -> Option<Arc<Backend>> {
        let mut state = lock(&self.state);
        let index = state.members.iter().position(|member| member.backend.socket() == socket)?;
        Some(state.members.remove(index).backend)
    }

    /// The backend at this address and port.
    pub(super) fn get(&self, socket: SocketAddr) -> Option<Arc<Backend>> {
        self.backends().into_iter().find(|backend| backend.socket() == socket)
    }

    /// All backends.
    pub(super) fn backends(&self) -> Vec<Arc<Backend>> {
        lock(&self.state).members.iter().map(|member| Arc::clone(&member.backend)).collect()
    }

    /// The backend for a new connection of this client, apart from those that were tried for it already. Only those of
    /// the best standing are in the choice.
    pub(super) fn choose(
        &self,
        client: IpAddr,
        settings: &Settings,
        tried: &[SocketAddr],
        now: Instant,
    ) -> Option<Claim> {
        let mut state = lock(&self.state);
        let State { members, memory } = &mut *state;
        let mut usable: Vec<(Standing, u16, &mut Member)> = members
            .iter_mut()
            .map(|member| (member.backend.standing(now), member.backend.weight(), member))
            .filter(|(_, weight, member)| *weight > 0 && !tried.contains(&member.backend.socket()))
            .collect();
        let best = usable.iter().map(|(standing, ..)| *standing).min()?;
        if best == Standing::Unhealthy && settings.traffic_policy == TrafficPolicy::Local {
            return None;
        }
        usable.retain(|(standing, ..)| *standing == best);
        let mut algorithm = settings.algorithm;
        let kept = match settings.affinity {
            Affinity::None => None,
            Affinity::ClientIp { timeout } => {
                let known = memory.recall(client, timeout, now);
                if known.is_none() && !memory.has_room(timeout, now) {
                    algorithm = Algorithm::SourceHash;
                }
                known.filter(|known| usable.iter().any(|(.., member)| member.backend.socket() == *known))
            }
        };
        let socket = kept.or_else(|| {
            let candidates = usable.iter_mut().map(|(_, weight, member)| Candidate {
                socket: member.backend.socket(),
                weight: *weight,
                active: member.backend.active(),
                turn: &mut member.turn,
            });
            choose(algorithm, client, candidates.collect())
        })?;
        match settings.affinity {
            Affinity::None => memory.clear(),
            Affinity::ClientIp { .. } => memory.remember(client, socket, now),
        }
        let taken = usable.iter().find(|(.., member)| member.backend.socket() == socket)?;
        Some(taken.2.backend.claim())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::intent;
    use crate::intent::status::Health;

    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 9));

    fn backend(last: u8, weight: u16, health: Health) -> Arc<Backend> {
        let wanted = intent::Backend {
            node: format!("node-{last}"),
            address: [10, 0, 0, last].into(),
            port: 80,
            weight,
        };
        Backend::new(wanted, health, CancellationToken::new())
    }

    fn group(backends: &[(u8, u16, Health)]) -> Group {
        let group = Group::new();
        for (last, weight, health) in backends {
            group.add(backend(*last, *weight, health.clone()));
        }
        group
    }

    fn unhealthy() -> Health {
        Health::Unhealthy { why: "refused".into() }
    }

    /// The last numbers of the addresses that `count` connections of one client come to.
    fn places(group: &Group, settings: &Settings, count: usize) -> Vec<String> {
        let place = |claim: Claim| claim.wanted().node;
        (0..count).filter_map(|_| group.choose(CLIENT, settings, &[], Instant::now()).map(place)).collect()
    }

    #[tokio::test]
    async fn only_healthy_backends_are_chosen_while_there_is_one() {
        let group = group(&[(1, 1, Health::Healthy), (2, 1, Health::Unknown), (3, 1, unhealthy())]);
        assert_eq!(places(&group, &Settings::default(), 3), ["node-1", "node-1", "node-1"]);
        group.remove(SocketAddr::from(([10, 0, 0, 1], 80))).unwrap();
        assert_eq!(places(&group, &Settings::default(), 2), ["node-2", "node-2"]);
    }

    #[tokio::test]
    async fn if_all_fail_their_check_all_are_tried_unless_the_policy_is_local() {
        let group = group(&[(1, 1, unhealthy()), (2, 1, unhealthy())]);
        assert_eq!(places(&group, &Settings::default(), 2), ["node-1", "node-2"]);
        let local = Settings { traffic_policy: TrafficPolicy::Local, ..Settings::default() };
        assert!(places(&group, &local, 2).is_empty());
    }

    #[tokio::test]
    async fn weight_zero_takes_no_new_connection() {
        let group = group(&[(1, 0, Health::Healthy), (2, 1, Health::Healthy)]);
        assert_eq!(places(&group, &Settings::default(), 2), ["node-2", "node-2"]);
    }

    #[tokio::test]
    async fn a_backend_that_was_tried_for_this_connection_is_not_tried_again() {
        let group = group(&[(1, 1, Health::Healthy), (2, 1, Health::Healthy)]);
        let both = [SocketAddr::from(([10, 0, 0, 1], 80)), SocketAddr::from(([10, 0, 0, 2], 80))];
        let second = group.choose(CLIENT, &Settings::default(), &both[..1], Instant::now()).unwrap();
        assert_eq!(second.socket(), both[1]);
        assert!(group.choose(CLIENT, &Settings::default(), &both, Instant::now()).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_backend_that_did_not_take_a_connection_is_passed_over_for_a_moment() {
        let group = group(&[(1, 1, Health::Unchecked), (2, 1, Health::Unchecked)]);
        group.backends()[0].suspect(Instant::now());
        assert_eq!(places(&group, &Settings::default(), 2), ["node-2", "node-2"]);
        tokio::time::advance(Duration::from_secs(2)).await;
        let mut both = places(&group, &Settings::default(), 2);
        both.sort();
        assert_eq!(both, ["node-1", "node-2"]);
    }

    #[tokio::test(start_paused = true)]
    async fn affinity_holds_until_its_timeout_or_until_the_backend_fails() {
        let group = group(&[(1, 1, Health::Healthy), (2, 1, Health::Healthy)]);
        let affinity = Affinity::ClientIp { timeout: Duration::from_secs(10) };
        let settings = Settings { affinity, ..Settings::default() };
        assert_eq!(places(&group, &settings, 4), ["node-1"; 4]);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(places(&group, &settings, 4), ["node-2"; 4], "the round goes on after the timeout");
        group.backends()[1].judge(unhealthy());
        assert_eq!(places(&group, &settings, 2), ["node-1"; 2]);
        group.backends()[1].judge(Health::Healthy);
        assert_eq!(places(&group, &settings, 2), ["node-1"; 2], "a client that moved stays where it is");
    }

    #[tokio::test]
    async fn a_claim_counts_until_it_is_dropped() {
        let group = group(&[(1, 1, Health::Healthy)]);
        let claim = group.choose(CLIENT, &Settings::default(), &[], Instant::now()).unwrap();
        assert_eq!((claim.active(), claim.connections()), (1, 1));
        drop(claim);
        assert_eq!((group.backends()[0].active(), group.backends()[0].connections()), (0, 1));
    }
}
