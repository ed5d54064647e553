//! One local network: machines of network namespaces at one switch, each with an address of both families, and each
//! forwarding.
//!
//! ```text
//!   a 10.99.0.1 ─┬─ b 10.99.0.2 ─┬─ c 10.99.0.3 ─┬─ ...        (and fd00:99::1, ...)
//!                └──────── switch ────────────────┘
//! ```

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "what sets a test up stops it where it stands, and each test target uses its own part"
)]

use std::fs;
use std::net::IpAddr;
use std::time::Duration;

use testkit::Awake;
use tokio::sync::MutexGuard;

use crate::world::{Room, a_place, remove};

/// Far more than a move of an address takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// A network. Nothing of it is left when it is dropped.
pub(crate) struct Lan {
    prefix: String,
    pub(crate) machines: Vec<Room>,
    switch: Room,
    _alone: MutexGuard<'static, ()>,
}

impl Lan {
    /// Builds one with so many machines; `None`, with a notice, where that is not allowed.
    pub(crate) async fn build(count: usize) -> Option<Self> {
        let (alone, prefix) = a_place().await?;
        let room = |role: &str| Room::new(format!("{prefix}-{role}"));
        let switch = room("switch");
        switch.ip("link add name br0 type bridge");
        switch.ip("link set br0 up");
        let machines: Vec<Room> = (0..count).map(|index| room(&format!("m{index}"))).collect();
        for (index, machine) in machines.iter().enumerate() {
            let port = format!("link add name port{index} type veth peer name eth0 netns {}", machine.name);
            switch.ip(&port);
            switch.ip(&format!("link set port{index} master br0 up"));
            machine.ip("link set eth0 up");
            machine.ip(&format!("addr add {}/24 dev eth0", address(index)));
            machine.ip(&format!("-6 addr add {}/64 dev eth0 nodad", address6(index)));
            machine.run(async { forward() }).await;
        }
        Some(Self { prefix, machines, switch, _alone: alone })
    }

    /// Pulls the cable of a machine, or puts it back.
    pub(crate) fn cable(&self, index: usize, is_in: bool) {
        self.switch.ip(&format!("link set port{index} {}", if is_in { "up" } else { "down" }));
    }

    /// Where a machine believes that an address is.
    pub(crate) fn neighbour(&self, index: usize, ip: IpAddr) -> Option<String> {
        let text = self.machines[index].ip(&format!("neigh show {ip} dev eth0"));
        let mut words = text.split_whitespace();
        words.find(|word| *word == "lladdr")?;
        words.next().map(str::to_owned)
    }

    /// Has connections made one after the other until an address has moved, and a while longer, so that a gap that begins with
    /// the move is seen; the longest time that the machine ran without a good one.
    pub(crate) async fn longest_gap(
        &self,
        serves: impl AsyncFn() -> bool,
        has_moved: impl AsyncFn() -> bool,
    ) -> Result<Duration, String> {
        let (mut moving, mut last, mut gap) = (Awake::now(), Awake::now(), Duration::ZERO);
        let (mut before, mut after) = (0, 0);
        while after < 100 {
            // A slow machine has as much time for each connection after the move as for the move.
            if moving.elapsed() > PATIENCE {
                return Err(format!(
                    "the address does not move: {before} good connections before it did, {after} after"
                ));
            }
            if serves().await {
                gap = gap.max(last.elapsed());
                last = Awake::now();
                if has_moved().await {
                    after += 1;
                    moving = Awake::now();
                } else {
                    before += 1;
                }
            }
        }
        Ok(gap)
    }

    /// Whether a machine sends what is for an address to this one.
    pub(crate) fn goes_to(&self, from: usize, ip: IpAddr, machine: usize) -> bool {
        self.neighbour(from, ip) == Some(self.hardware(machine))
    }

    /// The hardware address of a machine.
    pub(crate) fn hardware(&self, index: usize) -> String {
        let text = self.machines[index].ip("link show eth0");
        let mut words = text.split_whitespace();
        words.find(|word| *word == "link/ether").unwrap();
        words.next().unwrap().to_owned()
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        self.machines.iter_mut().for_each(Room::close);
        self.switch.close();
        remove(&self.prefix);
    }
}

/// The address of a machine.
pub(crate) fn address(index: usize) -> IpAddr {
    IpAddr::from([10, 99, 0, 1 + u8::try_from(index).unwrap()])
}

/// The IPv6 address of a machine.
pub(crate) fn address6(index: usize) -> IpAddr {
    IpAddr::from([0xfd00, 0x99, 0, 0, 0, 0, 0, 1 + u16::try_from(index).unwrap()])
}

/// Lets this thread's namespace forward.
fn forward() {
    fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
    fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").unwrap();
}
