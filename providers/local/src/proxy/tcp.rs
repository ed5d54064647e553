//! TCP: connections are accepted at one address and port, and each is relayed to a backend (found by `reach`).

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::listen::Door;
use super::reach::reach;
use super::relay::{Ended, Meters, relay};
use super::scope::Ticket;
use super::socket;

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
