//! Unsolicited neighbour advertisements: a message to all nodes that says where an IPv6 address is (RFC 4861, 7.2.6).

use std::net::Ipv6Addr;

use crate::netlink::Hardware;

/// Everybody on the link.
pub(super) const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

const ADVERTISEMENT: u8 = 136;
/// What neighbours believed before is overridden.
const OVERRIDE: u8 = 0x20;
/// The sender is a router. A host that hears otherwise from its own router drops it.
const ROUTER: u8 = 0x80;
/// The option that holds the sender's hardware address, one unit of eight bytes long.
const TARGET_HARDWARE: [u8; 2] = [2, 1];

/// What an announcement says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Announcement {
    pub(super) ip: Ipv6Addr,
    pub(super) at: Hardware,
}

impl Announcement {
    /// The message; the kernel writes the checksum.
    pub(super) fn message(self, is_router: bool) -> Vec<u8> {
        let mut message = vec![ADVERTISEMENT, 0, 0, 0];
        message.extend([OVERRIDE | if is_router { ROUTER } else { 0 }, 0, 0, 0]);
        message.extend(self.ip.octets());
        message.extend(TARGET_HARDWARE);
        message.extend(self.at);
        message
    }

    /// Reads a message; nothing if it announces nothing.
    pub(super) fn read(message: &[u8]) -> Option<Self> {
        let ip: [u8; 16] = *message.get(8..)?.first_chunk()?;
        if message[0] != ADVERTISEMENT || message[1] != 0 || message[4] & OVERRIDE == 0 {
            return None;
        }
        let mut options = message.get(24..)?;
        while let [kind, units, ..] = *options {
            let length = usize::from(units) * 8;
            let option = options.get(..length).filter(|_| length > 0)?;
            if [kind, units] == TARGET_HARDWARE {
                return Some(Self { ip: ip.into(), at: *option[2..].first_chunk()? });
            }
            options = &options[length..];
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Hardware = [2, 0, 0, 0, 0, 7];

    #[test]
    fn the_message_reads_back_and_overrides() {
        let announcement = Announcement { ip: "2001:db8::9".parse().unwrap(), at: AT };
        for (is_router, flags) in [(true, 0xa0), (false, 0x20)] {
            let message = announcement.message(is_router);
            assert_eq!((message.len(), message[0], message[4]), (32, 136, flags));
            assert_eq!(Announcement::read(&message), Some(announcement));
        }
    }

    #[test]
    fn fragments_and_answers_that_override_nothing_announce_nothing() {
        let mut message = Announcement { ip: "2001:db8::9".parse().unwrap(), at: AT }.message(false);
        for length in 0..32 {
            assert_eq!(Announcement::read(&message[..length]), None, "{length}");
        }
        message[25] = 0;
        assert_eq!(Announcement::read(&message), None, "an option without a length");
        message[25] = 1;
        message[4] = 0;
        assert_eq!(Announcement::read(&message), None);
    }
}
