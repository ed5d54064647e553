//! How a client comes to a backend: one is chosen, reached from the right address, and told what it must be told first.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};

use super::backend::{Backend, Claim};
use super::listen::Door;
use super::scope::Scope;
use super::{header, socket};
use crate::intent::{ClientAddress, Settings};

/// A backend that has not taken a connection by then is given up for this client. Long enough for one lost packet.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1500);
/// The same for a second try from the machine's own address.
const SECOND_TIMEOUT: Duration = Duration::from_millis(500);
/// So many backends are tried for one connection.
const ATTEMPTS: usize = 5;

/// A backend that took the connection, with what it must be told first already said.
pub(super) async fn reach(client: &TcpStream, peer: SocketAddr, door: &Door) -> Option<(TcpStream, Claim)> {
    // Only tells that the client is gone already.
    socket::tune(client).ok()?;
    let local = client.local_addr().ok()?;
    let mut tried = Vec::new();
    while tried.len() < ATTEMPTS {
        let settings = door.scope.settings();
        let claim = door.group.choose(peer.ip(), &settings, &tried, Instant::now())?;
        match introduce(&claim, peer, local, &door.scope, &settings).await {
            Ok(upstream) => {
                claim.trust();
                return Some((upstream, claim));
            }
            Err(error) => {
                debug!(backend = %claim.socket(), %error, "a backend did not take a connection");
                if !is_our_own_fault(&error) {
                    claim.suspect(Instant::now());
                }
                tried.push(claim.socket());
            }
        }
    }
    None
}

/// Connects, and says who the client is if that is wanted.
async fn introduce(
    backend: &Backend,
    peer: SocketAddr,
    local: SocketAddr,
    scope: &Scope,
    settings: &Settings,
) -> io::Result<TcpStream> {
    let mut upstream = match source(scope, settings, peer.ip(), backend) {
        None => connect(backend, None, CONNECT_TIMEOUT).await?,
        Some(client) => connect_as(client, backend, scope).await?,
    };
    if let Some(version) = settings.proxy_protocol {
        // So few bytes always fit into a new connection.
        upstream.write_all(&header::of_connection(version, peer, local)).await?;
    }
    Ok(upstream)
}

/// Connects from the client's own address. If that gets no answer and the machine's own address does, it is the routing
/// that does not bring the answers back: better a client who is served under another address than one who is not.
async fn connect_as(client: IpAddr, backend: &Backend, scope: &Scope) -> io::Result<TcpStream> {
    let kept = connect(backend, Some(client), CONNECT_TIMEOUT).await;
    match kept {
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            let upstream = connect(backend, None, SECOND_TIMEOUT).await?;
            backend.loses_answers(Instant::now());
            let socket = backend.socket();
            lament(
                scope,
                &format!("the answers of {socket} to clients do not come back through this machine"),
            );
            Ok(upstream)
        }
        kept => kept,
    }
}

async fn connect(backend: &Backend, from: Option<IpAddr>, patience: Duration) -> io::Result<TcpStream> {
    let attempt = timeout(patience, socket::connect(backend.socket(), from));
    attempt.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// The address from which a backend is reached; `None` is the machine's own.
pub(super) fn source(
    scope: &Scope,
    settings: &Settings,
    client: IpAddr,
    backend: &Backend,
) -> Option<IpAddr> {
    if settings.client_address == ClientAddress::Replaced || backend.lost_answers(Instant::now()) {
        return None;
    }
    if client.is_ipv4() != backend.socket().is_ipv4() {
        lament(scope, "clients and backends are of different address families");
        return None;
    }
    match socket::may_be_transparent(backend.socket()) {
        Ok(()) => Some(client),
        Err(error) => {
            lament(scope, &format!("the system does not allow it ({error})"));
            None
        }
    }
}

fn lament(scope: &Scope, obstacle: &str) {
    if scope.cannot_keep_address(obstacle, Instant::now()) {
        warn!(service = %scope.names(), obstacle, "the client's address is not kept");
    }
}

/// Whether a failure says nothing about the backend: no ports, descriptors or memory left here.
fn is_our_own_fault(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let ours =
        [Errno::ADDRNOTAVAIL, Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::ADDRINUSE];
    Errno::from_io_error(error).is_some_and(|errno| ours.contains(&errno))
}
