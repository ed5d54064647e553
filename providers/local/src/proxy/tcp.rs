//! TCP: connections are accepted at one address and port, and each is relayed to a backend.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::backend::{Backend, Claim};
use super::listen::Door;
use super::relay::{Ended, Meters, relay};
use super::scope::{Scope, Ticket};
use super::{header, socket};
use crate::intent::{ClientAddress, Settings};

/// A backend that has not taken a connection by then is given up for this client. Long enough for one lost packet.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1500);
/// So many backends are tried for one connection.
const ATTEMPTS: usize = 5;
/// The pause after the process or the machine has run out of something.
const OUT_OF_RESOURCES: Duration = Duration::from_millis(100);

/// Accepts until `stop`. The listening socket is closed when this returns; connections live on.
pub(super) async fn serve(listener: TcpListener, door: Arc<Door>, stop: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((client, peer)) => admit(client, peer, &door),
            Err(error) if is_about_one_connection(&error) => {}
            Err(error) => {
                warn!(listener = %door.listener, %error, "cannot accept a connection; trying again");
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = sleep(OUT_OF_RESOURCES) => {}
                }
            }
        }
    }
}

fn is_about_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

fn admit(client: TcpStream, peer: SocketAddr, door: &Arc<Door>) {
    match door.scope.admit(peer.ip(), &door.scope.settings()) {
        Ok(ticket) => {
            let connection = carry(client, peer, Arc::clone(door), ticket);
            door.scope.shared.connections.spawn(connection);
        }
        Err(why) => {
            debug!(listener = %door.listener, %peer, ?why, "refused a connection");
            socket::reset_on_close(&client);
        }
    }
}

/// One connection, from its beginning to its end.
async fn carry(mut client: TcpStream, peer: SocketAddr, door: Arc<Door>, ticket: Ticket) {
    let Some((mut upstream, backend)) = reach(&client, peer, &door).await else {
        door.scope.counters.unserved.fetch_add(1, Ordering::Relaxed);
        socket::reset_on_close(&client);
        return;
    };
    let counters = &door.scope.counters;
    let meters = Meters { received: &counters.received, sent: &counters.sent };
    let idle_timeout = door.scope.settings().idle_timeout;
    let ended = tokio::select! {
        ended = relay(&mut client, &mut upstream, &door.scope.shared.buffers, meters, idle_timeout) => ended,
        () = backend.cut.cancelled() => Ended::Broken,
        () = door.cut.cancelled() => Ended::Broken,
    };
    if ended == Ended::Broken {
        socket::reset_on_close(&client);
        socket::reset_on_close(&upstream);
    }
    drop(ticket);
}

/// A backend that took the connection, with what it must be told first already said.
async fn reach(client: &TcpStream, peer: SocketAddr, door: &Door) -> Option<(TcpStream, Claim)> {
    // Only tells that the client is gone already.
    socket::tune(client).ok()?;
    let local = client.local_addr().ok()?;
    let mut tried = Vec::new();
    while tried.len() < ATTEMPTS {
        let settings = door.scope.settings();
        let claim = door.group.choose(peer.ip(), &settings, &tried, Instant::now())?;
        let attempt = connect(&claim, peer, local, &door.scope, &settings);
        match timeout(CONNECT_TIMEOUT, attempt).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        {
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

async fn connect(
    backend: &Backend,
    peer: SocketAddr,
    local: SocketAddr,
    scope: &Scope,
    settings: &Settings,
) -> io::Result<TcpStream> {
    let from = source(scope, settings, peer.ip(), backend.socket());
    let mut upstream = socket::connect(backend.socket(), from).await?;
    if let Some(version) = settings.proxy_protocol {
        upstream.write_all(&header::of_connection(version, peer, local)).await?;
    }
    Ok(upstream)
}

/// The address from which a backend is reached; `None` is the machine's own.
pub(super) fn source(
    scope: &Scope,
    settings: &Settings,
    client: IpAddr,
    backend: SocketAddr,
) -> Option<IpAddr> {
    if settings.client_address == ClientAddress::Replaced {
        return None;
    }
    let obstacle = if client.is_ipv4() == backend.is_ipv4() {
        match socket::may_be_transparent(backend) {
            Ok(()) => return Some(client),
            Err(error) => format!("the system does not allow it ({error})"),
        }
    } else {
        "clients and backends are of different address families".to_owned()
    };
    if scope.cannot_keep_address(&obstacle) {
        warn!(service = %scope.names(), obstacle, "the client's address is not kept");
    }
    None
}

/// Whether a failure says nothing about the backend: no ports, descriptors or memory left here.
fn is_our_own_fault(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let ours =
        [Errno::ADDRNOTAVAIL, Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::ADDRINUSE];
    Errno::from_io_error(error).is_some_and(|errno| ours.contains(&errno))
}
