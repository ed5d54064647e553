//! ICMP echo, so that no program need be installed for it.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "shared by several test targets, each of which uses its own part"
)]

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;
use tokio::time::timeout;

static NEXT: AtomicU16 = AtomicU16::new(1);

/// Whether an echo comes back within a second, from this address if one is given.
pub async fn ping(to: IpAddr, from: Option<IpAddr>) -> bool {
    let (domain, protocol, request, answer, header) = match to {
        IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4, 8, 0, 20),
        IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6, 128, 129, 0),
    };
    let socket = Socket::new(domain, Type::RAW, Some(protocol)).unwrap();
    socket.set_nonblocking(true).unwrap();
    if let Some(from) = from {
        socket.bind(&SocketAddr::new(from, 0).into()).unwrap();
    }
    let socket = UdpSocket::from_std(socket.into()).unwrap();
    let [high, low] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let mut message = vec![request, 0, 0, 0, high, low, 0, 1];
    if to.is_ipv4() {
        let sum =
            message.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum::<u32>();
        let sum = !u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
        message[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    if socket.send_to(&message, SocketAddr::new(to, 0)).await.is_err() {
        return false;
    }
    let wanted = [answer, high, low];
    let echo = async {
        let mut buffer = [0; 256];
        loop {
            let (count, sender) = socket.recv_from(&mut buffer).await.unwrap();
            let echo = &buffer[header..count];
            if sender.ip() == to && [echo[0], echo[4], echo[5]] == wanted {
                return;
            }
        }
    };
    timeout(Duration::from_secs(1), echo).await.is_ok()
}
