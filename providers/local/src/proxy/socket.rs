//! The sockets: where clients come in, and how a backend is reached.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};

/// Connections that may wait to be accepted; the kernel takes less if its own limit is lower.
const BACKLOG: i32 = 4096;
/// A peer that vanished without a word is found out after about a minute and a half.
const KEEPALIVE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Room for datagrams that came while others were forwarded; the kernel gives what its own limit allows.
const DATAGRAM_ROOM: usize = 1 << 20;

/// Listens for TCP connections.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = unbound(address, Type::STREAM)?;
    // An address that was closed a moment ago still has connections in TIME_WAIT.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Waits for datagrams.
pub(super) fn datagrams(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = unbound(address, Type::DGRAM)?;
    // Less room is no reason not to serve.
    let _ = socket.set_recv_buffer_size(DATAGRAM_ROOM);
    socket.bind(&address.into())?;
    UdpSocket::from_std(socket.into())
}

/// A socket that may be bound before its address is on an interface, so that nothing depends on who comes first.
fn unbound(address: SocketAddr, kind: Type) -> io::Result<Socket> {
    let socket = new(address, kind)?;
    match address {
        SocketAddr::V4(_) => socket.set_freebind_v4(true)?,
        SocketAddr::V6(_) => {
            socket.set_only_v6(true)?;
            socket.set_freebind_v6(true)?;
        }
    }
    Ok(socket)
}

fn new(address: SocketAddr, kind: Type) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, None)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Connects to a backend, from the given address if there is one and from the machine's own otherwise.
pub(crate) async fn connect(backend: SocketAddr, from: Option<IpAddr>) -> io::Result<TcpStream> {
    let socket = new(backend, Type::STREAM)?;
    if let Some(from) = from {
        bind_transparently(&socket, from)?;
    }
    let stream = TcpSocket::from_std_stream(socket.into()).connect(backend).await?;
    tune(&stream)?;
    Ok(stream)
}

/// A socket that exchanges datagrams with one backend.
pub(super) fn connect_datagrams(backend: SocketAddr, from: Option<IpAddr>) -> io::Result<UdpSocket> {
    let socket = new(backend, Type::DGRAM)?;
    if let Some(from) = from {
        bind_transparently(&socket, from)?;
    }
    socket.connect(&backend.into())?;
    UdpSocket::from_std(socket.into())
}

/// Whether this process may use addresses that are not the machine's own, towards backends of this family.
pub(super) fn may_be_transparent(backend: SocketAddr) -> io::Result<()> {
    set_transparent(&new(backend, Type::STREAM)?, backend.ip())
}

fn bind_transparently(socket: &Socket, from: IpAddr) -> io::Result<()> {
    set_transparent(socket, from)?;
    socket.bind(&SocketAddr::new(from, 0).into())
}

fn set_transparent(socket: &Socket, family: IpAddr) -> io::Result<()> {
    match family {
        IpAddr::V4(_) => socket.set_ip_transparent_v4(true),
        IpAddr::V6(_) => socket.set_ip_transparent_v6(true),
    }
}

/// What every forwarded connection has, on both sides: nothing held back, and a vanished peer found out.
pub(super) fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive =
        TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE_INTERVAL).with_retries(3);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

/// Makes closing this connection a reset: its peer must not take what it got for all there was.
pub(crate) fn reset_on_close(stream: &TcpStream) {
    // A connection that is already gone cannot be set, and need not.
    let _ = stream.set_zero_linger();
}
