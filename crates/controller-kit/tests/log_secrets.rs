//! Canaries: credentials of every kind go through the client at the highest verbosity, against a server on loopback,
//! and none of them may show up in the log or in an error. A file of its own because the log is the process's.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use controller_kit::client::{Clients, Metrics, Options};
use controller_kit::clock::SystemClock;
use controller_kit::lifecycle::Shutdown;
use controller_kit::log::{self, report};
use controller_kit::random::Randomness;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tracing_subscriber::layer::SubscriberExt as _;

#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl io::Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An API server that keeps the credentials it is shown.
async fn server() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let shown: Arc<Mutex<Vec<String>>> = Arc::default();
    let keep = shown.clone();
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
                let credential = request.lines().find_map(|line| line.strip_prefix("authorization: "));
                keep.lock().unwrap().extend(credential.map(str::to_owned));
                let (status, body) = match request.split(' ').nth(1).unwrap() {
                    path if path.contains("watch=true") => ("200 OK", "{\"type\":\"ADDED\",\"object\":7}\n"),
                    path if path.ends_with("/good") => ("200 OK", r#"{"metadata":{"name":"good"}}"#),
                    path if path.ends_with("/odd") => ("200 OK", r#"{"metadata":"canary-in-a-body"}"#),
                    _ => (
                        "500 Internal Server Error",
                        r#"{"kind":"Status","code":500,"reason":"x","message":"broken"}"#,
                    ),
                };
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
                );
                connection.write_all(answer.as_bytes()).await.unwrap();
            });
        }
    });
    (address, shown)
}

/// Does what a controller does, failures included, and logs every error as a controller would.
async fn use_client(address: &str, user: &str) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: '{address}'}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         users:\n- name: u\n  user: {user}\n"
    );
    std::fs::write(&path, text).unwrap();
    let options = Options { kubeconfig: Some(path), user_agent: "t".into(), ..Options::default() };
    tracing::debug!(?options, "Connecting");
    let metrics = Metrics::register(&mut Registry::default());
    let clients = match Clients::connect(options, Randomness::seeded(1), metrics).await {
        Ok(clients) => clients,
        Err(error) => {
            tracing::error!(err = %report(&error), debug = ?error, "Cannot connect");
            return;
        }
    };
    let secrets: Api<Secret> = Api::namespaced(clients.named("x").build(), "ns");
    for name in ["good", "odd", "bad"] {
        if let Err(error) = secrets.get(name).await {
            tracing::error!(err = %report(&error), name, "Failed");
        }
    }
    match secrets.watch(&kube::api::WatchParams::default(), "0").await {
        Ok(events) => {
            for event in events.collect::<Vec<_>>().await {
                tracing::info!(?event, "Watched");
            }
        }
        Err(error) => tracing::error!(err = %report(&error), debug = ?error, "Failed to watch"),
    }
    let stop = Shutdown::new();
    let _ = tokio::time::timeout(Duration::from_millis(10), clients.reload_on_change(&stop)).await;
}

#[tokio::test]
async fn no_credential_reaches_the_log_at_the_highest_verbosity() {
    let page = Page::default();
    let writer = page.clone();
    let options = log::Options { verbosity: 10, ..log::Options::default() };
    let (layer, _) = log::layer(&options, Arc::new(SystemClock), move || writer.clone()).unwrap();
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer)).unwrap();
    let (address, shown) = server().await;
    let token = |script: &str| {
        format!(
            "{{exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: sh, \
             args: ['-c', '{script}', 'canary-argument'], env: [{{name: CANARY, value: canary-environment}}]}}}}"
        )
    };
    let credential = r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"canary-from-plugin"}}"#;
    for user in [
        "{token: canary-token}",
        "{username: admin, password: canary-password}",
        &token(&format!("echo {}", credential.replace('"', r#"\""#))),
        &token("echo canary-output; echo canary-complaint >&2; exit 3"),
        &token("echo canary: [unparsable"),
        "{token: canary-in-broken-yaml, oops",
        "{client-certificate-data: canary-certificate, client-key-data: canary-key}",
        "{tokenFile: /does/not/exist/canary}",
    ] {
        use_client(&address, user).await;
    }
    let shown = shown.lock().unwrap().join("\n");
    for used in ["Bearer canary-token", "Basic ", "Bearer canary-from-plugin"] {
        assert!(shown.contains(used), "the server was shown {used:?}: {shown}");
    }
    let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
    for said in ["\"Response\"", "/secrets/odd", "it failed with exit status: 3", "\"Cannot connect\""] {
        assert!(text.contains(said), "the log does say {said:?}: {text}");
    }
    // The path of a token file is no secret; everything else with a canary in it is.
    let leaks: Vec<&str> = text
        .lines()
        .filter(|line| line.replace("/does/not/exist/canary", "").contains("canary"))
        .filter(|line| !line.is_empty())
        .collect();
    assert!(leaks.is_empty(), "{leaks:#?}");
    let encoded = "Y2FuYXJ5"; // "canary", as base64 begins it
    assert!(!text.contains(encoded) && !text.contains("YWRtaW46"), "{text}");
}
