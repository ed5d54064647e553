//! The route controller, as the manager begins it.

use anyhow::Context as _;
use cloud_controllers::around::Urgency;
use cloud_controllers::route::{self, Controller, Metrics, Parts, Slots};
use cloud_provider::Capability;
use cloud_provider::well_known::{event_reasons, service_accounts};

use super::{Begun, EventKind, Means, Row, Watched};
use crate::rbac::Right;

pub(super) const ROW: Row = Row {
    name: route::NAME,
    aliases: &[route::ALIAS],
    running_name: route::RUNNING_NAME,
    client: service_accounts::ROUTE_CONTROLLER,
    needs: Some(Capability::Routes),
    watches: &[Watched::Nodes],
    node_annotations: &[],
    rights: &[Right::needed("", "nodes", &["get"]), Right::needed("", "nodes/status", &["patch"])],
    events: EVENTS,
    prepare: |registry| {
        let metrics = Metrics::register(registry);
        Box::new(|means| begin(means, metrics))
    },
};

const EVENTS: &[EventKind] = &[
    EventKind::warning(event_reasons::FAILED_TO_CREATE_ROUTE, "Node", "a route to a node could not be made"),
    EventKind::warning(route::NOT_REMOVED_REASON, "Node", "a route to a node could not be removed"),
    EventKind::warning(route::NO_CIDR_REASON, "Node", "a node has no pod CIDR to make a route for"),
];

fn begin(means: Means, metrics: Metrics) -> anyhow::Result<Begun> {
    let told = &means.config.route;
    let cloud = means.cloud.cloud(Urgency::Drift);
    let networks = match route::networks(told.configure, &cloud, &told.cluster_cidr) {
        Ok(networks) => networks,
        Err(idle) => return Ok(Begun::Skipped(idle.to_string())),
    };
    let parts = Parts {
        client: means.client,
        nodes: means.nodes,
        routes: Slots::of(&means.cloud).context(Capability::Routes.missing())?,
        gate: means.gate,
        cluster: means.cluster,
        networks,
        events: means.events,
        clock: means.clock,
        metrics,
        queue_metrics: means.queue_metrics,
        worker_metrics: means.worker_metrics,
    };
    let controller = Controller::new(parts, told.settings.clone());
    let (stop, health) = (means.stop, means.health);
    Ok(Begun::Running(Box::pin(async move {
        controller.run(&stop, |workers| health.ask(workers)).await;
    })))
}
