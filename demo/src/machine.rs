//! A machine that is not there: a kubelet's reports, and a tiny HTTP server where a pod would be.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::Context as _;
use control_plane::Kubelet;
use control_plane::kubelet::NodeIp;
use kube::Client;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// How often a kubelet says that it lives.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// A machine.
pub(crate) struct Machine {
    /// Its name, and the Node's.
    pub(crate) name: String,
    /// Its address.
    pub(crate) address: IpAddr,
    /// The rack it stands in: its zone.
    pub(crate) zone: String,
    kubelet: Kubelet,
    heartbeat: Option<JoinHandle<()>>,
    responder: Option<JoinHandle<()>>,
}

impl Machine {
    /// A machine that is switched off.
    pub(crate) fn new(name: &str, address: IpAddr, zone: &str) -> anyhow::Result<Self> {
        let node_ip: NodeIp = address.to_string().parse().context("reading a node's address")?;
        Ok(Self {
            name: name.to_owned(),
            address,
            zone: zone.to_owned(),
            kubelet: Kubelet::new(name).node_ip(node_ip),
            heartbeat: None,
            responder: None,
        })
    }

    /// Registers its Node and reports from then on.
    pub(crate) async fn join(&mut self, client: &Client) -> anyhow::Result<()> {
        self.kubelet.register(client).await?;
        let (kubelet, client) = (self.kubelet.clone(), client.clone());
        self.heartbeat = Some(tokio::spawn(async move {
            loop {
                // A report that was lost is followed by the next one.
                let _ = kubelet.heartbeat(&client).await;
                tokio::time::sleep(HEARTBEAT).await;
            }
        }));
        Ok(())
    }

    /// Answers at this port from now on, as a pod behind the node's port would.
    pub(crate) async fn serve(&mut self, port: u16) -> anyhow::Result<()> {
        let place = SocketAddr::new(self.address, port);
        let listener = TcpListener::bind(place).await.with_context(|| format!("listening at {place}"))?;
        let greeting = format!("hello from {}\n", self.name);
        self.responder = Some(tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let greeting = greeting.clone();
                tokio::spawn(async move {
                    // Whoever goes away before the answer wanted none.
                    let _ = answer(stream, &greeting).await;
                });
            }
        }));
        Ok(())
    }

    /// Pulls the plug: nobody answers, nobody reports.
    pub(crate) fn kill(&mut self) {
        for task in [self.heartbeat.take(), self.responder.take()].into_iter().flatten() {
            task.abort();
        }
    }

    /// What the control plane writes when a kubelet has been silent for long enough.
    pub(crate) async fn be_declared_not_ready(&self, client: &Client) -> anyhow::Result<()> {
        self.kubelet.clone().ready(false).sync_status(client).await?;
        Ok(())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill();
    }
}

async fn answer(mut stream: TcpStream, greeting: &str) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < 16 * 1024 {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let length = greeting.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(greeting.as_bytes()).await?;
    stream.shutdown().await
}

/// Asks for `/` as curl does, and tells the body.
pub(crate) async fn curl(place: SocketAddr) -> anyhow::Result<String> {
    let exchange = async {
        let mut stream = TcpStream::connect(place).await?;
        stream
            .write_all(format!("GET / HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n\r\n").as_bytes())
            .await?;
        let mut whole = String::new();
        stream.read_to_string(&mut whole).await?;
        Ok::<String, std::io::Error>(whole)
    };
    let whole =
        tokio::time::timeout(Duration::from_secs(5), exchange).await.context("no answer within 5 s")??;
    let (head, body) = whole.split_once("\r\n\r\n").context("the answer is no HTTP")?;
    anyhow::ensure!(head.starts_with("HTTP/1.1 200"), "the answer is {:?}", head.lines().next());
    Ok(body.trim().to_owned())
}
