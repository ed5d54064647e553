//! Telling the neighbours: gratuitous ARP on a packet socket, an unsolicited advertisement on a raw socket.
//!
//! Both are safe Rust. A packet is sent to an interface by an address of a kind that the standard library and socket2 make
//! only from raw memory; `nix` reads such addresses from the system's list of interfaces, and sends there.
//!
//! There is one packet socket for all that is ever said: the kernel takes a grace period of several milliseconds to close or
//! to bind one, and a machine that takes over may have a thousand addresses to tell.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddrV6};
use std::os::fd::AsRawFd as _;

use nix::sys::socket::{MsgFlags, sendto};
use socket2::{Domain, Protocol, Socket, Type};

use super::{VipError, arp, neighbour};
use crate::netlink::{Hardware, Link};

/// A neighbour refuses an advertisement that came through a router, which counts this down.
const HOPS: u32 = 255;

/// Tells neighbours where addresses are.
#[derive(Debug)]
pub struct Announcer {
    packets: Socket,
    /// `None` on a machine without IPv6.
    advertisements: Option<Socket>,
}

impl Announcer {
    /// Makes sure that packets can be sent.
    pub fn open() -> Result<Self, VipError> {
        let attempt = "opening a packet socket to announce virtual addresses";
        let packets = packet_socket().map_err(|error| VipError::Packets(attempt, error))?;
        let attempt = "opening a raw ICMPv6 socket to announce virtual addresses";
        let advertisements = match raw_socket() {
            Ok(socket) => Some(socket),
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error()) => None,
            Err(error) => return Err(VipError::Packets(attempt, error)),
        };
        Ok(Self { packets, advertisements })
    }

    /// Says once that this address is at this interface. An interface without neighbours has nobody to tell.
    pub fn tell(&self, ip: IpAddr, link: &Link) {
        let Some(at) = link.hardware else { return };
        let told = match ip {
            IpAddr::V4(ip) => self.send4(&arp::Said::frame(ip, at, false), link),
            IpAddr::V6(ip) => self.tell6(ip, at, link),
        };
        match told {
            Ok(()) => tracing::debug!(%ip, "Announced a virtual address"),
            // An interface that is down tells nobody, and whoever brings it up disturbs the addresses.
            Err(error) => tracing::warn!(%ip, %error, "Cannot announce a virtual address"),
        }
    }

    /// Says once what this machine's own address is, for those who may take over from it. IPv6 needs no such word: its
    /// announcements come from an address of the machine.
    pub fn tell_own(&self, ip: IpAddr, link: &Link) {
        if let (IpAddr::V4(ip), Some(at)) = (ip, link.hardware) {
            let _ = self.send4(&arp::Said::frame(ip, at, true), link);
        }
    }

    /// Asks a neighbour for a sign of life.
    pub fn ask(&self, ip: IpAddr, link: &Link) {
        if let (IpAddr::V4(ip), Some(at)) = (ip, link.hardware) {
            let _ = self.send4(&arp::Said::question(ip, at), link);
        }
    }

    fn send4(&self, frame: &[u8], link: &Link) -> io::Result<()> {
        Ok(sendto(self.packets.as_raw_fd(), frame, &link.socket, MsgFlags::empty()).map(drop)?)
    }

    fn tell6(&self, ip: Ipv6Addr, at: Hardware, link: &Link) -> io::Result<()> {
        let Some(socket) = &self.advertisements else { return Ok(()) };
        let everybody = SocketAddrV6::new(neighbour::ALL_NODES, 0, 0, link.index);
        let message = neighbour::Announcement { ip, at }.message(is_router());
        socket.set_multicast_if_v6(link.index)?;
        socket.send_to(&message, &everybody.into()).map(drop)
    }
}

/// A packet socket that hears nothing, because it asks for no protocol.
fn packet_socket() -> io::Result<Socket> {
    Socket::new(Domain::PACKET, Type::RAW, None)
}

fn raw_socket() -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6))?;
    socket.set_multicast_hops_v6(HOPS)?;
    socket.set_multicast_loop_v6(false)?;
    // It only sends: nothing is to wait in it.
    socket.set_recv_buffer_size(0)?;
    Ok(socket)
}

/// Whether this machine forwards IPv6.
fn is_router() -> bool {
    std::fs::read_to_string("/proc/sys/net/ipv6/conf/all/forwarding").is_ok_and(|text| text.trim() == "1")
}
