//! Bytes both ways between two TCP connections, until both have said all or one breaks.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead as _, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

use super::activity::Activity;
use super::buffers::Buffers;

/// How a relay ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// Both sides said all they had to say.
    Complete,
    /// One side broke: the other must not take it for an end.
    Broken,
    /// Nobody said anything for the idle timeout.
    Idle,
}

/// Where bytes are counted: from the client, to the client.
pub(super) struct Meters<'a> {
    /// Bytes from the client.
    pub(super) received: &'a AtomicU64,
    /// Bytes to the client.
    pub(super) sent: &'a AtomicU64,
}

/// Relays until both directions are at their end. The end of one direction is passed on at once, and the other goes on.
pub(super) async fn relay(
    client: &mut TcpStream,
    upstream: &mut TcpStream,
    buffers: &Buffers,
    meters: Meters<'_>,
    idle_timeout: Duration,
) -> Ended {
    let activity = Activity::new();
    let (from_client, to_client) = client.split();
    let (from_upstream, to_upstream) = upstream.split();
    let both = async {
        tokio::try_join!(
            pump(from_client, to_upstream, buffers, meters.received, &activity),
            pump(from_upstream, to_client, buffers, meters.sent, &activity),
        )
    };
    tokio::select! {
        result = both => if result.is_ok() { Ended::Complete } else { Ended::Broken },
        () = activity.ceases_for(idle_timeout) => Ended::Idle,
    }
}

/// One direction. A buffer is lent only while there is something to read.
async fn pump(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    buffers: &Buffers,
    meter: &AtomicU64,
    activity: &Activity,
) -> io::Result<()> {
    loop {
        // `readable` itself never yields while there is something: without this, a connection that always has would
        // starve the others of this thread.
        tokio::task::consume_budget().await;
        from.readable().await?;
        let mut buffer = buffers.lend();
        while let Some(count) = read_if_ready(&mut from, &mut buffer).await? {
            if count == 0 {
                return to.shutdown().await;
            }
            activity.note();
            to.write_all(&buffer[..count]).await?;
            activity.note();
            meter.fetch_add(count as u64, Ordering::Relaxed);
        }
    }
}

/// Reads what is there; `None` if there is nothing now.
async fn read_if_ready(from: &mut ReadHalf<'_>, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    let mut buffer = ReadBuf::new(buffer);
    poll_fn(|context| match Pin::new(&mut *from).poll_read(context, &mut buffer) {
        Poll::Pending => Poll::Ready(Ok(None)),
        Poll::Ready(read) => Poll::Ready(read.map(|()| Some(buffer.filled().len()))),
    })
    .await
}

#[cfg(test)]
mod tests;
