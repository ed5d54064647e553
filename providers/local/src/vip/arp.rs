//! Gratuitous ARP: an Ethernet frame to everybody that says where an IPv4 address is.

use std::net::Ipv4Addr;

use crate::netlink::Hardware;

/// The EtherType of ARP.
pub(super) const ETHERTYPE: u16 = 0x0806;

const BROADCAST: Hardware = [0xff; 6];
/// Ethernet, IPv4, and the lengths of their addresses.
const KINDS: [u8; 6] = [0, 1, 8, 0, 6, 4];
const REQUEST: [u8; 2] = [0, 1];
/// Where the packet starts in a frame.
const PACKET: usize = 14;

/// What an announcement says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Announcement {
    pub(super) ip: Ipv4Addr,
    pub(super) at: Hardware,
}

impl Announcement {
    /// As a request for the address itself, which is what hosts of every make take in (RFC 5227).
    pub(super) fn frame(self) -> Vec<u8> {
        let mut frame = Vec::with_capacity(42);
        frame.extend(BROADCAST);
        frame.extend(self.at);
        frame.extend(ETHERTYPE.to_be_bytes());
        frame.extend(KINDS);
        frame.extend(REQUEST);
        frame.extend(self.at);
        frame.extend(self.ip.octets());
        frame.extend([0; 6]);
        frame.extend(self.ip.octets());
        frame
    }

    /// Reads a frame; nothing if it announces nothing. Requests and replies both do, if they are about their sender.
    pub(super) fn read(frame: &[u8]) -> Option<Self> {
        let packet = frame.get(PACKET..)?;
        if frame.get(12..14)? != ETHERTYPE.to_be_bytes() || packet.get(..6)? != KINDS {
            return None;
        }
        let at = *packet.get(8..)?.first_chunk()?;
        let sender: [u8; 4] = *packet.get(14..)?.first_chunk()?;
        let target: [u8; 4] = *packet.get(24..)?.first_chunk()?;
        (sender == target).then(|| Self { ip: sender.into(), at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Hardware = [2, 0, 0, 0, 0, 7];

    #[test]
    fn the_frame_is_what_the_standard_says_and_reads_back() {
        let announcement = Announcement { ip: [192, 0, 2, 9].into(), at: AT };
        let frame = announcement.frame();
        assert_eq!(
            frame,
            [
                0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 7, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0,
                0, 0, 7, 192, 0, 2, 9, 0, 0, 0, 0, 0, 0, 192, 0, 2, 9
            ]
        );
        assert_eq!(Announcement::read(&frame), Some(announcement));
        let mut padded = frame.clone();
        padded.resize(60, 0);
        assert_eq!(Announcement::read(&padded), Some(announcement));
    }

    #[test]
    fn questions_and_fragments_announce_nothing() {
        let mut frame = Announcement { ip: [192, 0, 2, 9].into(), at: AT }.frame();
        frame[41] = 10;
        assert_eq!(Announcement::read(&frame), None, "it asks for another address");
        for length in 0..42 {
            assert_eq!(Announcement::read(&frame[..length]), None);
        }
    }
}
