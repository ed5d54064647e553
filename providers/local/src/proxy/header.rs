//! The PROXY protocol, as a sender: what tells a backend the client's address when the connection itself cannot.
//!
//! INVARIANT: these bytes are read by other people's servers; they follow the protocol's text of 2.x to the byte.

use std::net::{IpAddr, SocketAddr};

use crate::intent::ProxyProtocol;

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2 in the upper half, the command in the lower.
const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
const TCP_OVER_V4: u8 = 0x11;
const TCP_OVER_V6: u8 = 0x21;

/// The header of a connection from `client` that came in at `balancer`.
pub(super) fn of_connection(version: ProxyProtocol, client: SocketAddr, balancer: SocketAddr) -> Vec<u8> {
    match version {
        ProxyProtocol::V1 => {
            let family = if client.is_ipv4() { "TCP4" } else { "TCP6" };
            let (source, target) = (client.ip(), balancer.ip());
            format!("PROXY {family} {source} {target} {} {}\r\n", client.port(), balancer.port()).into_bytes()
        }
        ProxyProtocol::V2 => {
            let mut addresses = Vec::with_capacity(36);
            for address in [client.ip(), balancer.ip()] {
                match address {
                    IpAddr::V4(v4) => addresses.extend(v4.octets()),
                    IpAddr::V6(v6) => addresses.extend(v6.octets()),
                }
            }
            for port in [client.port(), balancer.port()] {
                addresses.extend(port.to_be_bytes());
            }
            let transport = if client.is_ipv4() { TCP_OVER_V4 } else { TCP_OVER_V6 };
            binary(PROXY, transport, &addresses)
        }
    }
}

/// The header of a connection that the balancer makes for itself, to ask whether the backend lives.
pub(crate) fn of_probe(version: ProxyProtocol) -> Vec<u8> {
    match version {
        ProxyProtocol::V1 => b"PROXY UNKNOWN\r\n".to_vec(),
        ProxyProtocol::V2 => binary(LOCAL, 0, &[]),
    }
}

fn binary(command: u8, transport: u8, addresses: &[u8]) -> Vec<u8> {
    let mut header = Vec::with_capacity(16 + addresses.len());
    header.extend(SIGNATURE);
    header.extend([command, transport]);
    // 36 at most.
    header.extend(u16::try_from(addresses.len()).unwrap_or(u16::MAX).to_be_bytes());
    header.extend(addresses);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn version_one_is_a_line_of_text() {
        let v4 = of_connection(ProxyProtocol::V1, socket("203.0.113.7:56324"), socket("192.0.2.1:443"));
        assert_eq!(v4, b"PROXY TCP4 203.0.113.7 192.0.2.1 56324 443\r\n");
        let v6 = of_connection(ProxyProtocol::V1, socket("[2001:db8::7]:56324"), socket("[2001:db8::1]:443"));
        assert_eq!(v6, b"PROXY TCP6 2001:db8::7 2001:db8::1 56324 443\r\n");
        assert_eq!(of_probe(ProxyProtocol::V1), b"PROXY UNKNOWN\r\n");
    }

    #[test]
    fn version_two_is_binary() {
        let v4 = of_connection(ProxyProtocol::V2, socket("203.0.113.7:56324"), socket("192.0.2.1:443"));
        assert_eq!(
            v4,
            b"\x0D\x0A\x0D\x0A\x00\x0D\x0A\x51\x55\x49\x54\x0A\x21\x11\x00\x0C\xcb\x00\x71\x07\xc0\x00\x02\x01\xdc\x04\x01\xbb"
        );
        let v6 = of_connection(ProxyProtocol::V2, socket("[2001:db8::7]:1"), socket("[2001:db8::1]:2"));
        assert_eq!(v6[12..16], [0x21, 0x21, 0, 36]);
        assert_eq!(v6[16..20], [0x20, 0x01, 0x0d, 0xb8]);
        assert_eq!((v6[31], v6[47], v6[48..52].to_vec()), (7, 1, vec![0, 1, 0, 2]));
        assert_eq!(of_probe(ProxyProtocol::V2)[12..], [0x20, 0, 0, 0]);
    }
}
