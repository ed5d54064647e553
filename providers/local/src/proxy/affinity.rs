//! Which backend a client had last: `ClientIP` affinity. Bounded, so that a flood of clients cannot fill the memory.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::time::Instant;

/// Clients remembered per port. Above it, new clients are placed by a hash of their address, which needs no memory.
const LIMIT: usize = 65_536;

/// The memory of one port.
#[derive(Debug)]
pub(super) struct Memory {
    clients: HashMap<IpAddr, (SocketAddr, Instant)>,
    limit: usize,
    swept: Option<Instant>,
}

impl Memory {
    /// Remembers nobody.
    pub(super) fn new() -> Self {
        Self { clients: HashMap::new(), limit: LIMIT, swept: None }
    }

    /// The backend of a client that connected less than `timeout` ago.
    pub(super) fn recall(&self, client: IpAddr, timeout: Duration, now: Instant) -> Option<SocketAddr> {
        let (backend, at) = self.clients.get(&client)?;
        (now.duration_since(*at) < timeout).then_some(*backend)
    }

    /// Whether a client that is not remembered could be.
    pub(super) fn has_room(&mut self, timeout: Duration, now: Instant) -> bool {
        // A sweep walks over all clients, so it is done at most once a second, and once in half the timeout to give back
        // what an earlier crowd took.
        let since = self.swept.map_or(Duration::MAX, |swept| now.duration_since(swept));
        let full = self.clients.len() >= self.limit;
        if (full && since >= Duration::from_secs(1)) || since >= timeout / 2 {
            self.clients.retain(|_, (_, at)| now.duration_since(*at) < timeout);
            self.clients.shrink_to(self.clients.len() * 2);
            self.swept = Some(now);
        }
        self.clients.len() < self.limit
    }

    /// Remembers that a client connected to a backend now.
    pub(super) fn remember(&mut self, client: IpAddr, backend: SocketAddr, now: Instant) {
        if self.clients.len() < self.limit || self.clients.contains_key(&client) {
            self.clients.insert(client, (backend, now));
        }
    }

    /// Forgets everybody.
    pub(super) fn clear(&mut self) {
        self.clients = HashMap::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn backend(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 80))
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_is_remembered_until_the_timeout_after_its_last_connection() {
        let mut memory = Memory::new();
        let client = IpAddr::from([192, 0, 2, 1]);
        memory.remember(client, backend(1), Instant::now());
        tokio::time::advance(Duration::from_secs(59)).await;
        assert_eq!(memory.recall(client, MINUTE, Instant::now()), Some(backend(1)));
        memory.remember(client, backend(1), Instant::now());
        tokio::time::advance(Duration::from_secs(59)).await;
        assert_eq!(memory.recall(client, MINUTE, Instant::now()), Some(backend(1)));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(memory.recall(client, MINUTE, Instant::now()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_memory_keeps_whom_it_knows_and_takes_others_again_when_they_expired() {
        let mut memory = Memory { limit: 2, ..Memory::new() };
        let clients: Vec<IpAddr> = (1..4).map(|last| IpAddr::from([192, 0, 2, last])).collect();
        for client in &clients {
            memory.has_room(MINUTE, Instant::now());
            memory.remember(*client, backend(1), Instant::now());
        }
        assert!(!memory.has_room(MINUTE, Instant::now()));
        assert_eq!(memory.recall(clients[0], MINUTE, Instant::now()), Some(backend(1)));
        assert_eq!(memory.recall(clients[2], MINUTE, Instant::now()), None);
        memory.remember(clients[0], backend(2), Instant::now());
        assert_eq!(memory.recall(clients[0], MINUTE, Instant::now()), Some(backend(2)));
        tokio::time::advance(MINUTE).await;
        assert!(memory.has_room(MINUTE, Instant::now()));
        assert_eq!(memory.clients.len(), 0);
    }
}
