//! The proxy's end of the socket. Whoever may open the socket file may command the proxy: the file is its owner's alone.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use socket2::{Domain, SockAddr, Socket, Type};
use tokio::io::BufReader;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::wire::{self, Answer, Question};
use super::{FeedError, Keeper};

/// A socket file that is answered.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
}

impl Server {
    /// Opens the socket. A file that a dead process left is replaced; a living one is an error.
    pub fn bind(path: &Path) -> io::Result<Self> {
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(parent)?;
        }
        clear(path)?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.bind(&SockAddr::unix(path)?)?;
        // Before it listens nobody can connect, so nobody comes in between.
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        socket.listen(16)?;
        let listener = UnixListener::from_std(socket.into())?;
        Ok(Self { listener, path: path.to_owned() })
    }

    /// Answers until `stop`.
    pub async fn serve(self, keeper: Arc<Keeper>, stop: CancellationToken) {
        let mut conversations = JoinSet::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        conversations.spawn(converse(stream, Arc::clone(&keeper)));
                    }
                    Err(error) => {
                        warn!(%error, "cannot accept a connection at the socket");
                        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                    }
                },
                Some(_) = conversations.join_next() => {}
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing is lost if it stays: the next one clears it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes the socket file of a process that is gone. Never anything else.
fn clear(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file is there and is no socket"));
        }
        Ok(_) => {}
    }
    match BlockingStream::connect(path) {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another process answers there")),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
    }
}

async fn converse(stream: UnixStream, keeper: Arc<Keeper>) {
    let (from, mut to) = stream.into_split();
    let mut from = BufReader::new(from);
    loop {
        let answer = match wire::read(&mut from).await {
            Ok(None) => return,
            Ok(Some(Ok(question))) => answer(question, &keeper).await,
            Ok(Some(Err(error))) => Answer::Refused(format!("the question is not understood: {error}")),
            Err(error) => return debug!(%error, "a client of the socket went away"),
        };
        if wire::write(&mut to, &answer).await.is_err() {
            return;
        }
    }
}

async fn answer(question: Question, keeper: &Keeper) -> Answer {
    match question {
        Question::Intent => Answer::Intent((*keeper.intent().await).clone()),
        Question::Status => Answer::Status(keeper.status().await),
        Question::Metrics => Answer::Metrics(keeper.metrics().await),
        Question::Apply(intent) => match keeper.apply(intent).await {
            Ok(revision) => Answer::Applied(revision),
            Err(FeedError::Conflict { in_force, made_from }) => Answer::Conflict { in_force, made_from },
            Err(FeedError::Refused(why)) => Answer::Refused(why),
            Err(FeedError::Failed(why)) => Answer::Failed(why),
            Err(other @ FeedError::Unreachable(..)) => Answer::Failed(other.to_string()),
        },
    }
}
