//! One address and port where clients come in: opened now or as soon as it can be, and closed without a rest.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::group::Group;
use super::scope::Scope;
use super::{lock, socket, tcp, udp};
use crate::intent::status::ListenerStatus;
use crate::intent::{Listener, Protocol};

/// How often an address that cannot be opened is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// What everything that comes in at one address and port needs.
#[derive(Debug)]
pub(super) struct Door {
    /// Where.
    pub(super) listener: Listener,
    /// The balancer.
    pub(super) scope: Arc<Scope>,
    /// The backends.
    pub(super) group: Arc<Group>,
    /// Ends what came in here.
    pub(super) cut: CancellationToken,
}

/// An address and port that is open, or tried again until it is.
#[derive(Debug)]
pub(super) struct Listening {
    door: Arc<Door>,
    /// Why it is not open.
    failure: Arc<Mutex<Option<String>>>,
    /// Ends the task.
    stop: CancellationToken,
    /// Owns the socket: when it ended, the socket is closed.
    task: JoinHandle<()>,
}

enum Bound {
    Tcp(tokio::net::TcpListener),
    Udp(tokio::net::UdpSocket),
}

impl Listening {
    /// Opens an address and port. The first attempt is made before this returns, so that the status is true.
    pub(super) fn open(listener: Listener, scope: Arc<Scope>, group: Arc<Group>) -> Self {
        let cut = scope.closed.child_token();
        let stop = scope.closed.child_token();
        let door = Arc::new(Door { listener, scope, group, cut });
        let first = bind(listener);
        let failure = Arc::new(Mutex::new(first.as_ref().err().map(ToString::to_string)));
        let task = tokio::spawn(keep_open(first, Arc::clone(&door), Arc::clone(&failure), stop.clone()));
        Self { door, failure, stop, task }
    }

    /// Its state.
    pub(super) fn status(&self) -> ListenerStatus {
        ListenerStatus { listener: self.door.listener, failure: lock(&self.failure).clone() }
    }

    /// Closes it, so that the address and port are free when this returns. TCP connections that came in here may go on
    /// for `drain`; UDP has no end that could be waited for.
    pub(super) async fn close(self, drain: Duration) {
        self.stop.cancel();
        // It never panics on purpose; if it did, its socket is closed all the same.
        let _ = self.task.await;
        let cut = self.door.cut.clone();
        if drain.is_zero() {
            cut.cancel();
        } else {
            let closed = self.door.scope.closed.clone();
            tokio::spawn(async move {
                tokio::select! {
                    () = sleep(drain) => cut.cancel(),
                    () = closed.cancelled() => {}
                }
            });
        }
    }
}

fn bind(listener: Listener) -> io::Result<Bound> {
    match listener.protocol {
        Protocol::Tcp => socket::listen(listener.socket()).map(Bound::Tcp),
        Protocol::Udp => socket::datagrams(listener.socket()).map(Bound::Udp),
    }
}

async fn keep_open(
    mut bound: io::Result<Bound>,
    door: Arc<Door>,
    failure: Arc<Mutex<Option<String>>>,
    stop: CancellationToken,
) {
    loop {
        match bound {
            Ok(bound) => {
                *lock(&failure) = None;
                info!(listener = %door.listener, service = %door.scope.names(), "open");
                match bound {
                    Bound::Tcp(listener) => tcp::serve(listener, door, stop).await,
                    Bound::Udp(socket) => udp::serve(socket, door, stop).await,
                }
                return;
            }
            Err(error) => {
                let text = error.to_string();
                if lock(&failure).replace(text.clone()).is_none_or(|before| before != text) {
                    warn!(listener = %door.listener, %error, "cannot open; trying again every second");
                }
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = sleep(RETRY) => {}
        }
        bound = bind(door.listener);
    }
}
