//! Which of several balancer machines answers for an address.
//!
//! A manager that ends, by whatever end, leaves its addresses and its rules in the kernel: traffic flows on. The next
//! leader puts the same addresses on its own machine and announces them, and from then on the neighbours send there.
//! What the former machine still has must go, or two would answer whoever asks for the first time. Its manager, a
//! standby by now, hears the announcement and gives way; it needs no API server for that. A leader gives way to nobody:
//! it announces its addresses again, now and then for those who came late, and at once when it hears another.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::context::Leadership;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::hear::{Ear, Heard};
use super::{Addresses, VipError, own_hardware};

/// How often a leader announces everything again: how long a machine that comes back with an old address on it, or a
/// neighbour that missed the announcement, is wrong at most.
const REMINDER: Duration = Duration::from_secs(10);

/// How soon a leader contradicts the same announcement again.
const CONTRADICTION: Duration = Duration::from_secs(1);

/// Keeps one machine per address. Ends only with an error; whoever spawns it ends it.
pub async fn run(addresses: Addresses, leadership: Arc<dyn Leadership>) -> Result<(), VipError> {
    let ear = Ear::open()?;
    let mut contradicted = BTreeMap::new();
    let mut reminders = interval(REMINDER);
    reminders.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        // An interface may get another hardware address.
        let own = own_hardware()?;
        tokio::select! {
            _ = reminders.tick() => {
                if leadership.may_act() {
                    addresses.announce_all();
                }
                contradicted.retain(|_, last: &mut Instant| last.elapsed() < CONTRADICTION);
            }
            heard = ear.next(&own) => {
                let attempt = "hearing who announces virtual addresses";
                let heard = heard.map_err(|error| VipError::Packets(attempt, error))?;
                if leadership.may_act() {
                    contradict(&addresses, heard, &mut contradicted);
                } else {
                    give_way(&addresses, heard)?;
                }
            }
        }
    }
}

fn contradict(addresses: &Addresses, heard: Heard, last: &mut BTreeMap<IpAddr, Instant>) {
    if last.get(&heard.ip).is_some_and(|last| last.elapsed() < CONTRADICTION) {
        return;
    }
    if addresses.announce_again(heard.ip) {
        last.insert(heard.ip, Instant::now());
        let Heard { ip, at } = heard;
        tracing::warn!(
            %ip,
            at = %hex(at),
            "Another machine announces a virtual address of this one, which leads; it is announced again"
        );
    }
}

fn give_way(addresses: &Addresses, heard: Heard) -> Result<(), VipError> {
    let Heard { ip, at } = heard;
    if addresses.give_way(ip)? {
        tracing::info!(%ip, at = %hex(at), "Another machine answers for a virtual address now: gave way");
    }
    Ok(())
}

fn hex(hardware: [u8; 6]) -> String {
    hardware.map(|byte| format!("{byte:02x}")).join(":")
}
