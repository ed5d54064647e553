//! What all these tests stand on: a gate that a test can close, a cluster, Services and Nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cloud_provider::load_balancer::Spec;
use cloud_provider::{
    Change, Changes, Cloud, ClusterId, ClusterIdentity, Context, Error, Gate, LoadBalancers, NodeRef,
    Outcome, Permit, Proof, Refusal, Verb,
};
use k8s_openapi::api::core::v1::{Node, Service};
use provider_fake::clock::TokioClock;
use provider_fake::{ApiError, Config, World};
use serde_json::{Value, json};

pub(crate) const CLUSTER: &str = "cluster-1";
pub(crate) const UID: &str = "3f0c6d9e-8a51-4d0e-9d3e-0a4b5c6d7e8f";
pub(crate) const NAME: &str = "a3f0c6d9e8a514d0e9d3e0a4b5c6d7e8";

/// A gate that is open until a test closes it.
#[derive(Default)]
pub(crate) struct TestGate {
    pub(crate) closed: AtomicBool,
}

impl Gate for TestGate {
    fn admit(&self, _: &Change) -> Result<(), Refusal> {
        if self.may_start() { Ok(()) } else { Err(Refusal::Fenced) }
    }

    fn may_start(&self) -> bool {
        !self.closed.load(Ordering::Relaxed)
    }

    fn ended(&self, _: &Change, _: Outcome) {}
}

pub(crate) fn open_gate() -> Changes {
    Changes::through(Arc::new(TestGate::default()))
}

/// Makes a call with a permit for this verb.
pub(crate) async fn with_permit<T>(
    verb: Verb,
    call: impl AsyncFnOnce(&Permit) -> Result<T, ApiError>,
) -> Result<T, ApiError> {
    let proof = Proof::by_cluster_tag(&cluster(CLUSTER), Some(CLUSTER)).unwrap();
    let change = match verb {
        Verb::Create => Change::create("thing", "it"),
        Verb::Update => Change::update("thing", "it", &proof),
        Verb::Delete => Change::delete("thing", "it", &proof),
    };
    open_gate().make(change, |permit| async move { Ok::<_, Error>(call(&permit).await) }).await.unwrap()
}

pub(crate) fn cluster(id: &str) -> ClusterIdentity {
    ClusterIdentity::new("kubernetes", ClusterId::NamespaceUid(id.to_owned()))
}

/// A context on tokio's clock for this cluster.
pub(crate) fn context(id: &str) -> Context {
    let mut context = Context::inert().with_cluster(cluster(id));
    context.clock = Arc::new(TokioClock::start());
    context
}

pub(crate) fn world(config: Config) -> World {
    World::new(config, Arc::new(TokioClock::start()))
}

/// A world and the provider over it, for [`CLUSTER`].
pub(crate) fn fake(config: Config) -> (World, Cloud) {
    let world = world(config);
    let cloud = world.cloud(&context(CLUSTER));
    (world, cloud)
}

pub(crate) fn balancers(cloud: &Cloud) -> Arc<dyn LoadBalancers> {
    Arc::clone(cloud.load_balancers.as_ref().unwrap())
}

pub(crate) fn node(name: &str) -> Arc<Node> {
    let spec = json!({ "providerID": format!("fake://{name}") });
    Arc::new(serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap())
}

pub(crate) fn node_ref(name: &str) -> NodeRef {
    NodeRef { name: name.into(), ..NodeRef::default() }
}

pub(crate) fn node_with_id(name: &str, id: &str) -> NodeRef {
    NodeRef { provider_id: Some(id.into()), ..node_ref(name) }
}

/// The spec of the Service `shop/web`, with these fields, for these nodes.
pub(crate) fn spec_of(fields: &Value, nodes: &[&str], cluster_id: &str) -> Spec {
    let metadata = json!({
        "name": "web", "namespace": "shop", "uid": UID, "annotations": fields.get("annotations"),
    });
    let service: Service = serde_json::from_value(json!({ "metadata": metadata, "spec": fields })).unwrap();
    Spec::new(Arc::new(service), nodes.iter().map(|name| node(name)).collect(), &cluster(cluster_id)).unwrap()
}

/// One TCP port and the nodes `a` and `b`.
pub(crate) fn plain() -> Spec {
    spec_of(&json!({ "ports": [{ "port": 80, "nodePort": 30080 }] }), &["a", "b"], CLUSTER)
}
