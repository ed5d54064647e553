//! Gratuitous ARP: an Ethernet frame to everybody that says where an IPv4 address is.

use std::net::Ipv4Addr;

use crate::netlink::Hardware;

/// The type of ARP in an Ethernet frame.
pub(super) const ETHERTYPE: u16 = 0x0806;

const BROADCAST: Hardware = [0xff; 6];
/// Ethernet, IPv4, and the lengths of their addresses.
const KINDS: [u8; 6] = [0, 1, 8, 0, 6, 4];
const REQUEST: [u8; 2] = [0, 1];
const REPLY: [u8; 2] = [0, 2];
/// Where the packet starts in a frame.
const PACKET: usize = 14;

/// What a packet says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// This virtual address is there.
    Virtual(Ipv4Addr, Hardware),
    /// This address is there, and is a machine's own.
    Own(Ipv4Addr, Hardware),
    /// The machine with this hardware address lives, and says something else, as this address if as any.
    Else(Option<Ipv4Addr>, Hardware),
}

impl Said {
    /// An announcement as a request for the address itself, which is what hosts of every make take in (RFC 5227); of a
    /// machine's own address as a reply, which they take in too, and which tells the two apart.
    pub(super) fn frame(ip: Ipv4Addr, at: Hardware, is_own: bool) -> Vec<u8> {
        frame(if is_own { REPLY } else { REQUEST }, at, ip, ip)
    }

    /// A question for an address that nobody need remember: its sender has none (RFC 5227, a probe).
    pub(super) fn question(ip: Ipv4Addr, asker: Hardware) -> Vec<u8> {
        frame(REQUEST, asker, Ipv4Addr::UNSPECIFIED, ip)
    }

    /// Reads a frame.
    pub(super) fn read(frame: &[u8]) -> Option<Self> {
        let packet = frame.get(PACKET..)?;
        if frame.get(12..14)? != ETHERTYPE.to_be_bytes() || packet.get(..6)? != KINDS {
            return None;
        }
        let is_reply = packet.get(6..8)? == REPLY;
        let at = *packet.get(8..)?.first_chunk()?;
        let sender: [u8; 4] = *packet.get(14..)?.first_chunk()?;
        let target: [u8; 4] = *packet.get(24..)?.first_chunk()?;
        Some(match (sender == target, is_reply) {
            (true, false) => Self::Virtual(sender.into(), at),
            (true, true) => Self::Own(sender.into(), at),
            (false, _) => Self::Else(Some(sender.into()).filter(|ip: &Ipv4Addr| !ip.is_unspecified()), at),
        })
    }
}

fn frame(operation: [u8; 2], sender: Hardware, from: Ipv4Addr, about: Ipv4Addr) -> Vec<u8> {
    let mut frame = Vec::with_capacity(42);
    frame.extend(BROADCAST);
    frame.extend(sender);
    frame.extend(ETHERTYPE.to_be_bytes());
    frame.extend(KINDS);
    frame.extend(operation);
    frame.extend(sender);
    frame.extend(from.octets());
    frame.extend([0; 6]);
    frame.extend(about.octets());
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Hardware = [2, 0, 0, 0, 0, 7];

    #[test]
    fn the_frame_is_what_the_standard_says_and_reads_back() {
        let ip = [192, 0, 2, 9].into();
        let frame = Said::frame(ip, AT, false);
        assert_eq!(
            frame,
            [
                0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 7, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0,
                0, 0, 7, 192, 0, 2, 9, 0, 0, 0, 0, 0, 0, 192, 0, 2, 9
            ]
        );
        assert_eq!(Said::read(&frame), Some(Said::Virtual(ip, AT)));
        let mut padded = frame.clone();
        padded.resize(60, 0);
        assert_eq!(Said::read(&padded), Some(Said::Virtual(ip, AT)));
        assert_eq!(Said::read(&Said::frame(ip, AT, true)), Some(Said::Own(ip, AT)));
    }

    #[test]
    fn questions_are_signs_of_life_of_whoever_asks_and_fragments_are_nothing() {
        let (ip, other) = ([192, 0, 2, 9].into(), [192, 0, 2, 1].into());
        assert_eq!(Said::read(&frame(REQUEST, AT, other, ip)), Some(Said::Else(Some(other), AT)));
        assert_eq!(Said::read(&frame(REPLY, AT, other, ip)), Some(Said::Else(Some(other), AT)));
        let frame = Said::question(ip, AT);
        assert_eq!(Said::read(&frame), Some(Said::Else(None, AT)));
        for length in 0..42 {
            assert_eq!(Said::read(&frame[..length]), None);
        }
    }
}
