//! Where the configuration comes from, and what happens when it changes on disk: against a server on loopback.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use controller_kit::client::{Bearer, Clients, Error, Metrics, Options};
use controller_kit::lifecycle::Shutdown;
use controller_kit::log::Secret;
use controller_kit::random::Randomness;
use http::Request;
use kube::client::Body;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// A server that keeps the last token it was shown, and refuses `refused`.
async fn server() -> (String, Arc<Mutex<Option<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let last: Arc<Mutex<Option<String>>> = Arc::default();
    let keep = last.clone();
    tokio::spawn(async move {
        loop {
            let (mut connection, _) = listener.accept().await.unwrap();
            let keep = keep.clone();
            tokio::spawn(async move {
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    request.push(connection.read_u8().await.unwrap());
                }
                let request = String::from_utf8(request).unwrap();
                let token = request.lines().find_map(|line| line.strip_prefix("authorization: Bearer "));
                *keep.lock().unwrap() = token.map(str::to_owned);
                let status = if token == Some("refused") { "401 Unauthorized" } else { "200 OK" };
                let answer = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok");
                connection.write_all(answer.as_bytes()).await.unwrap();
            });
        }
    });
    (address, last)
}

fn kubeconfig(path: &Path, address: &str, token: &str) {
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         users: [{{name: u, user: {{token: {token}}}}}]\n"
    );
    // As volumes do it: a new file takes the place of the old one.
    let next = path.with_extension("next");
    std::fs::write(&next, text).unwrap();
    std::fs::rename(next, path).unwrap();
}

async fn ask(client: &kube::Client) -> u16 {
    let request = Request::get("/healthz").body(Body::empty()).unwrap();
    client.send(request).await.unwrap().status().as_u16()
}

async fn connect(options: Options, registry: &mut Registry) -> Result<Clients, Error> {
    Clients::connect(options, Randomness::seeded(1), Metrics::register(registry)).await
}

/// Lets the reload loop look at the files once, without waiting for it in real time.
async fn look(registry: &Registry, until: &str) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11)).await;
    tokio::time::resume();
    let told = async {
        loop {
            let text = controller_kit::metrics::encode(registry).unwrap();
            if text.contains(until) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(8), told).await.unwrap_or_else(|_| {
        panic!("never {until}:\n{}", controller_kit::metrics::encode(registry).unwrap());
    });
}

#[tokio::test]
async fn a_changed_kubeconfig_moves_all_clients_and_a_broken_one_none() {
    let (address, last) = server().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    kubeconfig(&path, &address, "first");
    let mut registry = Registry::default();
    let options = Options { kubeconfig: Some(path.clone()), user_agent: "t".into(), ..Options::default() };
    let clients = connect(options, &mut registry).await.unwrap();
    assert_eq!(clients.host(), address);
    let client = clients.named("x").build();
    let shown = || last.lock().unwrap().clone();
    assert_eq!((ask(&client).await, shown().as_deref()), (200, Some("first")));
    let stop = Shutdown::new();
    let reloading = tokio::spawn({
        let (clients, stop) = (clients.clone(), stop.clone());
        async move { clients.reload_on_change(&stop).await }
    });
    tokio::task::yield_now().await;

    kubeconfig(&path, &address, "second");
    look(&registry, r#"reloads_total{result="success"} 1"#).await;
    assert_eq!((ask(&client).await, shown().as_deref()), (200, Some("second")));

    std::fs::write(&path, "{ this is no kubeconfig").unwrap();
    look(&registry, "\nrest_client_config_stale 1\n").await;
    assert_eq!((ask(&client).await, shown().as_deref()), (200, Some("second")), "the last good one stays");

    kubeconfig(&path, &address, "refused");
    look(&registry, r#"reloads_total{result="failure"} 2"#).await;
    assert_eq!(
        (ask(&client).await, shown().as_deref()),
        (200, Some("second")),
        "so does it for a dead credential"
    );

    let (other, shown_there) = server().await;
    kubeconfig(&path, &other, "third");
    look(&registry, "\nrest_client_config_stale 0\n").await;
    assert_eq!(ask(&client).await, 200);
    assert_eq!(shown_there.lock().unwrap().as_deref(), Some("third"));
    assert_eq!(clients.host(), other);
    stop.trigger();
    reloading.await.unwrap();
}

/// Somebody with a token, who counts how often it was not taken.
struct Account(Mutex<&'static str>, AtomicUsize);

#[async_trait]
impl Bearer for Account {
    async fn token(&self) -> Secret {
        Secret::new(*self.0.lock().unwrap())
    }

    fn refused(&self) {
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_client_with_a_token_of_its_own_follows_the_kubeconfig_and_uses_none_of_its_credentials() {
    let (address, last) = server().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    kubeconfig(&path, &address, "of-the-manager");
    let mut registry = Registry::default();
    let options = Options { kubeconfig: Some(path.clone()), user_agent: "t".into(), ..Options::default() };
    let metrics = Metrics::register(&mut registry);
    let way = Clients::connect_anonymously(options, Randomness::seeded(1), metrics).await.unwrap();
    assert_eq!(ask(&way.named("nobody").build()).await, 200);
    assert_eq!(*last.lock().unwrap(), None);

    let account = Arc::new(Account(Mutex::new("of-the-account"), AtomicUsize::new(0)));
    let client = way.bearing(account.clone()).named("somebody").build();
    assert_eq!((ask(&client).await, last.lock().unwrap().as_deref()), (200, Some("of-the-account")));
    *account.0.lock().unwrap() = "refused";
    assert_eq!((ask(&client).await, account.1.load(Ordering::SeqCst)), (401, 1), "it is told");
    *account.0.lock().unwrap() = "fresh";

    let stop = Shutdown::new();
    let reloading = tokio::spawn({
        let (way, stop) = (way.clone(), stop.clone());
        async move { way.reload_on_change(&stop).await }
    });
    tokio::task::yield_now().await;
    let (other, shown_there) = server().await;
    kubeconfig(&path, &other, "of-the-manager");
    look(&registry, r#"reloads_total{result="success"} 1"#).await;
    assert_eq!((ask(&client).await, shown_there.lock().unwrap().as_deref()), (200, Some("fresh")));
    stop.trigger();
    reloading.await.unwrap();
}

#[tokio::test]
async fn the_master_address_wins_over_the_kubeconfig() {
    let (address, last) = server().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    kubeconfig(&path, "203.0.113.1:1", "token");
    let options = Options {
        kubeconfig: Some(path),
        master: Some(address.clone()),
        user_agent: "t".into(),
        ..Options::default()
    };
    let clients = connect(options, &mut Registry::default()).await.unwrap();
    assert_eq!(ask(&clients.named("x").build()).await, 200);
    assert_eq!(last.lock().unwrap().as_deref(), Some("token"));

    let alone =
        Options { master: Some(format!("http://{address}")), user_agent: "t".into(), ..Options::default() };
    let clients = connect(alone, &mut Registry::default()).await.unwrap();
    assert_eq!(ask(&clients.named("x").build()).await, 200);
    assert_eq!(*last.lock().unwrap(), None, "an address alone carries no credential");
}

/// Proves: APP-9
#[tokio::test]
async fn without_any_configuration_the_error_says_what_was_tried() {
    let error = connect(Options::default(), &mut Registry::default()).await.map(drop).unwrap_err();
    assert!(matches!(error, Error::InCluster(_)), "{error:?}");
    let missing = Options { kubeconfig: Some("/no/such/file".into()), ..Options::default() };
    let error = connect(missing, &mut Registry::default()).await.map(drop).unwrap_err();
    assert_eq!(error.to_string(), "reading the kubeconfig /no/such/file");
    let nonsense = Options { master: Some("http://[".into()), ..Options::default() };
    assert!(matches!(connect(nonsense, &mut Registry::default()).await.map(drop), Err(Error::Master { .. })));
}
