//! Node IPAM, as the manager begins it.

use cloud_controllers::node_ipam::{self, Controller, Metrics, Parts, Ranges, Settings};
use cloud_provider::well_known::{event_reasons, service_accounts};

use super::{Begun, EventKind, Means, Row, Watched};
use crate::rbac::Right;

pub(super) const ROW: Row = Row {
    name: node_ipam::NAME,
    aliases: &[node_ipam::ALIAS],
    running_name: node_ipam::RUNNING_NAME,
    client: service_accounts::NODE_CONTROLLER,
    needs: None,
    watches: &[Watched::Nodes],
    node_annotations: &[],
    rights: &[Right::needed("", "nodes", &["get", "list", "patch"])],
    events: EVENTS,
    prepare: |registry| {
        let metrics = Metrics::register(registry);
        Box::new(|means| Ok(begin(means, metrics)))
    },
};

const EVENTS: &[EventKind] = &[
    EventKind::warning(event_reasons::CIDR_NOT_AVAILABLE, "Node", "no pod CIDR is left for a node"),
    EventKind::warning(
        event_reasons::CIDR_ASSIGNMENT_FAILED,
        "Node",
        "a pod CIDR could not be written to a node",
    ),
    EventKind::warning(
        node_ipam::ODD_REASON,
        "Node",
        "a node has pod CIDRs that do not fit the cluster's networks",
    ),
];

fn begin(means: Means, metrics: Metrics) -> Begun {
    let ranges = match Ranges::of(&means.config.node_ipam) {
        Ok(ranges) => ranges,
        Err(idle) => return Begun::Skipped(idle.to_string()),
    };
    let parts = Parts {
        client: means.client,
        nodes: means.nodes,
        events: means.events,
        gate: means.gate,
        metrics,
        queue_metrics: means.queue_metrics,
        worker_metrics: means.worker_metrics,
    };
    let controller = Controller::new(parts, ranges, Settings::default());
    let (stop, health) = (means.stop, means.health);
    Begun::Running(Box::pin(async move {
        controller.run(&stop, |workers| health.ask(workers)).await;
    }))
}
