//! The manager's end of the socket. Stateless: each question opens the socket anew, so a proxy that was restarted in
//! between is not noticed.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::BufReader;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::wire::{self, Answer, Question};
use crate::intent::{Intent, Status};

/// No answer within this time is a failure: the proxy answers from memory, or after one write to disk.
const PATIENCE: Duration = Duration::from_secs(10);

/// Speaks to a proxy that is a process of its own.
#[derive(Debug, Clone)]
pub struct Client {
    path: PathBuf,
}

/// Why a data plane did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// Somebody else changed the intent meanwhile: read it again.
    #[error("the data plane is at revision {in_force}, and the change was made from revision {made_from}")]
    Conflict {
        /// The revision in force.
        in_force: u64,
        /// The revision that the refused intent was made from.
        made_from: u64,
    },
    /// It can never be true.
    #[error("the data plane refuses: {0}")]
    Refused(String),
    /// It tried and failed.
    #[error("the data plane failed: {0}")]
    Failed(String),
    /// Nobody answers, or the answer cannot be read. Whether an intent is in force is not known.
    #[error("speaking to the proxy at {}", .0.display())]
    Unreachable(PathBuf, #[source] io::Error),
}

impl Client {
    /// A client of the proxy that answers at this socket.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The intent in force.
    pub async fn intent(&self) -> Result<Intent, FeedError> {
        match self.ask(&Question::Intent).await? {
            Answer::Intent(intent) => Ok(intent),
            other => Err(self.unexpected(other)),
        }
    }

    /// What of the intent is true.
    pub async fn status(&self) -> Result<Status, FeedError> {
        match self.ask(&Question::Status).await? {
            Answer::Status(status) => Ok(status),
            other => Err(self.unexpected(other)),
        }
    }

    /// The counters, in the text format of Prometheus.
    pub async fn metrics(&self) -> Result<String, FeedError> {
        match self.ask(&Question::Metrics).await? {
            Answer::Metrics(text) => Ok(text),
            other => Err(self.unexpected(other)),
        }
    }

    /// Puts a whole new intent in force, which was made from the one of its own revision, and tells the revision that it
    /// has now. Refused whole or taken whole.
    pub async fn apply(&self, intent: Intent) -> Result<u64, FeedError> {
        match self.ask(&Question::Apply(intent)).await? {
            Answer::Applied(revision) => Ok(revision),
            other => Err(self.unexpected(other)),
        }
    }

    async fn ask(&self, question: &Question) -> Result<Answer, FeedError> {
        let answer = match timeout(PATIENCE, self.exchange(question)).await {
            Ok(answer) => answer,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")),
        };
        answer.map_err(|error| FeedError::Unreachable(self.path.clone(), error))
    }

    async fn exchange(&self, question: &Question) -> io::Result<Answer> {
        let mut stream = UnixStream::connect(&self.path).await?;
        wire::write(&mut stream, question).await?;
        match wire::read(&mut BufReader::new(stream)).await? {
            Some(answer) => Ok(answer?),
            None => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the proxy closed without an answer")),
        }
    }

    fn unexpected(&self, answer: Answer) -> FeedError {
        match answer {
            Answer::Conflict { in_force, made_from } => FeedError::Conflict { in_force, made_from },
            Answer::Refused(why) => FeedError::Refused(why),
            Answer::Failed(why) => FeedError::Failed(why),
            _ => {
                let error = io::Error::new(io::ErrorKind::InvalidData, "the answer is not to the question");
                FeedError::Unreachable(self.path.clone(), error)
            }
        }
    }
}
