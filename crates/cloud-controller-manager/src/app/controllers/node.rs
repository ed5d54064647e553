//! The node controller, as the manager begins it.

use std::sync::Arc;

use anyhow::Context as _;
use cloud_controllers::node::{self, Controller, Metrics, Parts};
use cloud_provider::Capability;
use cloud_provider::well_known::{event_reasons, service_accounts};

use super::{Begun, EventKind, Means, Row, Watched};
use crate::rbac::Right;

pub(super) const ROW: Row = Row {
    name: node::NAME,
    aliases: &["cloud-node"],
    running_name: node::RUNNING_NAME,
    client: service_accounts::NODE_CONTROLLER,
    needs: Some(Capability::Instances),
    watches: &[Watched::Nodes],
    node_annotations: &node::ANNOTATIONS,
    rights: &[Right::needed("", "nodes", &["get", "patch"]), Right::needed("", "nodes/status", &["patch"])],
    events: EVENTS,
    prepare: |registry| {
        let metrics = Metrics::register(registry);
        Box::new(|means| begin(means, metrics))
    },
};

const EVENTS: &[EventKind] = &[
    EventKind::normal(event_reasons::SYNCED, "Node", "a node is initialised"),
    EventKind::normal(node::LABELS_CHANGED, "Node", "a label of a node followed the cloud"),
    EventKind::warning(
        "AmbiguousInstance",
        "Node",
        "a node cannot be initialised: several instances could be it",
    ),
    EventKind::warning(
        "CloudConfigInvalid",
        "Node",
        "a node cannot be initialised: the cloud refuses its configuration",
    ),
    EventKind::warning(
        "CloudNotReady",
        "Node",
        "a node cannot be initialised: the cloud asks to come back later",
    ),
    EventKind::warning("CloudThrottled", "Node", "a node cannot be initialised: the cloud throttles"),
    EventKind::warning(
        "CloudUnavailable",
        "Node",
        "a node cannot be initialised: the cloud cannot be reached",
    ),
    EventKind::warning(
        "CredentialInvalid",
        "Node",
        "a node cannot be initialised: the cloud refuses the credential",
    ),
    EventKind::warning(
        "InstanceNotFound",
        "Node",
        "a node cannot be initialised: the cloud has no instance for it",
    ),
    EventKind::warning(
        "InventoryEmpty",
        "Node",
        "a node cannot be initialised: the cloud shows no instance at all",
    ),
    EventKind::warning(
        "InventoryIncomplete",
        "Node",
        "a node cannot be initialised: the cloud's answer is incomplete",
    ),
    EventKind::warning(
        "NoProviderID",
        "Node",
        "a node cannot be initialised: the cloud gives it no provider ID",
    ),
    EventKind::warning(
        "NodeIPNotInCloud",
        "Node",
        "a node cannot be initialised: the kubelet's --node-ip is not an address of the instance",
    ),
    EventKind::warning(
        "ProviderIDInvalid",
        "Node",
        "a node cannot be initialised: its provider ID cannot be read",
    ),
    EventKind::warning("WriteFailed", "Node", "a node cannot be initialised: writing it failed"),
    EventKind::warning(
        "WriteForbidden",
        "Node",
        "a node cannot be initialised: the manager may not write it",
    ),
    EventKind::warning(
        "WriteRefused",
        "Node",
        "a node cannot be initialised: the API server refuses what the cloud says of it",
    ),
];

fn begin(means: Means, metrics: Metrics) -> anyhow::Result<Begun> {
    let lookup = means.loader.context(Capability::Instances.missing())?;
    let parts = Parts {
        client: means.client,
        nodes: means.nodes,
        lookup: Arc::new(lookup),
        events: means.events,
        clock: means.clock,
        random: means.random,
        metrics,
        queue_metrics: means.queue_metrics,
        worker_metrics: means.worker_metrics,
    };
    let controller = Controller::new(parts, means.config.node.clone());
    let (stop, health) = (means.stop, means.health);
    Ok(Begun::Running(Box::pin(async move {
        controller.run(&stop, |workers| health.ask(workers)).await;
    })))
}
