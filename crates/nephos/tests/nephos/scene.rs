//! A cluster with a cloud beside it that a test can reach into, and the binary between the two.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use control_plane::{Builder, ControlPlane};
use k8s_openapi::api::core::v1::Event;
use provider_fake::clock::TokioClock;
use provider_fake::{Config, World, server};
use testkit::Awake;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::PATIENCE;
use crate::process::Nephos;

pub(crate) struct Scene {
    pub(crate) cluster: ControlPlane,
    pub(crate) kubeconfig: PathBuf,
    /// The cloud, from behind.
    pub(crate) world: World,
    cloud_config: PathBuf,
    endpoint: String,
    _files: tempfile::TempDir,
    served: JoinHandle<()>,
}

impl Scene {
    pub(crate) async fn set() -> Self {
        Self::with(ControlPlane::builder(), Config::default()).await
    }

    /// A cluster made like this, and a cloud that behaves like this.
    pub(crate) async fn with(cluster: Builder, cloud: Config) -> Self {
        let cluster = cluster.start().await.expect("the control plane starts");
        let provider = serde_json::json!({ "adopt": cloud.adopt, "lacks": cloud.lacks });
        let files = tempfile::tempdir().expect("a temporary directory");
        let world = World::new(cloud, Arc::new(TokioClock::start()));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let open = world.clone();
        let served = tokio::spawn(async move {
            server::serve(listener, open, std::future::pending()).await.expect("the cloud is served");
        });
        let scene = Self {
            kubeconfig: cluster.admin_kubeconfig().to_owned(),
            cluster,
            world,
            cloud_config: files.path().join("cloud.yaml"),
            endpoint: format!("http://{address}"),
            _files: files,
            served,
        };
        scene.configure(&lines(&provider));
        scene
    }

    /// Writes the cloud config: where the cloud is, and these keys beside.
    pub(crate) fn configure(&self, keys: &str) {
        let text = format!("endpoint: {}\n{keys}", self.endpoint);
        std::fs::write(&self.cloud_config, text).expect("writing the cloud config");
    }

    /// A manager; nothing is served unless `extra` says so.
    pub(crate) fn nephos(&self, extra: &[&str]) -> Nephos {
        Nephos::start(&self.arguments(extra))
    }

    pub(crate) fn arguments(&self, extra: &[&str]) -> Vec<String> {
        let path = |flag: &str, path: &Path| format!("--{flag}={}", path.display());
        let mut arguments = vec![
            "run".to_owned(),
            "--cloud-provider=fake".to_owned(),
            "--secure-port=0".to_owned(),
            path("cloud-config", &self.cloud_config),
            path("kubeconfig", &self.kubeconfig),
        ];
        arguments.extend(extra.iter().map(ToString::to_string));
        arguments
    }

    pub(crate) async fn client(&self) -> kube::Client {
        self.cluster.admin().await.expect("an administrator's client")
    }

    /// What the Events on the Lease with this reason say.
    pub(crate) async fn lease_events(&self, reason: &str) -> Vec<String> {
        let events: kube::Api<Event> = kube::Api::namespaced(self.client().await, "kube-system");
        let on_lease = format!("involvedObject.kind=Lease,reason={reason}");
        let found = events.list(&kube::api::ListParams::default().fields(&on_lease)).await;
        found.expect("listing events").items.into_iter().filter_map(|event| event.message).collect()
    }

    /// Who began and ceased to lead, without the identities, sorted.
    pub(crate) async fn election_events(&self) -> Vec<String> {
        let messages = self.lease_events("LeaderElection").await.into_iter();
        let mut said: Vec<String> = messages
            .map(|text| text.split_once(' ').map_or(text.clone(), |(_, what)| what.to_owned()))
            .collect();
        said.sort();
        said
    }

    pub(crate) async fn end(self) {
        self.served.abort();
        self.cluster.stop().await.expect("the control plane stops");
    }
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    listener.and_then(|listener| listener.local_addr()).expect("a free port").port()
}

/// The keys of an object as lines of YAML; JSON is YAML.
fn lines(object: &serde_json::Value) -> String {
    let keys = object.as_object().into_iter().flatten();
    keys.map(|(key, value)| format!("{key}: {value}\n")).collect::<Vec<_>>().concat()
}

/// Asks again and again until the answer is there.
pub(crate) async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let asked = Awake::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(asked.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        sleep(Duration::from_millis(100)).await;
    }
}
