//! The node lifecycle controller, as the manager begins it.

use std::sync::Arc;

use anyhow::Context as _;
use cloud_controllers::node_lifecycle::{self, Controller, Metrics, Parts};
use cloud_provider::Capability;
use cloud_provider::well_known::{event_reasons, service_accounts};

use super::{Begun, EventKind, Means, Row, Watched};
use crate::rbac::Right;

pub(super) const ROW: Row = Row {
    name: node_lifecycle::NAME,
    aliases: &["cloud-node-lifecycle"],
    running_name: node_lifecycle::RUNNING_NAME,
    client: service_accounts::NODE_CONTROLLER,
    needs: Some(Capability::Instances),
    watches: &[Watched::Nodes],
    node_annotations: &node_lifecycle::ANNOTATIONS,
    rights: &[Right::needed("", "nodes", &["get", "patch", "delete"])],
    events: &[
        EventKind::normal(
            event_reasons::DELETING_NODE,
            "Node",
            "a node is deleted because its instance is gone",
        ),
        EventKind::warning(event_reasons::DELETING_NODE_FAILED, "Node", "that did not succeed"),
        EventKind::warning(
            node_lifecycle::REFUSED_REASON,
            "Node",
            "a node is not deleted although its instance was not found; the message says which safeguard holds it",
        ),
        EventKind::warning(
            node_lifecycle::INSTANCE_GONE_REASON,
            "Node",
            "a node's instance is gone, and --node-deletion-policy is not to delete it",
        ),
    ],
    prepare: |registry| {
        let metrics = Metrics::register(registry);
        Box::new(|means| begin(means, metrics))
    },
};

fn begin(means: Means, metrics: Metrics) -> anyhow::Result<Begun> {
    let lookup = means.loader.context(Capability::Instances.missing())?;
    let parts = Parts {
        client: means.client,
        nodes: means.nodes,
        lookup: Arc::new(lookup),
        events: means.events,
        clock: means.clock,
        metrics,
    };
    let controller = Controller::new(parts, means.config.node_lifecycle.clone());
    let stop = means.stop;
    Ok(Begun::Running(Box::pin(async move { controller.run(&stop).await })))
}
