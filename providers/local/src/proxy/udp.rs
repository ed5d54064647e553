//! UDP: each client of one address and port has a session, a socket of its own towards one backend, until it is idle.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use socket2::{SockAddr, SockRef};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::debug;

use super::activity::Activity;
use super::backend::{Claim, Standing};
use super::listen::Door;
use super::reach::source;
use super::scope::{Ticket, allows};
use super::{lock, socket};
use crate::intent::Settings;

/// So many datagrams are forwarded before others have their turn.
const BURST: usize = 64;
/// Clients of one address and port at once, whatever the balancer's own limit says: each takes a descriptor, and their
/// addresses cost a stranger nothing to invent.
const SESSIONS: usize = 32_768;
/// So many backends are tried for one datagram.
const ATTEMPTS: usize = 3;

/// One address and port and the clients that use it.
struct Exchange {
    door: Arc<Door>,
    socket: UdpSocket,
    sessions: Mutex<HashMap<SocketAddr, Arc<Session>>>,
}

/// One client's way to one backend.
struct Session {
    client: SocketAddr,
    /// The client, as the system wants it.
    address: SockAddr,
    upstream: UdpSocket,
    backend: Claim,
    /// How good the backend was when it was chosen.
    standing: Standing,
    /// Counted until the session is dropped.
    _ticket: Ticket,
    activity: Activity,
    /// Ends the session when it is replaced.
    over: CancellationToken,
}

/// Forwards until `stop`. When this returns, all sessions are over and the socket is closed.
pub(super) async fn serve(socket: UdpSocket, door: Arc<Door>, stop: CancellationToken) {
    let exchange = Arc::new(Exchange { door, socket, sessions: Mutex::default() });
    let tasks = TaskTracker::new();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            ready = exchange.socket.readable() => if ready.is_err() { break },
        }
        exchange.take_in(&tasks, &stop);
        tokio::task::yield_now().await;
    }
    tasks.close();
    tasks.wait().await;
}

impl Exchange {
    /// Forwards what has come in from clients.
    fn take_in(self: &Arc<Self>, tasks: &TaskTracker, stop: &CancellationToken) {
        let mut buffer = self.door.scope.shared.buffers.lend();
        let settings = self.door.scope.settings();
        for _ in 0..BURST {
            match self.socket.try_recv_from(&mut buffer) {
                Ok((count, client)) => self.forward(&buffer[..count], client, &settings, tasks, stop),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // An earlier answer did not reach its client; that client's session will be idle.
                Err(_) => {}
            }
        }
    }

    /// Sends one datagram on. A backend that turns out to be gone is left, and the datagram goes to the next.
    fn forward(
        self: &Arc<Self>,
        datagram: &[u8],
        client: SocketAddr,
        settings: &Settings,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) {
        let counters = &self.door.scope.counters;
        for _ in 0..ATTEMPTS {
            let Some(session) = self.session(client, settings, tasks, stop) else { return };
            session.activity.note();
            // Sent past the runtime, which would first have to learn that a new socket can be written to: a socket that
            // does not block loses the datagram if it is full, as UDP may.
            match SockRef::from(&session.upstream).send(datagram) {
                Ok(count) => {
                    counters.received.fetch_add(count as u64, Ordering::Relaxed);
                    return;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => session.fail(&error),
            }
        }
        counters.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// The client's session if it still leads somewhere, else a new one.
    fn session(
        self: &Arc<Self>,
        client: SocketAddr,
        settings: &Settings,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Option<Arc<Session>> {
        let known = lock(&self.sessions).get(&client).cloned();
        if let Some(session) = known {
            if session.is_good() && allows(settings, client.ip()) {
                return Some(session);
            }
            session.over.cancel();
            self.forget(&session);
        }
        if lock(&self.sessions).len() >= SESSIONS {
            self.door.scope.counters.refused_limit.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let session = self.begin(client, settings)?;
        lock(&self.sessions).insert(client, Arc::clone(&session));
        tasks.spawn(Arc::clone(self).answer(Arc::clone(&session), stop.clone()));
        Some(session)
    }

    /// A new session; `None` if the client is not let in or nobody serves.
    fn begin(&self, client: SocketAddr, settings: &Settings) -> Option<Arc<Session>> {
        let scope = &self.door.scope;
        let ticket = scope.admit(client.ip(), settings).ok()?;
        let chosen = self.door.group.choose(client.ip(), settings, &[], Instant::now());
        let upstream = chosen.and_then(|backend| {
            let from = source(scope, settings, client.ip(), &backend);
            let socket = socket::connect_datagrams(backend.socket(), from);
            let told = socket.inspect_err(|error| debug!(%client, %error, "cannot begin a session"));
            told.ok().map(|socket| (socket, backend))
        });
        let Some((upstream, backend)) = upstream else {
            scope.counters.unserved.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        Some(Arc::new(Session {
            client,
            address: client.into(),
            upstream,
            standing: backend.standing(Instant::now()),
            backend,
            _ticket: ticket,
            activity: Activity::new(),
            over: self.door.cut.child_token(),
        }))
    }

    /// Carries a backend's answers to the client, until the session is over.
    async fn answer(self: Arc<Self>, session: Arc<Session>, stop: CancellationToken) {
        let timeout = self.door.scope.settings().udp_idle_timeout;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = session.over.cancelled() => break,
                () = session.backend.cut.cancelled() => break,
                () = session.activity.ceases_for(timeout) => break,
                ready = session.upstream.ready(Interest::READABLE | Interest::ERROR) => if ready.is_err() { break },
            }
            if let Err(error) = self.give_out(&session) {
                session.fail(&error);
                break;
            }
            tokio::task::yield_now().await;
        }
        self.forget(&session);
    }

    fn give_out(&self, session: &Session) -> io::Result<()> {
        let counters = &self.door.scope.counters;
        // That nobody is there comes as an error of the socket, with nothing to read. The runtime is told that it was
        // looked at, or it would report it for ever.
        if let Some(error) = session.upstream.take_error()? {
            return Err(error);
        }
        let _ = session.upstream.try_io(Interest::ERROR, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
        let mut buffer = self.door.scope.shared.buffers.lend();
        for _ in 0..BURST {
            match session.upstream.try_recv(&mut buffer) {
                Ok(count) => match SockRef::from(&self.socket).send_to(&buffer[..count], &session.address) {
                    Ok(count) => {
                        counters.sent.fetch_add(count as u64, Ordering::Relaxed);
                        session.activity.note();
                    }
                    Err(_) => {
                        counters.dropped.fetch_add(1, Ordering::Relaxed);
                    }
                },
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes a session out of the table, unless another one of the same client has its place.
    fn forget(&self, session: &Arc<Session>) {
        let mut sessions = lock(&self.sessions);
        if sessions.get(&session.client).is_some_and(|current| Arc::ptr_eq(current, session)) {
            sessions.remove(&session.client);
        }
    }
}

impl Session {
    /// Whether the next datagram may go this way: its backend is in the intent and does no worse than when it was chosen.
    fn is_good(&self) -> bool {
        !self.over.is_cancelled()
            && !self.backend.cut.is_cancelled()
            && self.backend.standing(Instant::now()) <= self.standing.max(Standing::Unknown)
    }

    /// The backend says that nobody is there: the client's next datagram goes elsewhere.
    fn fail(&self, error: &io::Error) {
        debug!(backend = %self.backend.socket(), %error, "a backend did not take a datagram");
        self.over.cancel();
        if error.kind() == io::ErrorKind::ConnectionRefused {
            self.backend.suspect(Instant::now());
        }
    }
}
