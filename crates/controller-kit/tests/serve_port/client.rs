//! A TLS client that trusts any server and says what it was shown.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, Version};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme, SupportedProtocolVersion};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// HTTP/1.1 only, and HTTP/2 only.
pub(crate) const H1: &[&[u8]] = &[b"http/1.1"];
pub(crate) const H2: &[&[u8]] = &[b"h2"];

/// How the client speaks TLS.
pub(crate) struct Client {
    pub(crate) versions: &'static [&'static SupportedProtocolVersion],
    pub(crate) protocols: &'static [&'static [u8]],
    pub(crate) server_name: &'static str,
    /// PEM of a certificate chain and its key.
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Default for Client {
    fn default() -> Self {
        Self { versions: rustls::ALL_VERSIONS, protocols: H1, server_name: "localhost", identity: None }
    }
}

impl Client {
    pub(crate) async fn connect(&self, address: SocketAddr) -> std::io::Result<TlsStream<TcpStream>> {
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(self.versions)
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyServer));
        let mut config = match &self.identity {
            None => config.with_no_client_auth(),
            Some((chain, key)) => {
                let chain = CertificateDer::pem_slice_iter(chain).map(Result::unwrap).collect();
                config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key).unwrap()).unwrap()
            }
        };
        config.alpn_protocols = self.protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let name = ServerName::try_from(self.server_name).unwrap();
        let stream = TcpStream::connect(address).await?;
        // As Go's and kube's clients do; otherwise the figures show the delay of acknowledgements.
        stream.set_nodelay(true)?;
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    /// A connection for several requests.
    pub(crate) async fn session(&self, address: SocketAddr) -> Session {
        let stream = self.connect(address).await.unwrap();
        let shown = stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned();
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let sender = if http2 {
            let (sender, connection) =
                http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
            tokio::spawn(connection);
            Sender::Two(sender)
        } else {
            let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
            tokio::spawn(connection);
            Sender::One(sender)
        };
        Session { sender, shown }
    }
}

enum Sender {
    One(http1::SendRequest<Full<Bytes>>),
    Two(http2::SendRequest<Full<Bytes>>),
}

/// An open connection.
pub(crate) struct Session {
    sender: Sender,
    /// The certificate that the server showed.
    pub(crate) shown: CertificateDer<'static>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) code: u16,
    pub(crate) version: Version,
    pub(crate) content_type: String,
    pub(crate) text: String,
}

impl Session {
    pub(crate) async fn send(&mut self, request: Request<Bytes>) -> hyper::Result<Seen> {
        let request = request.map(Full::new);
        let response: Response<_> = match &mut self.sender {
            Sender::One(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
            Sender::Two(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
        };
        let (head, body) = response.into_parts();
        let content_type = head.headers.get("content-type").map(|value| value.to_str().unwrap().to_owned());
        let body = body.collect().await?.to_bytes();
        Ok(Seen {
            code: head.status.as_u16(),
            version: head.version,
            content_type: content_type.unwrap_or_default(),
            text: String::from_utf8(body.to_vec()).unwrap(),
        })
    }

    pub(crate) async fn get(&mut self, path: &str) -> hyper::Result<Seen> {
        self.send(request(Method::GET, path, None)).await
    }
}

pub(crate) fn request(method: Method, path: &str, token: Option<&str>) -> Request<Bytes> {
    let mut request = Request::builder().method(method).uri(format!("https://localhost{path}"));
    request = request.header("host", "localhost");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    request.body(Bytes::new()).unwrap()
}

/// One request on a connection of its own.
pub(crate) async fn get(address: SocketAddr, path: &str, token: Option<&str>) -> Seen {
    Client::default().session(address).await.send(request(Method::GET, path, token)).await.unwrap()
}

#[derive(Debug)]
struct AnyServer;

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}
