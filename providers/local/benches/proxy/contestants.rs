//! The processes that are measured: the proxy as it is shipped, a bare relay of tokio, `haproxy`; and the server behind them.

use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clap::Parser as _;
use provider_local::intent::{Backend, Balancer, Intent, Port, PortKey, Settings};
use provider_local::proxy::{Client, command};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The proxy of this crate.
    Ours,
    /// `tokio::io::copy_bidirectional` and nothing else.
    Bare,
    /// `haproxy` in TCP mode, as Debian ships it.
    Haproxy,
    /// The server behind.
    Backend,
}

impl Kind {
    /// All that forward, as far as they are installed.
    pub(crate) fn all() -> Vec<Self> {
        let installed = Command::new("haproxy").arg("-v").stdout(Stdio::null()).status().is_ok();
        if !installed {
            println!("NOTICE: haproxy is not installed, so that comparison was SKIPPED");
        }
        [Self::Ours, Self::Bare].into_iter().chain(installed.then_some(Self::Haproxy)).collect()
    }

    /// For people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "the proxy",
            Self::Bare => "a bare relay",
            Self::Haproxy => "HAProxy",
            Self::Backend => "the server",
        }
    }
}

/// A running process; ended when it is dropped.
pub(crate) struct Contestant {
    pub(crate) kind: Kind,
    /// Where it takes connections.
    pub(crate) entrance: SocketAddr,
    child: Child,
    _directory: TempDir,
}

impl Contestant {
    /// Starts one in front of `backend` and waits until it takes connections.
    pub(crate) async fn start(kind: Kind, backend: Option<SocketAddr>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let entrance = free_address();
        let backend = backend.unwrap_or(entrance);
        let mut command = match kind {
            Kind::Haproxy => haproxy(directory.path(), entrance, backend),
            _ => Command::new(std::env::current_exe().unwrap()),
        };
        if kind != Kind::Haproxy {
            command.args(["role", &format!("{kind:?}"), &entrance.to_string(), &backend.to_string()]);
            command.arg(directory.path());
        }
        let child = command.stdin(Stdio::null()).spawn().unwrap();
        let contestant = Self { kind, entrance, child, _directory: directory };
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(entrance).await.is_err() {
            assert!(tokio::time::Instant::now() < deadline, "{} does not start", kind.name());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        contestant
    }

    /// The CPU seconds that it has used.
    pub(crate) fn cpu(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // The second field is a name in brackets, which may hold anything; user and system time are the 14th and 15th.
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let ticks = |index: usize| fields[index].parse::<f64>().unwrap();
        (ticks(11) + ticks(12)) / 100.0
    }

    /// Its resident memory, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Contestant {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn haproxy(directory: &Path, entrance: SocketAddr, backend: SocketAddr) -> Command {
    let path = directory.join("haproxy.cfg");
    let mut file = fs::File::create(&path).unwrap();
    write!(
        file,
        "global\n  maxconn 9000\n\ndefaults\n  mode tcp\n  timeout connect 5s\n  timeout client 1h\n  timeout server 1h\n\n\
         listen measured\n  bind {entrance}\n  balance roundrobin\n  server one {backend}\n"
    )
    .unwrap();
    let mut command = Command::new("haproxy");
    command.arg("-db").arg("-f").arg(path);
    command
}

/// What a child does, until it is killed.
pub(crate) async fn play(arguments: &[String]) {
    let [kind, entrance, backend, directory] = arguments else { panic!("four arguments, not {arguments:?}") };
    let (entrance, backend) = (entrance.parse().unwrap(), backend.parse().unwrap());
    match kind.as_str() {
        "Ours" => ours(entrance, backend, Path::new(directory)).await,
        "Bare" => bare(entrance, backend).await,
        "Backend" => serve(entrance).await,
        other => panic!("nobody knows how to be {other}"),
    }
}

async fn ours(entrance: SocketAddr, backend: SocketAddr, directory: &Path) {
    let text = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let arguments = ["--socket".into(), text("sock"), "--state".into(), text("intent.json")];
    let arguments = command::Arguments::try_parse_from(arguments).unwrap();
    let client = Client::at(&arguments.socket);
    let feed = async {
        while client.status().await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        client.apply(intent(entrance, backend)).await.unwrap();
        std::future::pending::<()>().await;
    };
    command::serve(arguments, feed).await.unwrap();
}

fn intent(entrance: SocketAddr, backend: SocketAddr) -> Intent {
    let backend = Backend { node: "one".into(), address: backend.ip(), port: backend.port(), weight: 1 };
    let port = Port { backends: [backend].into(), ..Port::default() };
    let balancer = Balancer {
        cluster: None,
        namespace: "bench".into(),
        name: "measured".into(),
        addresses: [entrance.ip()].into(),
        ports: [(PortKey::tcp(entrance.port()), port)].into(),
        settings: Settings::default(),
    };
    Intent { balancers: [("uid".to_owned(), balancer.into())].into(), ..Intent::empty() }
}

async fn bare(entrance: SocketAddr, backend: SocketAddr) {
    let listener = TcpListener::bind(entrance).await.unwrap();
    loop {
        let (mut client, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            client.set_nodelay(true)?;
            let mut upstream = TcpStream::connect(backend).await?;
            upstream.set_nodelay(true)?;
            tokio::io::copy_bidirectional(&mut client, &mut upstream).await
        });
    }
}

async fn serve(entrance: SocketAddr) {
    let listener = TcpListener::bind(entrance).await.unwrap();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(answer(stream));
    }
}

async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    match stream.read_u8().await? {
        b'D' => {
            let bytes = vec![0; 128 * 1024];
            loop {
                stream.write_all(&bytes).await?;
            }
        }
        _ => loop {
            let mut question = [0; 64];
            stream.read_exact(&mut question).await?;
            stream.write_all(&question).await?;
        },
    }
}
