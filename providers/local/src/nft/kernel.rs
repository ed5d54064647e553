//! What the kernel must be set to besides the tables.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::IpAddr;

use super::networks;

/// What the machine does not do and must, in words for a person.
pub(super) fn missing(addresses: &BTreeSet<IpAddr>) -> Vec<String> {
    let is_off = |path: &str| fs::read_to_string(path).is_ok_and(|value| value.trim() == "0");
    let families = [
        (addresses.iter().any(IpAddr::is_ipv4), "net.ipv4.ip_forward"),
        (addresses.iter().any(IpAddr::is_ipv6), "net.ipv6.conf.all.forwarding"),
    ];
    let off = families.into_iter().filter(|(used, key)| *used && is_off(&path(key)));
    off.map(|(_, key)| format!("this machine forwards nothing: set {key} to 1")).collect()
}

/// Lets answers in that have one of this machine's own addresses as their source, on the legs where these backends are.
/// IPv6 needs nothing for that.
pub(super) fn accept_answers(backends: &BTreeSet<IpAddr>) -> io::Result<()> {
    let legs: BTreeSet<String> = backends.iter().filter_map(|address| networks::leg(*address)).collect();
    for leg in legs {
        let file = path("net.ipv4.conf") + &format!("/{leg}/accept_local");
        if fs::read_to_string(&file)?.trim() != "1" {
            tracing::info!(interface = leg, "letting answers from virtual addresses in (accept_local)");
            fs::write(&file, "1")?;
        }
    }
    Ok(())
}

fn path(key: &str) -> String {
    format!("/proc/sys/{}", key.replace('.', "/"))
}
