//! What a kubelet sends: registration, status and lease. Works with any client; as `system:node:<name>` in the group
//! `system:nodes` it passes through the API server's Node authorization and `NodeRestriction`, as a real one does.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference};
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Api, Client};
use serde_json::{Map, Value, json};

use super::Kubelet;
use crate::error::Error;

/// How long one request may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// What registering did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registration {
    /// There was no Node of this name.
    Created,
    /// There was one, and something about it was restored.
    Restored,
    /// There was one, and nothing had to be changed.
    Unchanged,
}

impl Kubelet {
    /// Creates the Node, or takes over the one that is there.
    pub async fn register(&self, client: &Client) -> Result<Registration, Error> {
        let attempt = format!("registering the node {}", self.name);
        within_deadline(attempt, async {
            let nodes: Api<Node> = Api::all(client.clone());
            let now = wall_clock();
            match nodes.create(&PostParams::default(), &self.initial_node(now)).await {
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                made => return made.map(|_| Registration::Created),
            }
            let existing = nodes.get(&self.name).await?;
            let Some(wanted) = self.reregistered(&existing, now) else {
                return Ok(Registration::Unchanged);
            };
            self.patch(&nodes, &existing, &wanted).await?;
            Ok(Registration::Restored)
        })
        .await
    }

    /// One round of the status loop: patches the Node if anything changed, and says whether it did.
    pub async fn sync_status(&self, client: &Client) -> Result<bool, Error> {
        self.report(client, false).await
    }

    /// A status report that is due, changed or not, and a renewal of the lease.
    pub async fn heartbeat(&self, client: &Client) -> Result<(), Error> {
        self.report(client, true).await?;
        self.renew_lease(client).await
    }

    /// Creates or renews the lease in `kube-node-lease` by which the controllers know that the machine lives.
    pub async fn renew_lease(&self, client: &Client) -> Result<(), Error> {
        let attempt = format!("renewing the lease of the node {}", self.name);
        within_deadline(attempt, async {
            let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
            let renewal = json!({ "spec": { "renewTime": MicroTime(wall_clock()) } });
            match leases.patch(&self.name, &PatchParams::default(), &Patch::Merge(&renewal)).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                renewed => return renewed.map(drop),
            }
            let node = Api::<Node>::all(client.clone()).get(&self.name).await?;
            leases.create(&PostParams::default(), &self.lease(&node)).await.map(drop)
        })
        .await
    }

    async fn report(&self, client: &Client, due: bool) -> Result<bool, Error> {
        let attempt = format!("reporting the status of the node {}", self.name);
        within_deadline(attempt, async {
            let nodes: Api<Node> = Api::all(client.clone());
            let existing = nodes.get(&self.name).await?;
            let (wanted, changed) = self.refreshed(&existing, wall_clock());
            if changed || due {
                self.patch(&nodes, &existing, &wanted).await?;
            }
            Ok(changed || due)
        })
        .await
    }

    /// Metadata and status go together, through the status subresource: a kubelet never writes a Node's spec again.
    async fn patch(&self, nodes: &Api<Node>, old: &Node, new: &Node) -> Result<(), kube::Error> {
        let patch = difference(old, new).map_err(kube::Error::SerdeError)?;
        nodes.patch_status(&self.name, &PatchParams::default(), &Patch::Strategic(&patch)).await.map(drop)
    }

    fn lease(&self, node: &Node) -> Lease {
        let owner = OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: self.name.clone(),
            uid: node.metadata.uid.clone().unwrap_or_default(),
            ..OwnerReference::default()
        };
        Lease {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                owner_references: Some(vec![owner]),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.name.clone()),
                lease_duration_seconds: Some(40),
                renew_time: Some(MicroTime(wall_clock())),
                ..LeaseSpec::default()
            }),
        }
    }
}

/// Registers many Nodes through one client, `at_once` at a time, and ends with the first that fails.
pub async fn register_all(client: &Client, kubelets: &[Kubelet], at_once: usize) -> Result<(), Error> {
    // Collected first: a stream over borrowed closures would not be `Send`.
    let registrations: Vec<_> = kubelets.iter().map(|kubelet| kubelet.register(client)).collect();
    futures::stream::iter(registrations)
        .buffer_unordered(at_once.max(1))
        .try_for_each(|_| async { Ok(()) })
        .await
}

/// The strategic merge patch from one Node to another, of labels, annotations and status only. Conditions merge by type, so that only
/// the kubelet's own are touched; addresses would merge by type too, which is wrong for two of one type, so they are
/// replaced as a whole.
pub(super) fn difference(old: &Node, new: &Node) -> Result<Value, serde_json::Error> {
    let (old, new) = (serde_json::to_value(old)?, serde_json::to_value(new)?);
    let mut metadata = Map::new();
    for map in ["labels", "annotations"] {
        let changes = changed_keys(&old["metadata"][map], &new["metadata"][map], true);
        if !changes.is_empty() {
            metadata.insert(map.to_owned(), changes.into());
        }
    }
    let mut status = changed_keys(&old["status"], &new["status"], false);
    if let Some(Value::Array(addresses)) = status.get_mut("addresses") {
        addresses.push(json!({ "$patch": "replace" }));
    }
    let mut patch = Map::new();
    for (key, changes) in [("metadata", metadata), ("status", status)] {
        if !changes.is_empty() {
            patch.insert(key.to_owned(), changes.into());
        }
    }
    Ok(patch.into())
}

fn changed_keys(old: &Value, new: &Value, removing: bool) -> Map<String, Value> {
    let nothing = Map::new();
    let (old, new) = (old.as_object().unwrap_or(&nothing), new.as_object().unwrap_or(&nothing));
    let differing = new.iter().filter(|(key, value)| old.get(*key) != Some(value));
    let mut changes: Map<String, Value> =
        differing.map(|(key, value)| (key.clone(), value.clone())).collect();
    if removing {
        let gone = old.keys().filter(|key| !new.contains_key(*key));
        changes.extend(gone.map(|key| (key.clone(), Value::Null)));
    }
    changes
}

async fn within_deadline<T>(
    attempt: String,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(DEADLINE, request).await {
        Ok(answer) => answer.map_err(Error::api(attempt)),
        Err(_) => Err(Error::Deadline { attempt, after: DEADLINE }),
    }
}

#[expect(clippy::disallowed_methods, reason = "heartbeats on a real API server carry the real time")]
fn wall_clock() -> Timestamp {
    Timestamp::now()
}
