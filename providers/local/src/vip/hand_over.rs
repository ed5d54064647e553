//! Which of several balancer machines answers for an address.
//!
//! A manager that ends, by whatever end, leaves its addresses and its rules in the kernel: traffic flows on. The next
//! leader puts the same addresses on its own machine and announces them, and from then on the neighbours send there.
//! What the former machine still has must go, or two would answer whoever asks for the first time. Its manager, a
//! standby by now, hears the announcement and gives way; it needs no API server for that. A leader gives way to nobody:
//! it announces its addresses again, now and then for those who came late, and at once when it hears another: one that
//! announces them too, or one that came back with an address of old and speaks as it, which misleads whoever listens.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::context::Leadership;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::contradiction::{Contradiction, Contradictions};
use super::hear::{Ear, Heard};
use super::{Addresses, VipError, hex, own_hardware};

/// How often a leader announces everything again: how long a machine that comes back with an old address on it, or a
/// neighbour that missed the announcement, is wrong at most.
const REMINDER: Duration = Duration::from_secs(10);

/// Keeps one machine per address. Ends only with an error; whoever spawns it ends it.
pub async fn run(addresses: Addresses, leadership: Arc<dyn Leadership>) -> Result<(), VipError> {
    let ear = Ear::open()?;
    let (mut contradictions, mut alive) = (Contradictions::default(), BTreeSet::new());
    let mut reminders = interval(REMINDER);
    reminders.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut own = own_hardware()?;
    loop {
        tokio::select! {
            _ = reminders.tick() => {
                // An interface may come, or get another hardware address.
                own = own_hardware()?;
                alive.clear();
                if leadership.may_act() {
                    addresses.announce_all();
                    addresses.ask_former();
                }
            }
            () = contradictions.wait() => {
                let due = contradictions.due(Instant::now());
                if leadership.may_act() {
                    contradict(&addresses, due);
                }
            }
            heard = ear.next(&own) => {
                let attempt = "hearing who announces virtual addresses";
                let heard = heard.map_err(|error| VipError::Packets(attempt, error))?;
                if !leadership.may_act() {
                    addresses.note(&heard);
                    give_way(&addresses, heard)?;
                    continue;
                }
                if let Some(ip) = heard.speaks_as.filter(|ip| addresses.answers_for(*ip)) {
                    let at_once = contradictions.heard(ip, heard.at, Instant::now());
                    contradict(&addresses, at_once);
                }
                if addresses.relays_to(heard.at) && alive.insert(heard.at) {
                    addresses.renew_relays().await;
                }
            }
        }
    }
}

fn contradict(addresses: &Addresses, contradictions: impl IntoIterator<Item = Contradiction>) {
    for Contradiction { ip, at } in contradictions {
        addresses.announce_again(ip);
        if let Some(at) = at {
            tracing::warn!(
                %ip,
                at = %hex(at),
                "Another machine speaks as a virtual address of this one, which leads; it is announced again"
            );
        }
    }
}

fn give_way(addresses: &Addresses, heard: Heard) -> Result<(), VipError> {
    let Some(ip) = heard.ip else { return Ok(()) };
    if addresses.give_way(ip)? {
        tracing::info!(%ip, at = %hex(heard.at), "Another machine answers for a virtual address now: gave way");
    }
    Ok(())
}
