use std::io::ErrorKind;
use std::net::SocketAddr;

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::*;
use crate::proxy::socket::reset_on_close;

/// A client and a server with a relay between them.
struct Rig {
    client: TcpStream,
    server: TcpStream,
    relay: JoinHandle<(Ended, u64, u64)>,
}

/// Both ends of a TCP connection.
async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let (one, other) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
    (one.unwrap(), other.unwrap().0)
}

async fn rig(idle_timeout: Duration) -> Rig {
    let (client, mut downstream) = pair().await;
    let (mut upstream, server) = pair().await;
    let relay = tokio::spawn(async move {
        let (received, sent) = (AtomicU64::new(0), AtomicU64::new(0));
        let meters = Meters { received: &received, sent: &sent };
        let ended = relay(&mut downstream, &mut upstream, &Buffers::default(), meters, idle_timeout).await;
        if ended == Ended::Broken {
            reset_on_close(&downstream);
            reset_on_close(&upstream);
        }
        (ended, received.into_inner(), sent.into_inner())
    });
    Rig { client, server, relay }
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn everything_arrives_in_order_both_ways_at_once_and_is_counted() {
    let Rig { client, server, relay } = rig(LONG).await;
    // Larger than all buffers on the way, so that both directions block and go on.
    let bytes = |seed: u32| {
        (0..4_000_000_u32).map(|n| (n.wrapping_mul(seed) >> 7).to_le_bytes()[0]).collect::<Vec<u8>>()
    };
    let talk = |mut stream: TcpStream, say: Vec<u8>| async move {
        let (mut from, mut to) = stream.split();
        let mut heard = Vec::new();
        let speak = async {
            to.write_all(&say).await?;
            to.shutdown().await
        };
        tokio::try_join!(speak, from.read_to_end(&mut heard)).unwrap();
        heard
    };
    let (at_client, at_server) = tokio::join!(talk(client, bytes(7)), talk(server, bytes(13)));
    assert!(at_server == bytes(7), "the server got something else");
    assert!(at_client == bytes(13), "the client got something else");
    assert_eq!(relay.await.unwrap(), (Ended::Complete, 4_000_000, 4_000_000));
}

#[tokio::test]
async fn a_client_that_said_all_still_hears_the_answer() {
    let Rig { mut client, mut server, relay } = rig(LONG).await;
    client.write_all(b"question").await.unwrap();
    client.shutdown().await.unwrap();
    let mut question = String::new();
    server.read_to_string(&mut question).await.unwrap();
    assert_eq!(question, "question");
    server.write_all(b"a long answer").await.unwrap();
    drop(server);
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "a long answer");
    assert_eq!(relay.await.unwrap().0, Ended::Complete);
}

#[tokio::test]
async fn a_server_that_speaks_first_and_closes_its_side_still_hears_the_client() {
    let Rig { mut client, mut server, relay } = rig(LONG).await;
    server.write_all(b"220 ready").await.unwrap();
    server.shutdown().await.unwrap();
    let mut greeting = String::new();
    client.read_to_string(&mut greeting).await.unwrap();
    assert_eq!(greeting, "220 ready");
    client.write_all(b"thanks").await.unwrap();
    drop(client);
    let mut thanks = String::new();
    server.read_to_string(&mut thanks).await.unwrap();
    assert_eq!(thanks, "thanks");
    assert_eq!(relay.await.unwrap().0, Ended::Complete);
}

#[tokio::test]
async fn a_reset_on_one_side_is_a_reset_on_the_other_and_never_an_end() {
    let Rig { mut client, mut server, relay } = rig(LONG).await;
    server.write_all(b"half of").await.unwrap();
    let mut half = [0; 7];
    client.read_exact(&mut half).await.unwrap();
    reset_on_close(&server);
    drop(server);
    let error = client.read(&mut half).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(relay.await.unwrap().0, Ended::Broken);
}

#[tokio::test]
async fn silence_ends_a_connection_after_the_idle_timeout_and_a_byte_starts_it_anew() {
    let start = tokio::time::Instant::now();
    let Rig { mut client, mut server, relay } = rig(Duration::from_millis(300)).await;
    let mut byte = [0];
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        client.write_all(b"x").await.unwrap();
        server.read_exact(&mut byte).await.unwrap();
    }
    assert_eq!(relay.await.unwrap(), (Ended::Idle, 4, 0));
    assert!(start.elapsed() >= Duration::from_millis(700), "{:?}", start.elapsed());
    assert_eq!(client.read(&mut byte).await.unwrap(), 0, "the client is told");
}

#[tokio::test]
async fn a_slow_reader_slows_the_writer_instead_of_filling_the_memory() {
    let Rig { mut client, server, relay } = rig(LONG).await;
    let chunk = vec![0; 64 * 1024];
    let mut written = 0;
    // What the sockets on the way hold is some megabytes; a relay that read on would take all of this.
    while let Ok(count) = tokio::time::timeout(Duration::from_millis(500), client.write(&chunk)).await {
        written += count.unwrap();
        assert!(written < 256 << 20, "the relay reads without end");
    }
    drop((client, server));
    relay.await.unwrap();
}
