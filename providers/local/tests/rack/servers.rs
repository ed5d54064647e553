//! Servers for backends to be, and clients that ask them who they are.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::naive_bytecount,
    clippy::unwrap_used,
    reason = "shared by several test targets, each of which uses its own part"
)]

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use testkit::Awake;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

/// Far more than anything here takes.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// An address of the loopback network that no other test of any process uses.
pub fn fresh_address() -> IpAddr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    assert!(next < 255, "too many addresses for one process");
    IpAddr::from([127, 64 | (high & 63), low, next])
}

/// A server that ends, with all its connections, when it is dropped.
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Ends it; when this returns, its port is closed.
    pub async fn end(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

/// Says its name and the client's address, each on a line, then echoes until the client has said all.
pub fn namer(name: &str, address: SocketAddr) -> Server {
    let listener = listen(address).unwrap();
    let address = listener.local_addr().unwrap();
    let name = name.to_owned();
    let task = tokio::spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => if let Ok((stream, peer)) = accepted {
                    connections.spawn(introduce(stream, format!("{name}\n{}\n", peer.ip())));
                },
                Some(_) = connections.join_next() => {}
            }
        }
    });
    Server { address, task }
}

/// Binds. A program that some other test of this process just starts holds a copy of every socket, of one that was closed
/// too, until it is that program: an address that is in use is tried again for a while.
fn bound<T>(bind: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let start = Awake::now();
    loop {
        match bind() {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && start.elapsed() < PATIENCE => {
                std::thread::yield_now();
            }
            result => return result,
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = bound(|| {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(4096)?;
        Ok(socket)
    })?;
    TcpListener::from_std(socket.into())
}

async fn introduce(mut stream: TcpStream, introduction: String) -> io::Result<()> {
    stream.write_all(introduction.as_bytes()).await?;
    let (mut from, mut to) = stream.split();
    tokio::io::copy(&mut from, &mut to).await?;
    to.shutdown().await
}

/// Hands over the first bytes of each connection, and answers nothing.
pub fn recorder(address: SocketAddr, count: usize) -> (Server, mpsc::UnboundedReceiver<Vec<u8>>) {
    let listener = listen(address).unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = mpsc::unbounded_channel();
    let task = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = vec![0; count];
            if stream.read_exact(&mut bytes).await.is_ok() {
                let _ = sender.send(bytes);
            }
        }
    });
    (Server { address, task }, receiver)
}

/// Answers `GET` of anything with this status line, one connection at a time.
pub fn http(address: SocketAddr, status: &'static str) -> Server {
    let listener = listen(address).unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 1024]).await;
            let _ =
                stream.write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes()).await;
        }
    });
    Server { address, task }
}

/// Answers each datagram with its name, the client's address and what it got, each on a line.
pub fn udp_namer(name: &str, address: SocketAddr) -> Server {
    let socket = bound(|| std::net::UdpSocket::bind(address)).unwrap();
    socket.set_nonblocking(true).unwrap();
    let socket = UdpSocket::from_std(socket).unwrap();
    let address = socket.local_addr().unwrap();
    let name = name.to_owned();
    let task = tokio::spawn(async move {
        let mut buffer = vec![0; 65_536];
        loop {
            if let Ok((count, peer)) = socket.recv_from(&mut buffer).await {
                let mut answer = format!("{name}\n{}\n", peer.ip()).into_bytes();
                answer.extend(&buffer[..count]);
                let _ = socket.send_to(&answer, peer).await;
            }
        }
    });
    Server { address, task }
}

/// What a namer said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    /// Its name.
    pub name: String,
    /// The address that it saw.
    pub peer: String,
    /// What followed.
    pub rest: String,
}

impl Introduction {
    fn parse(text: &str) -> io::Result<Self> {
        let mut lines = text.splitn(3, '\n').map(str::to_owned);
        match (lines.next(), lines.next(), lines.next()) {
            (Some(name), Some(peer), Some(rest)) => Ok(Self { name, peer, rest }),
            _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("only {text:?} came"))),
        }
    }
}

/// Connects, from this address if one is given.
pub async fn connect(to: SocketAddr, from: Option<IpAddr>) -> io::Result<TcpStream> {
    let socket = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if let Some(from) = from {
        socket.bind(SocketAddr::new(from, 0))?;
    }
    timeout(PATIENCE, socket.connect(to)).await?
}

/// A whole short conversation: says something, says that this is all, and reads to the end.
pub async fn ask_from(to: SocketAddr, from: Option<IpAddr>) -> io::Result<Introduction> {
    let mut stream = connect(to, from).await?;
    stream.write_all(b"hello").await?;
    stream.shutdown().await?;
    let mut text = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut text)).await??;
    let introduction = Introduction::parse(&text)?;
    if introduction.rest == "hello" {
        Ok(introduction)
    } else {
        Err(io::Error::other(format!("cut short: {text:?}")))
    }
}

/// A whole short conversation from wherever the system chooses.
pub async fn ask(to: SocketAddr) -> io::Result<Introduction> {
    ask_from(to, None).await
}

/// A connection that stays, after the server's introduction.
pub struct Held {
    /// Who serves it.
    pub name: String,
    stream: TcpStream,
}

impl Held {
    /// Opens it.
    pub async fn open(to: SocketAddr) -> io::Result<Self> {
        let mut stream = connect(to, None).await?;
        let mut text = Vec::new();
        while text.iter().filter(|byte| **byte == b'\n').count() < 2 {
            text.push(timeout(PATIENCE, stream.read_u8()).await??);
        }
        let name = String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_owned();
        Ok(Self { name, stream })
    }

    /// Sends something and waits for its echo.
    pub async fn echo(&mut self) -> io::Result<()> {
        self.stream.write_all(b"ping").await?;
        let mut echo = [0; 4];
        timeout(PATIENCE, self.stream.read_exact(&mut echo)).await??;
        Ok(())
    }

    /// Waits for the other side's end; the bytes it sent before, or the error that it ended with.
    pub async fn end(mut self) -> io::Result<usize> {
        timeout(PATIENCE, self.stream.read_to_end(&mut Vec::new())).await?
    }
}

/// A UDP client. Connected, so that it hears only answers from the address that it asked.
pub struct Datagrams(UdpSocket);

impl Datagrams {
    /// A client of this server.
    pub async fn to(server: SocketAddr) -> Self {
        let any: SocketAddr =
            if server.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
        let socket = UdpSocket::bind(any).await.unwrap();
        socket.connect(server).await.unwrap();
        Self(socket)
    }

    /// Sends one datagram and waits a second for its answer.
    pub async fn ask(&self, text: &str) -> io::Result<Introduction> {
        self.0.send(text.as_bytes()).await?;
        self.hear().await
    }

    /// Waits a second for an answer.
    pub async fn hear(&self) -> io::Result<Introduction> {
        let mut buffer = vec![0; 65_536];
        let count = timeout(Duration::from_secs(1), self.0.recv(&mut buffer)).await??;
        Introduction::parse(&String::from_utf8_lossy(&buffer[..count]))
    }
}

/// Waits until this is so.
pub async fn eventually<F: Future<Output = bool>>(what: &str, condition: impl Fn() -> F) {
    let start = Awake::now();
    while !condition().await {
        assert!(start.elapsed() < PATIENCE, "not so in time: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}
