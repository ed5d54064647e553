//! Certificates, versions, protocols.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use controller_kit::serve::{Answer, Application, Options, Peer, answer};
use http::{Request, StatusCode, Version};
use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};
use tokio::time::{Instant, sleep};

use crate::client::{Client, get};
use crate::port::{open, options, serve, site};

static OLD: &[&SupportedProtocolVersion] = &[&TLS12];
static NEW: &[&SupportedProtocolVersion] = &[&TLS13];

fn write_pair(directory: &Path, name: &str) -> (Vec<u8>, Vec<u8>) {
    let key = rcgen::KeyPair::generate().unwrap();
    let made = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap().self_signed(&key).unwrap();
    let pair = (made.pem().into_bytes(), key.serialize_pem().into_bytes());
    std::fs::write(directory.join(format!("{name}.crt")), &pair.0).unwrap();
    std::fs::write(directory.join(format!("{name}.key")), &pair.1).unwrap();
    pair
}

fn with_pair(directory: &Path, name: &str) -> Options {
    let mut options = options();
    options.tls.cert_file = Some(directory.join(format!("{name}.crt")));
    options.tls.key_file = Some(directory.join(format!("{name}.key")));
    options
}

#[tokio::test]
async fn a_rotated_certificate_is_served_in_15_s_and_no_open_connection_is_dropped() {
    let directory = tempfile::tempdir().unwrap();
    write_pair(directory.path(), "server");
    let port = serve(&with_pair(directory.path(), "server"), site(open())).await;
    let mut open = Client::default().session(port.address).await;
    assert_eq!(open.get("/healthz").await.unwrap().code, 200);
    let before = open.shown.clone();
    write_pair(directory.path(), "server");
    let started = Instant::now();
    while Client::default().session(port.address).await.shown == before {
        assert!(started.elapsed() < Duration::from_secs(15), "the old certificate is still shown");
        sleep(Duration::from_millis(100)).await;
    }
    println!("the new certificate was served after {:?}", started.elapsed());
    assert_eq!(open.get("/healthz").await.unwrap().code, 200, "the connection from before goes on");
}

#[tokio::test]
async fn clients_are_shown_the_certificate_of_the_name_they_ask_for() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["server", "wide", "exact"] {
        write_pair(directory.path(), name);
    }
    let path = |name: &str| directory.path().join(name).display().to_string();
    let mut options = with_pair(directory.path(), "server");
    options.tls.sni = [
        format!("{},{}:*.wide.example", path("wide.crt"), path("wide.key")),
        format!("{},{}:a.wide.example", path("exact.crt"), path("exact.key")),
    ]
    .map(|text| text.parse().unwrap())
    .into();
    let port = serve(&options, site(open())).await;
    for (asked, file) in [
        ("localhost", "server.crt"),
        ("b.wide.example", "wide.crt"),
        ("a.wide.example", "exact.crt"),
        ("x.y.wide.example", "server.crt"),
    ] {
        let shown = Client { server_name: asked, ..Client::default() }.session(port.address).await.shown;
        let pem = std::fs::read(path(file)).unwrap();
        let file: rustls::pki_types::CertificateDer<'_> =
            rustls::pki_types::pem::PemObject::from_pem_slice(&pem).unwrap();
        assert_eq!(shown, file, "{asked}");
    }
}

#[tokio::test]
async fn the_minimum_version_and_the_protocols_are_kept_to() {
    let mut strict = options();
    strict.tls.min_version = "VersionTLS13".into();
    strict.disable_http2 = true;
    let port = serve(&strict, site(open())).await;
    let old = Client { versions: OLD, ..Client::default() };
    assert!(old.connect(port.address).await.is_err());
    let both = Client { versions: NEW, protocols: &[b"h2", b"http/1.1"], ..Client::default() };
    let seen = both.session(port.address).await.get("/healthz").await.unwrap();
    assert_eq!((seen.code, seen.version), (200, Version::HTTP_11));
    let usual = serve(&options(), site(open())).await;
    assert_eq!(old.session(usual.address).await.get("/healthz").await.unwrap().code, 200);
}

#[tokio::test]
async fn a_port_that_is_off_is_not_served_and_a_taken_one_is_an_error() {
    use controller_kit::clock::SystemClock;
    use controller_kit::serve::{Error, Server};
    let off = Options { port: None, ..options() };
    assert!(Server::bind(&off, Arc::new(SystemClock)).await.unwrap().is_none());
    let port = serve(&options(), site(open())).await;
    let taken = Options { port: Some(port.address.port()), ..options() };
    let refused = Server::bind(&taken, Arc::new(SystemClock)).await.unwrap_err();
    assert!(matches!(refused, Error::Bind { .. }), "{refused:?}");
}

struct WhoIsThere;

#[async_trait]
impl Application for WhoIsThere {
    async fn answer(&self, request: Request<Bytes>) -> Answer {
        let peer = request.extensions().get::<Peer>().unwrap();
        answer::text(StatusCode::OK, format!("{} {}", peer.address.ip(), peer.certificates.len()))
    }
}

#[tokio::test]
async fn client_certificates_are_asked_for_and_handed_on_but_not_needed() {
    let directory = tempfile::tempdir().unwrap();
    let identity = write_pair(directory.path(), "somebody");
    let port = serve(&options(), Arc::new(WhoIsThere)).await;
    assert_eq!(get(port.address, "/", None).await.text, "127.0.0.1 0");
    for versions in [OLD, NEW] {
        let client = Client { identity: Some(identity.clone()), versions, ..Client::default() };
        assert_eq!(client.session(port.address).await.get("/").await.unwrap().text, "127.0.0.1 1");
    }
}

#[tokio::test]
async fn stopping_lets_requests_finish_and_takes_no_more() {
    struct Slow(tokio::sync::Notify);
    #[async_trait]
    impl Application for Slow {
        async fn answer(&self, _: Request<Bytes>) -> Answer {
            self.0.notify_one();
            sleep(Duration::from_millis(300)).await;
            answer::text(StatusCode::OK, "done")
        }
    }
    let slow = Arc::new(Slow(tokio::sync::Notify::new()));
    let mut port = serve(&options(), slow.clone()).await;
    let address = port.address;
    let answered = tokio::spawn(async move { get(address, "/", None).await.text });
    slow.0.notified().await;
    port.stop.trigger();
    assert_eq!(answered.await.unwrap(), "done");
    tokio::time::timeout(Duration::from_secs(5), &mut port.task).await.unwrap().unwrap();
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}
