//! Hearing which virtual addresses other machines announce.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;

use super::{VipError, arp, neighbour};
use crate::netlink::Hardware;

/// What another machine said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// Who says it.
    pub at: Hardware,
    /// The address that it announces; without one, only that it lives.
    pub ip: Option<IpAddr>,
    /// The address that it speaks as. Whoever hears it remembers where that address is, as after an announcement.
    pub speaks_as: Option<IpAddr>,
    /// An address of its own.
    pub own: Option<IpAddr>,
}

/// Hears what neighbours announce, on all interfaces.
#[derive(Debug)]
pub struct Ear {
    /// A packet socket for ARP.
    frames: UdpSocket,
    /// A raw socket for ICMP of IPv6; `None` on a machine without IPv6.
    messages: Option<UdpSocket>,
}

impl Ear {
    /// Begins to listen, in the network namespace of this thread.
    pub fn open() -> Result<Self, VipError> {
        let attempt = "opening a packet socket to hear who announces virtual addresses";
        let frames = frames().map_err(|error| VipError::Packets(attempt, error))?;
        let attempt = "opening a raw ICMPv6 socket to hear who announces virtual addresses";
        let messages = match messages() {
            Ok(socket) => Some(socket),
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error()) => None,
            Err(error) => return Err(VipError::Packets(attempt, error)),
        };
        Ok(Self { frames, messages })
    }

    /// The next thing that somebody says who is none of `own`.
    pub async fn next(&self, own: &BTreeSet<Hardware>) -> io::Result<Heard> {
        loop {
            let heard = tokio::select! {
                heard = self.frame() => heard?,
                heard = self.message() => heard?,
            };
            if let Some(heard) = heard.filter(|heard| !own.contains(&heard.at)) {
                return Ok(heard);
            }
        }
    }

    async fn frame(&self) -> io::Result<Option<Heard>> {
        let mut buffer = [0; 128];
        let count = self.frames.recv(&mut buffer).await?;
        Ok(arp::Said::read(&buffer[..count]).map(|said| match said {
            arp::Said::Virtual(ip, at) => {
                Heard { at, ip: Some(ip.into()), speaks_as: Some(ip.into()), own: None }
            }
            arp::Said::Own(ip, at) => {
                Heard { at, ip: Some(ip.into()), speaks_as: Some(ip.into()), own: Some(ip.into()) }
            }
            arp::Said::Else(ip, at) => Heard { at, ip: None, speaks_as: ip.map(IpAddr::from), own: None },
        }))
    }

    async fn message(&self) -> io::Result<Option<Heard>> {
        let Some(messages) = &self.messages else { return std::future::pending().await };
        let mut buffer = [0; 128];
        let (count, sender) = messages.recv_from(&mut buffer).await?;
        // Nobody beyond a router can send from a link-local address, so a message from afar changes nothing here.
        let SocketAddr::V6(sender) = sender else { return Ok(None) };
        let is_near = sender.ip().is_unicast_link_local();
        let announced = neighbour::Announcement::read(&buffer[..count]).filter(|_| is_near);
        let own = Some(IpAddr::V6(*sender.ip()));
        Ok(announced.map(|told| {
            let ip = Some(told.ip.into());
            Heard { at: told.at, ip, speaks_as: ip, own }
        }))
    }
}

// Both become sockets of a type that they are not: it is the one that waits for datagrams without `unsafe`, and it asks
// the system for nothing that these do not have.

fn frames() -> io::Result<UdpSocket> {
    let arp = i32::from(arp::ETHERTYPE.to_be());
    let socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(arp)))?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket.into())
}

fn messages() -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6))?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket.into())
}
