//! Ports that are free now. Whoever starts a daemon on one must still be ready for a clash and try another.

use std::io;
use std::net::{Ipv4Addr, TcpListener};

use crate::error::Error;

/// Below this, ports belong to well-known services.
const LOWEST: u16 = 10_000;

/// A port on loopback that is free now.
pub(crate) fn free() -> Result<u16, Error> {
    let port = taken().and_then(|listener| listener.local_addr()).map(|address| address.port());
    port.map_err(Error::io("looking for a free port on loopback"))
}

/// A port on loopback that was free, taken.
///
/// It is from below the range that the kernel gives to outgoing connections where that is possible: a daemon that
/// is stopped and started again needs its old port back, and a client that keeps dialling a port within that range while
/// nobody listens there may be given that very port as its own, and is then connected to itself.
fn taken() -> io::Result<TcpListener> {
    let ephemeral = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|range| range.split_whitespace().next()?.parse::<u16>().ok())
        .filter(|first| *first > LOWEST + 1_000);
    if let Some(first) = ephemeral {
        for _ in 0..100 {
            let candidate = LOWEST + random_below(first - LOWEST);
            if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, candidate)) {
                return Ok(listener);
            }
        }
    }
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
}

fn random_below(end: u16) -> u16 {
    let random = uuid::Uuid::new_v4();
    let [.., high, low] = *random.as_bytes();
    u16::from_be_bytes([high, low]) % end
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Each port is held from the moment it is found: a port that is let go again may be anybody's by the next line.
    #[test]
    fn a_port_is_not_given_out_while_it_is_taken() {
        let held: Vec<TcpListener> = (0..50).map(|_| taken().unwrap()).collect();
        let ports: BTreeSet<u16> =
            held.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
        assert_eq!(ports.len(), held.len());
        assert!(!ports.contains(&free().unwrap()));
    }
}
