//! The clients. The server behind sends without end after a `D`, and echoes 64 bytes at a time after an `E`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

/// Megabytes per second that come through.
pub(crate) async fn bulk(entrance: SocketAddr, connections: usize, turn: Duration) -> f64 {
    rate(connections, turn, move |count| async move {
        let mut stream = open(entrance, b'D').await;
        let mut buffer = vec![0; 128 * 1024];
        loop {
            let read = stream.read(&mut buffer).await.unwrap();
            assert_ne!(read, 0, "the server never ends");
            count.fetch_add(read as u64, Ordering::Relaxed);
        }
    })
    .await
        / 1e6
}

/// Questions per second that are answered.
pub(crate) async fn questions(entrance: SocketAddr, connections: usize, turn: Duration) -> f64 {
    rate(connections, turn, move |count| async move {
        let mut stream = open(entrance, b'E').await;
        loop {
            exchange(&mut stream).await;
            count.fetch_add(1, Ordering::Relaxed);
        }
    })
    .await
}

/// Connections per second, each with one question.
pub(crate) async fn short(entrance: SocketAddr, at_once: usize, turn: Duration) -> f64 {
    rate(at_once, turn, move |count| async move {
        loop {
            let mut stream = open(entrance, b'E').await;
            exchange(&mut stream).await;
            // The server's side waits for the last packets, so that clients do not run out of ports.
            stream.set_zero_linger().unwrap();
            count.fetch_add(1, Ordering::Relaxed);
        }
    })
    .await
}

/// Connections that have been used once and now say nothing.
pub(crate) async fn idle(entrance: SocketAddr, count: usize) -> Vec<TcpStream> {
    let mut held = Vec::with_capacity(count);
    while held.len() < count {
        let mut opening = JoinSet::new();
        for _ in 0..100.min(count - held.len()) {
            opening.spawn(async move {
                let mut stream = open(entrance, b'E').await;
                exchange(&mut stream).await;
                stream
            });
        }
        held.extend(opening.join_all().await);
    }
    held
}

async fn open(entrance: SocketAddr, wish: u8) -> TcpStream {
    let mut stream = TcpStream::connect(entrance).await.unwrap();
    stream.set_nodelay(true).unwrap();
    stream.write_all(&[wish]).await.unwrap();
    stream
}

async fn exchange(stream: &mut TcpStream) {
    let mut answer = [0; 64];
    stream.write_all(&[7; 64]).await.unwrap();
    stream.read_exact(&mut answer).await.unwrap();
}

/// What `workers` count per second.
async fn rate<F>(workers: usize, turn: Duration, work: impl Fn(Arc<AtomicU64>) -> F) -> f64
where
    F: Future<Output = ()> + Send + 'static,
{
    let count = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..workers {
        tasks.spawn(work(Arc::clone(&count)));
    }
    let start = Instant::now();
    // The workers never end, unless one panics.
    if let Ok(Some(ended)) = timeout_at(start + turn, tasks.join_next()).await {
        ended.unwrap();
    }
    let counted = count.load(Ordering::Relaxed);
    let elapsed = start.elapsed();
    tasks.shutdown().await;
    #[expect(clippy::cast_precision_loss, reason = "a rate, for people")]
    let counted = counted as f64;
    counted / elapsed.as_secs_f64()
}
