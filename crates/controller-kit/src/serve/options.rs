//! What the flags said about the secure port, and how much of it one may use.

use std::net::IpAddr;
use std::time::Duration;

use super::tls;

/// The flags of secure serving.
#[derive(Debug, Clone)]
pub struct Options {
    /// `--bind-address`.
    pub bind_address: IpAddr,
    /// `--secure-port`; `None`, which the flag says as 0, turns serving off. `Some(0)` takes any free port.
    pub port: Option<u16>,
    /// `--permit-port-sharing`: `SO_REUSEPORT`.
    pub permit_port_sharing: bool,
    /// `--permit-address-sharing`. `SO_REUSEADDR` is always set, as Go does, so that a restart never waits for a port.
    pub permit_address_sharing: bool,
    /// `--disable-http2-serving`.
    pub disable_http2: bool,
    /// `--http2-max-streams-per-connection`; 0 is [`Limits::streams`].
    pub http2_max_streams: u32,
    /// Certificates, versions, cipher suites.
    pub tls: tls::Options,
    /// What clients may use.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bind_address: IpAddr::from([0, 0, 0, 0]),
            port: Some(10258),
            permit_port_sharing: false,
            permit_address_sharing: false,
            disable_http2: false,
            http2_max_streams: 0,
            tls: tls::Options { pair_name: "cloud-controller-manager".into(), ..tls::Options::default() },
            limits: Limits::default(),
        }
    }
}

/// What clients together and each of them may use. Whatever they do, memory is bounded by
/// `connections × (2 × head + streams × (head + body))` and the answers being written.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at once. One more takes the place of the one that has been idle for longest.
    pub connections: usize,
    /// Requests at once on one HTTP/2 connection.
    pub streams: u32,
    /// Bytes of a request's head.
    pub head: u32,
    /// Bytes of a request's body.
    pub body: usize,
    /// From accepting a connection to the end of its TLS handshake.
    pub handshake: Duration,
    /// For the first byte to the last of a request's head, and between two requests on one HTTP/1.1 connection.
    pub head_within: Duration,
    /// How long a connection may stay without a request, or take to receive an answer.
    pub idle: Duration,
    /// From a request's head to its answer, its body and reviews included.
    pub request: Duration,
    /// How long requests may go on once the server stops.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            streams: 32,
            head: 16 * 1024,
            body: 16 * 1024,
            handshake: Duration::from_secs(10),
            head_within: Duration::from_secs(32),
            idle: Duration::from_secs(90),
            request: Duration::from_secs(60),
            drain: Duration::from_secs(2),
        }
    }
}

/// One thing that is wrong with the options.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// Something about TLS.
    #[error(transparent)]
    Tls(#[from] tls::OptionsError),
    /// A limit that would refuse everything.
    #[error("the limit on {0} must be positive")]
    Limit(&'static str),
}

impl Options {
    /// Reads everything; all that is wrong is told at once.
    pub fn check(&self) -> Result<tls::Policy, Vec<OptionsError>> {
        let mut errors = Vec::new();
        let limits = [
            ("connections", self.limits.connections == 0),
            ("streams", self.limits.streams == 0),
            ("the size of a request's head", self.limits.head == 0),
            ("the time of a handshake", self.limits.handshake.is_zero()),
            ("the time of a request", self.limits.request.is_zero()),
        ];
        errors.extend(limits.iter().filter(|(_, wrong)| *wrong).map(|(name, _)| OptionsError::Limit(name)));
        match self.tls.check() {
            Ok(policy) if errors.is_empty() => Ok(policy),
            Ok(_) => Err(errors),
            Err(of_tls) => {
                errors.extend(of_tls.into_iter().map(OptionsError::Tls));
                Err(errors)
            }
        }
    }

    /// How many requests at once one HTTP/2 connection may carry.
    pub(super) fn streams(&self) -> u32 {
        if self.http2_max_streams == 0 { self.limits.streams } else { self.http2_max_streams }
    }
}
