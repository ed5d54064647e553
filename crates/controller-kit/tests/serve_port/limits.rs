//! What clients may not do.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use controller_kit::serve::{Answer, Application, Limits, Options, answer};
use http::{Method, Request, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::client::{Client, H1, H2, get, request};
use crate::port::{open, options, serve, site};

const PATIENCE: Duration = Duration::from_secs(10);

fn limited(change: impl FnOnce(&mut Limits)) -> Options {
    let mut options = options();
    change(&mut options.limits);
    options
}

/// Panics at `/panic`, hangs at `/hang`.
struct Odd;

#[async_trait]
impl Application for Odd {
    async fn answer(&self, request: Request<Bytes>) -> Answer {
        match request.uri().path() {
            "/panic" => panic!("as asked"),
            "/hang" => std::future::pending().await,
            _ => answer::text(StatusCode::OK, request.into_body()),
        }
    }
}

#[tokio::test]
async fn a_panic_or_a_hang_costs_one_answer() {
    let port = serve(&limited(|limits| limits.request = Duration::from_millis(300)), Arc::new(Odd)).await;
    for protocols in [H2, H1] {
        let mut session = Client { protocols, ..Client::default() }.session(port.address).await;
        assert_eq!(session.get("/panic").await.unwrap().code, 500);
        assert_eq!(session.get("/hang").await.unwrap().code, 504);
        assert_eq!(session.get("/").await.unwrap().code, 200);
    }
}

#[tokio::test]
async fn bodies_and_heads_are_bounded() {
    let port = serve(&limited(|limits| limits.body = 100), Arc::new(Odd)).await;
    for protocols in [H2, H1] {
        let client = Client { protocols, ..Client::default() };
        let mut session = client.session(port.address).await;
        let with = |size: usize| request(Method::PUT, "/", None).map(|_| Bytes::from(vec![b'x'; size]));
        assert_eq!(session.send(with(100)).await.unwrap().text.len(), 100);
        assert_eq!(session.send(with(101)).await.unwrap().code, 413);
        let mut session = client.session(port.address).await;
        let mut big = request(Method::GET, "/", None);
        big.headers_mut().insert("x-big", "y".repeat(20_000).parse().unwrap());
        // HTTP/2 may refuse the stream instead of answering.
        if let Ok(seen) = session.send(big).await {
            assert_eq!(seen.code, 431);
        }
        assert_eq!(client.session(port.address).await.get("/").await.unwrap().code, 200);
    }
}

/// Waits until the server closes, and says how long that took.
async fn closed_after(mut stream: impl AsyncReadExt + Unpin) -> Duration {
    let started = Instant::now();
    let mut rest = Vec::new();
    // A reset is as good as an end.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("the server closes");
    started.elapsed()
}

#[tokio::test]
async fn those_who_dawdle_are_closed_on() {
    let short = Duration::from_millis(300);
    let port = serve(
        &limited(|limits| {
            (limits.handshake, limits.head_within, limits.idle, limits.request) =
                (short, short, short, short);
        }),
        site(open()),
    )
    .await;
    // Nothing at all instead of a handshake.
    let silent = TcpStream::connect(port.address).await.unwrap();
    assert!(closed_after(silent).await >= short / 2);
    // A handshake and then nothing; a head that never ends; a body that never comes.
    for sent in [
        "",
        "GET /healthz HTTP/1.1\r\nhost: x\r\nx-slow: ",
        "PUT /debug HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n",
    ] {
        let mut stream = Client::default().connect(port.address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        assert!(closed_after(stream).await >= short / 2, "{sent}");
    }
    // HTTP/2 without a request.
    let client = Client { protocols: H2, ..Client::default() };
    let mut session = client.session(port.address).await;
    assert_eq!(session.get("/healthz").await.unwrap().code, 200);
    let started = Instant::now();
    while session.get("/healthz").await.is_ok() {
        assert!(started.elapsed() < PATIENCE);
        tokio::time::sleep(short * 2).await;
    }
}

#[tokio::test]
async fn idle_connections_make_room_for_a_probe() {
    let port = serve(&limited(|limits| limits.connections = 8), site(open())).await;
    let mut held = Vec::new();
    for _ in 0..20 {
        held.push(TcpStream::connect(port.address).await.unwrap());
    }
    let started = Instant::now();
    let seen = timeout(PATIENCE, get(port.address, "/livez", None)).await.unwrap();
    assert_eq!(seen.code, 200);
    println!("a probe beside 20 held connections took {:?}", started.elapsed());
    let mut first = held.swap_remove(0);
    assert_eq!(timeout(PATIENCE, first.read(&mut [0])).await.unwrap().unwrap_or(0), 0, "it made room");
}

#[tokio::test]
async fn what_is_not_tls_is_closed_on_and_harms_nobody() {
    let port = serve(&options(), site(open())).await;
    for garbage in [b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![0; 70_000], vec![0x16, 3, 1, 0xff, 0xff, 1]] {
        let mut stream = TcpStream::connect(port.address).await.unwrap();
        // The server may close before all is written.
        let _ = stream.write_all(&garbage).await;
        let _ = stream.shutdown().await;
        closed_after(stream).await;
    }
    assert_eq!(get(port.address, "/healthz", None).await.code, 200);
}
