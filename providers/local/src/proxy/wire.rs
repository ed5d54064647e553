//! What is said over the socket: one question and one answer per line, each a JSON value, as long as both want to talk.
//!
//! INVARIANT: a manager and a proxy of different releases speak to each other during every upgrade. Words may be added;
//! none may change its meaning.

use std::io;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::intent::{Intent, Status};

/// The longest line that is read: an intent of some ten thousand balancers.
const LONGEST: u64 = 256 << 20;

/// What a client asks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Question {
    /// The intent in force.
    Intent,
    /// What of it is true.
    Status,
    /// The counters.
    Metrics,
    /// To put this intent in force.
    Apply(Intent),
}

/// What the proxy answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Answer {
    /// The intent in force.
    Intent(Intent),
    /// What of it is true.
    Status(Status),
    /// The counters, in the text format of Prometheus.
    Metrics(String),
    /// It is in force, with this revision.
    Applied(u64),
    /// It was made from an old one.
    #[serde(rename_all = "camelCase")]
    Conflict {
        /// The revision in force.
        in_force: u64,
        /// The revision that it was made from.
        made_from: u64,
    },
    /// It can never be in force, or the question was not understood.
    Refused(String),
    /// It was tried, and failed.
    Failed(String),
}

/// Writes one line.
pub(super) async fn write<T: Serialize>(to: &mut (impl AsyncWrite + Unpin), message: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line).await?;
    to.flush().await
}

/// Reads one line; `None` at the end. An inner error is a line that was not understood.
pub(super) async fn read<T: DeserializeOwned>(
    from: &mut (impl AsyncBufRead + Unpin),
) -> io::Result<Option<Result<T, serde_json::Error>>> {
    let mut line = Vec::new();
    from.take(LONGEST).read_until(b'\n', &mut line).await?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.last() != Some(&b'\n') {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the line has no end"));
    }
    Ok(Some(serde_json::from_slice(&line)))
}
