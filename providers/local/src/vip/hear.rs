//! Hearing which virtual addresses other machines announce.

use std::collections::BTreeSet;
use std::io::{self, Read as _};
use std::net::{IpAddr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::unix::AsyncFd;
use tokio::net::UdpSocket;

use super::{VipError, arp, neighbour};
use crate::netlink::Hardware;

/// An announcement by another machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// The address.
    pub ip: IpAddr,
    /// Who says that it has it.
    pub at: Hardware,
}

/// Hears what neighbours announce, on all interfaces.
#[derive(Debug)]
pub struct Ear {
    frames: AsyncFd<Socket>,
    /// `None` on a machine without IPv6. It is a raw ICMPv6 socket: the type is only what can be asked for senders.
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

    /// The next announcement of somebody who is none of `own`.
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
        loop {
            let mut ready = self.frames.readable().await?;
            if let Ok(count) = ready.try_io(|socket| socket.get_ref().read(&mut buffer)) {
                let announced = arp::Announcement::read(&buffer[..count?]);
                return Ok(announced.map(|told| Heard { ip: told.ip.into(), at: told.at }));
            }
        }
    }

    async fn message(&self) -> io::Result<Option<Heard>> {
        let Some(messages) = &self.messages else { return std::future::pending().await };
        let mut buffer = [0; 128];
        let (count, sender) = messages.recv_from(&mut buffer).await?;
        // Nobody beyond a router can send from a link-local address, so a message from afar changes nothing here.
        let SocketAddr::V6(sender) = sender else { return Ok(None) };
        let is_near = sender.ip().is_unicast_link_local();
        let announced = neighbour::Announcement::read(&buffer[..count]).filter(|_| is_near);
        Ok(announced.map(|told| Heard { ip: told.ip.into(), at: told.at }))
    }
}

fn frames() -> io::Result<AsyncFd<Socket>> {
    let arp = i32::from(arp::ETHERTYPE.to_be());
    let socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(arp)))?;
    socket.set_nonblocking(true)?;
    Ok(AsyncFd::register(socket)?)
}

fn messages() -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6))?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket.into())
}
