//! News of the kernel about tables of packet rules: only that somebody changed them, and who.

use std::io;
use std::os::fd::AsFd as _;

use netlink_sys::protocols::NETLINK_NETFILTER;
use netlink_sys::{Socket, SocketAddr};
use tokio::net::UdpSocket;

use super::NetlinkError;
use super::socket::BUFFER;

/// The group for changes of tables: number 7, as the bit of the older way to join.
const GROUP: u32 = 1 << 6;
/// Where the header of a message tells whose request it is about, and how long the header is.
const REQUESTER: std::ops::Range<usize> = 12..16;

/// Hears who changes tables, from when it is opened.
#[derive(Debug)]
pub struct TableWatch {
    /// A netlink socket: the type is only what waits for datagrams of any kind without `unsafe`.
    socket: UdpSocket,
    /// The name of the table that the news must be about, as it stands in a message.
    name: Vec<u8>,
}

/// Who changed a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// The socket of this number: usually the number of the process.
    Known(u32),
    /// More happened than the kernel keeps.
    Unclear,
}

impl TableWatch {
    /// Listens for changes of tables of this name, in the network namespace of this thread.
    pub fn open(name: &str) -> Result<Self, NetlinkError> {
        let open = || -> io::Result<_> {
            let mut socket = Socket::new(NETLINK_NETFILTER)?;
            socket.set_non_blocking(true)?;
            socket.bind(&SocketAddr::new(0, GROUP))?;
            UdpSocket::from_std(socket.as_fd().try_clone_to_owned()?.into())
        };
        let socket = open().map_err(|error| NetlinkError::new("listening for changes of tables", error))?;
        Ok(Self { socket, name: [name.as_bytes(), &[0]].concat() })
    }

    /// Who changes such a table next.
    pub async fn next(&mut self) -> Result<Writer, NetlinkError> {
        let mut buffer = vec![0; BUFFER];
        loop {
            match self.socket.recv(&mut buffer).await {
                Ok(count) => {
                    let message = &buffer[..count];
                    if message.windows(self.name.len()).any(|part| part == self.name) {
                        let requester = message.get(REQUESTER).and_then(|bytes| bytes.try_into().ok());
                        return Ok(requester
                            .map_or(Writer::Unclear, |bytes| Writer::Known(u32::from_ne_bytes(bytes))));
                    }
                }
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) => {
                    return Ok(Writer::Unclear);
                }
                Err(error) => return Err(NetlinkError::new("hearing of changes of tables", error)),
            }
        }
    }
}
