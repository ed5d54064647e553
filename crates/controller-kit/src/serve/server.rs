//! The secure port: accepts connections, at most so many, and hands each to a task of its own. Handshakes happen there,
//! so that a slow one delays nobody else.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::connection::{Connection, Settings};
use super::options::{Options, OptionsError};
use super::places::Places;
use super::{Application, tls};
use crate::clock::SharedClock;
use crate::lifecycle::Shutdown;
use crate::log::report;

/// How many connections may wait for `accept`.
const BACKLOG: u32 = 1024;
/// How long to wait when the system has no file descriptor for a new connection.
const BREATHER: Duration = Duration::from_millis(100);

/// Why there is no secure port.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The options are wrong.
    #[error("checking the serving options: {}", list(.0))]
    Options(Vec<OptionsError>),
    /// The address cannot be listened on.
    #[error("listening on {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No certificate could be loaded.
    #[error("loading the serving certificates")]
    Certificates(#[source] tls::PairError),
    /// Versions and cipher suites do not go together.
    #[error("setting up TLS")]
    Tls(#[source] rustls::Error),
}

fn list(errors: &[OptionsError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// A bound secure port that serves nothing yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    certificates: Arc<tls::Certificates>,
    settings: Settings,
}

impl Server {
    /// Loads the certificates and binds the port; `None` if serving is turned off.
    pub async fn bind(options: &Options, clock: SharedClock) -> Result<Option<Self>, Error> {
        let policy = options.check().map_err(Error::Options)?;
        let Some(port) = options.port else { return Ok(None) };
        let address = SocketAddr::new(options.bind_address, port);
        let certificates = tls::prepare(&options.tls, &policy, &[options.bind_address], clock).await;
        let certificates = certificates.map_err(Error::Certificates)?;
        let config = tls::server_config(&policy, certificates.clone(), !options.disable_http2);
        let acceptor = TlsAcceptor::from(Arc::new(config.map_err(Error::Tls)?));
        let failed = |source| Error::Bind { address, source };
        let listener = listen(address, options.permit_port_sharing).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let settings = Settings { acceptor, streams: options.streams(), limits: options.limits };
        Ok(Some(Self { listener, address, certificates, settings }))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves `application` until `stop` is triggered and requests have had their time to finish. Certificates that
    /// change on disk meanwhile come into force.
    pub async fn run(self, application: Arc<dyn Application>, stop: &Shutdown) {
        tracing::info!(address = %self.address, "Serving securely");
        let places = Places::new(self.settings.limits.connections);
        let mut tasks = JoinSet::new();
        let refreshing = self.certificates.reload_on_change(stop);
        tokio::pin!(refreshing);
        loop {
            tokio::select! {
                biased;
                () = stop.wait() => break,
                () = &mut refreshing => break,
                Some(_) = tasks.join_next() => {}
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        self.admit(stream, peer, &places, &application, stop, &mut tasks);
                    }
                    Err(error) => {
                        tracing::warn!(error = %report(&error), "Accepting a connection failed");
                        tokio::time::sleep(BREATHER).await;
                    }
                },
            }
        }
        drop(self.listener);
        let finished = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(self.settings.limits.drain, finished).await.is_err() {
            tasks.shutdown().await;
        }
        tracing::info!(address = %self.address, "Stopped serving");
    }

    fn admit(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        places: &Places,
        application: &Arc<dyn Application>,
        stop: &Shutdown,
        tasks: &mut JoinSet<()>,
    ) {
        let Some(place) = places.take() else {
            tracing::debug!(%peer, "Refusing a connection: all others are busy");
            return;
        };
        // Answers are small and written whole; waiting for more to send would only delay them.
        let _ = stream.set_nodelay(true);
        let connection = Connection {
            peer,
            place,
            settings: self.settings.clone(),
            application: application.clone(),
            stop: stop.clone(),
        };
        tasks.spawn(connection.serve(stream));
    }
}

fn listen(address: SocketAddr, share_port: bool) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    if share_port {
        socket.set_reuseport(true)?;
    }
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
