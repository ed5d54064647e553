//! Many clients that mean no good, at once. The process stays healthy and its memory bounded.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use controller_kit::log::Secret;
use controller_kit::serve::auth::review::ReviewError;
use controller_kit::serve::auth::{Decision, Reviews, Trust, User};
use futures::future::join_all;
use http::Method;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::client::{Client, H1, H2, get, request};
use crate::port::{access, options, serve, site};

/// How bad it gets.
struct Weather {
    /// Requests, on so many connections.
    requests: usize,
    connections: usize,
    /// Connections that send a head slowly, and never all of it.
    slow: usize,
    /// Bodies, and how large each is.
    bodies: usize,
    body: usize,
    /// Connections that send no TLS.
    garbage: usize,
}

/// An API server that knows no token.
struct Nobody;

#[async_trait]
impl Reviews for Nobody {
    async fn token(&self, _: &Secret) -> Result<Option<User>, ReviewError> {
        Ok(None)
    }

    async fn access(&self, _: &User, _: &str, _: &str) -> Result<Decision, ReviewError> {
        Ok(Decision::Denied(String::new()))
    }
}

/// The resident memory of this process, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

async fn many_requests(address: SocketAddr, weather: &Weather) -> usize {
    let each = weather.requests / weather.connections;
    let clients = (0..weather.connections).map(|number| async move {
        let protocols = if number % 2 == 0 { H1 } else { H2 };
        let mut session = Client { protocols, ..Client::default() }.session(address).await;
        let mut answered = 0;
        for round in 0..each {
            let path = ["/healthz", "/metrics", "/livez?verbose", "/made-up"][round % 4];
            let token = format!("made-up-{number}-{round}");
            answered += usize::from(session.send(request(Method::GET, path, Some(&token))).await.is_ok());
        }
        answered
    });
    join_all(clients).await.into_iter().sum()
}

async fn slow_heads(address: SocketAddr, count: usize) -> Vec<tokio_rustls::client::TlsStream<TcpStream>> {
    let mut held = Vec::new();
    for _ in 0..count {
        // Whoever has to make room for another is closed on.
        if let Ok(mut stream) = Client::default().connect(address).await
            && stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-slow: ").await.is_ok()
        {
            held.push(stream);
        }
    }
    held
}

/// Sends a body in pieces until the server has enough of it; answers how much it took.
async fn large_body(address: SocketAddr, size: usize) -> usize {
    let mut stream = Client::default().connect(address).await.unwrap();
    let head = format!("PUT /debug/flags/v HTTP/1.1\r\nhost: x\r\ncontent-length: {size}\r\n\r\n");
    let (piece, mut sent) = (vec![b'x'; 64 * 1024], 0);
    if stream.write_all(head.as_bytes()).await.is_err() {
        return 0;
    }
    while sent < size && matches!(timeout(Duration::from_secs(2), stream.write_all(&piece)).await, Ok(Ok(())))
    {
        sent += piece.len();
    }
    sent
}

async fn no_tls(address: SocketAddr, count: usize) {
    for number in 0..count {
        let Ok(mut stream) = TcpStream::connect(address).await else { continue };
        let byte = u8::try_from(number % 256).unwrap();
        // The server may have closed already.
        let _ = stream.write_all(&[0x16, 3, 1, 0x40, byte, byte, byte]).await;
        let _ = stream.write_all(&vec![byte; 4096]).await;
    }
}

async fn survive(weather: Weather) -> u64 {
    let port = serve(&options(), site(access(Trust::nobody(), Some(Arc::new(Nobody))))).await;
    let address = port.address;
    // What a first request needs is not growth.
    assert_eq!(get(address, "/healthz", None).await.code, 200);
    let before = resident();
    let held = slow_heads(address, weather.slow).await;
    let (answered, took, ()) = tokio::join!(
        many_requests(address, &weather),
        join_all((0..weather.bodies).map(|_| large_body(address, weather.body))),
        no_tls(address, weather.garbage),
    );
    let (started, seen) = (Instant::now(), get(address, "/livez", None).await);
    assert_eq!((seen.code, seen.text.as_str()), (200, "ok"));
    let grown = resident().saturating_sub(before);
    println!(
        "{answered} of {} requests answered beside {} slow heads; of bodies of {} MB at most {} KB were taken; a probe \
         then took {:?}; resident memory grew by {} KB, clients included",
        weather.requests,
        held.len(),
        weather.body / 1_000_000,
        took.iter().max().unwrap() / 1024,
        started.elapsed(),
        grown / 1024,
    );
    assert_eq!(answered, weather.requests);
    assert!(!port.task.is_finished());
    let most = 8 * 1024 * 1024;
    assert!(took.iter().all(|taken| *taken < most), "bodies are not read to their end: {took:?}");
    grown
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_storm_leaves_the_process_healthy() {
    let weather =
        Weather { requests: 800, connections: 20, slow: 60, bodies: 4, body: 20_000_000, garbage: 100 };
    assert!(survive(weather).await < 64_000_000);
}

#[ignore = "takes about a minute; run with --ignored soak"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn soak_a_great_storm_leaves_the_process_healthy() {
    let weather = Weather {
        requests: 10_000,
        connections: 50,
        slow: 300,
        bodies: 16,
        body: 100_000_000,
        garbage: 2000,
    };
    assert!(survive(weather).await < 128_000_000);
}
