//! One connection: its handshake, its requests, and the times after which it has to go.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rustls::pki_types::CertificateDer;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;

use super::options::Limits;
use super::places::{Place, Pulse};
use super::{Application, answer};
use crate::lifecycle::Shutdown;

/// What all connections of a port share.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) acceptor: TlsAcceptor,
    pub(super) streams: u32,
    pub(super) limits: Limits,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// Who is at the other end; among the extensions of each request.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// The certificates it showed, its own first, none of them verified; the client has proven to hold its key.
    pub certificates: Arc<[CertificateDer<'static>]>,
}

pub(super) struct Connection {
    pub(super) peer: SocketAddr,
    pub(super) place: Place,
    pub(super) settings: Settings,
    pub(super) application: Arc<dyn Application>,
    pub(super) stop: Shutdown,
}

impl Connection {
    /// Serves the connection to its end.
    pub(super) async fn serve(self, stream: TcpStream) {
        let leave = self.place.leave.clone();
        let handshake = timeout(self.settings.limits.handshake, self.settings.acceptor.accept(stream));
        let accepted = tokio::select! {
            biased;
            () = leave.cancelled() => return,
            () = self.stop.wait() => return,
            accepted = handshake => accepted,
        };
        let stream = match accepted {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                tracing::debug!(peer = %self.peer, %error, "TLS handshake failed");
                return;
            }
            Err(_) => {
                tracing::debug!(peer = %self.peer, "TLS handshake took too long");
                return;
            }
        };
        let (_, session) = stream.get_ref();
        let http2 = session.alpn_protocol() == Some(b"h2");
        let certificates = session.peer_certificates().unwrap_or_default();
        let certificates = certificates.iter().map(|der| der.clone().into_owned()).collect();
        let requests = Requests {
            peer: Peer { address: self.peer, certificates },
            pulse: self.place.pulse.clone(),
            limits: self.settings.limits,
            application: self.application.clone(),
        };
        let service = service_fn(move |request| requests.clone().answer(request));
        let builder = self.settings.builder(http2);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        tokio::select! {
            biased;
            () = leave.cancelled() => return,
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(peer = %self.peer, %error, "Connection ended");
                }
                return;
            }
            () = self.stop.wait() => {}
            () = idle(&self.place.pulse, &self.settings.limits) => {}
        }
        connection.as_mut().graceful_shutdown();
        let _ = timeout(self.settings.limits.drain, connection).await;
    }
}

/// Waits until a connection has been without a request for too long. Requests have a deadline of their own, so this
/// ends for a connection that does not read its answers too.
async fn idle(pulse: &Pulse, limits: &Limits) {
    let mut wake = Instant::now() + limits.idle;
    loop {
        sleep_until(wake).await;
        let now = Instant::now();
        match pulse.idle_since() {
            Some(since) if since + limits.idle <= now => return,
            Some(since) => wake = since + limits.idle,
            None => wake = now + limits.idle,
        }
    }
}

impl Settings {
    /// The protocol is the one that the handshake agreed on; nothing is guessed from the first bytes.
    fn builder(&self, http2: bool) -> Builder<TokioExecutor> {
        let limits = &self.limits;
        let head = usize::try_from(limits.head).unwrap_or(usize::MAX);
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head_within)
            // hyper refuses to work with less.
            .max_buf_size(head.max(8192));
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.streams)
            .max_header_list_size(limits.head)
            .initial_stream_window_size(65_535)
            .initial_connection_window_size(65_535)
            .max_send_buf_size(64 * 1024)
            .keep_alive_interval(limits.head_within)
            .keep_alive_timeout(limits.handshake);
        if http2 { builder.http2_only() } else { builder.http1_only() }
    }
}

/// Turns what hyper hands over into what the application answers, within the limits.
#[derive(Clone)]
struct Requests {
    peer: Peer,
    pulse: Pulse,
    limits: Limits,
    application: Arc<dyn Application>,
}

impl Requests {
    async fn answer(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let _under_way = self.pulse.request();
        let (version, deadline) = (request.version(), Instant::now() + self.limits.request);
        let (mut head, body) = request.into_parts();
        let body = timeout_at(deadline, Limited::new(body, self.limits.body).collect()).await;
        let refused = match body {
            Ok(Ok(body)) => {
                head.extensions.insert(self.peer.clone());
                let request = Request::from_parts(head, body.to_bytes());
                return Ok(self.ask(request, deadline).await);
            }
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                answer::text(StatusCode::PAYLOAD_TOO_LARGE, "the request's body is too large\n")
            }
            Ok(Err(_)) => answer::text(StatusCode::BAD_REQUEST, "reading the request's body failed\n"),
            Err(_) => answer::text(StatusCode::REQUEST_TIMEOUT, "the request's body came too slowly\n"),
        };
        Ok(closing(refused, version))
    }

    /// A panic costs one answer, not the connection.
    async fn ask(&self, request: Request<Bytes>, deadline: Instant) -> Response<Full<Bytes>> {
        let path = request.uri().path().to_owned();
        let answering = AssertUnwindSafe(self.application.answer(request)).catch_unwind();
        match timeout_at(deadline, answering).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => {
                tracing::error!(%path, "Answering a request panicked");
                answer::text(StatusCode::INTERNAL_SERVER_ERROR, "internal server error\n")
            }
            Err(_) => answer::text(StatusCode::GATEWAY_TIMEOUT, "the request took too long\n"),
        }
    }
}

/// The rest of the body is not worth reading: HTTP/1.1 then has to end the connection.
fn closing(mut response: Response<Full<Bytes>>, version: Version) -> Response<Full<Bytes>> {
    if version < Version::HTTP_2 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
