//! News of the kernel about addresses and routes.

use std::io;
use std::os::fd::AsFd as _;

use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use tokio::net::UdpSocket;

use super::socket::{BUFFER, messages};
use super::{Address, NetlinkError, Route, address, route};

/// The groups for links, IPv4 addresses and routes, IPv6 addresses and routes. Links, because the kernel forgets the IPv4
/// routes through an interface that goes down without a word about them.
const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;

/// Something of ours is not what it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// An address of ours is gone, whoever took it.
    AddressGone(Address),
    /// A route of ours is gone, whoever took it.
    RouteGone(Route),
    /// An interface changed, or there was more news than the kernel keeps: anything may be gone.
    Unclear,
}

/// Hears what happens from when it is opened.
#[derive(Debug)]
pub struct Watch {
    /// A netlink socket: the type is only what waits for datagrams of any kind without `unsafe`.
    socket: UdpSocket,
}

impl Watch {
    /// Opens one in the network namespace of this thread.
    pub fn open() -> Result<Self, NetlinkError> {
        let open = || -> io::Result<_> {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.set_non_blocking(true)?;
            socket.bind(&SocketAddr::new(0, GROUPS))?;
            UdpSocket::from_std(socket.as_fd().try_clone_to_owned()?.into())
        };
        let socket = open().map_err(|error| NetlinkError::new("listening to netlink", error))?;
        Ok(Self { socket })
    }

    /// The next news, of which there may be several at once.
    pub async fn next(&mut self) -> Result<Vec<News>, NetlinkError> {
        let mut buffer = vec![0; BUFFER];
        loop {
            match self.socket.recv(&mut buffer).await {
                Ok(count) => {
                    let read = |message: io::Result<NetlinkMessage<_>>| {
                        message.map_or(Some(News::Unclear), |message| read(message.payload))
                    };
                    let mut news: Vec<News> = messages(&buffer[..count]).filter_map(read).collect();
                    news.dedup();
                    if !news.is_empty() {
                        return Ok(news);
                    }
                }
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) => {
                    return Ok(vec![News::Unclear]);
                }
                Err(error) => return Err(NetlinkError::new("hearing from netlink", error)),
            }
        }
    }
}

fn read(payload: NetlinkPayload<RouteNetlinkMessage>) -> Option<News> {
    let NetlinkPayload::InnerMessage(message) = payload else { return None };
    match message {
        RouteNetlinkMessage::DelAddress(_) => {
            address::read(message).filter(Address::is_ours).map(News::AddressGone)
        }
        RouteNetlinkMessage::DelRoute(_) => route::read(message).map(News::RouteGone),
        RouteNetlinkMessage::NewLink(_) | RouteNetlinkMessage::DelLink(_) => Some(News::Unclear),
        _ => None,
    }
}
