//! The service controller, as the manager begins it.

use cloud_controllers::service::{self, Balancers, Controller, Metrics, Parts};
use cloud_provider::Capability;
use cloud_provider::well_known::event_reasons::{
    DELETE_LOAD_BALANCER_FAILED, DELETED_LOAD_BALANCER, DELETING_LOAD_BALANCER, ENSURED_LOAD_BALANCER,
    ENSURING_LOAD_BALANCER, SYNC_LOAD_BALANCER_FAILED, UNAVAILABLE_LOAD_BALANCER,
    UPDATE_LOAD_BALANCER_FAILED, UPDATED_LOAD_BALANCER,
};
use cloud_provider::well_known::service_accounts;

use super::{Begun, EventKind, Means, Row, Watched};
use crate::rbac::Right;

pub(super) const ROW: Row = Row {
    name: service::NAME,
    aliases: &["service"],
    running_name: service::RUNNING_NAME,
    client: service_accounts::SERVICE_CONTROLLER,
    needs: Some(Capability::LoadBalancers),
    watches: &[Watched::Nodes, Watched::Services],
    node_annotations: &[],
    rights: &[
        Right::needed("", "services", &["get", "list"]),
        Right::needed("", "services/status", &["patch"]),
    ],
    events: EVENTS,
    prepare: |registry| {
        let metrics = Metrics::register(registry);
        Box::new(|means| begin(means, metrics))
    },
};

const EVENTS: &[EventKind] = &[
    EventKind::normal(ENSURING_LOAD_BALANCER, "Service", "a load balancer is about to be made or changed"),
    EventKind::normal(ENSURED_LOAD_BALANCER, "Service", "a load balancer is as its service asks"),
    EventKind::normal(UPDATED_LOAD_BALANCER, "Service", "a load balancer has other nodes behind it"),
    EventKind::normal(DELETING_LOAD_BALANCER, "Service", "a load balancer is about to be removed"),
    EventKind::normal(DELETED_LOAD_BALANCER, "Service", "a load balancer is removed"),
    EventKind::normal(service::PENDING_REASON, "Service", "the cloud asks to come back for a load balancer"),
    EventKind::warning(UNAVAILABLE_LOAD_BALANCER, "Service", "no node may be behind a load balancer"),
    EventKind::warning(SYNC_LOAD_BALANCER_FAILED, "Service", "a load balancer could not be made or changed"),
    EventKind::warning(
        UPDATE_LOAD_BALANCER_FAILED,
        "Service",
        "the nodes behind a load balancer could not be changed",
    ),
    EventKind::warning(DELETE_LOAD_BALANCER_FAILED, "Service", "a load balancer could not be removed"),
    EventKind::warning(
        service::UNSUPPORTED_REASON,
        "Service",
        "a service asks for what the cloud does not have",
    ),
    EventKind::warning(service::DRIFT_REASON, "Service", "somebody changed a load balancer in the cloud"),
];

fn begin(means: Means, metrics: Metrics) -> anyhow::Result<Begun> {
    let balancers = Balancers::of(&means.cloud)?;
    let parts = Parts {
        client: means.client,
        services: means.services,
        nodes: means.nodes,
        slices: balancers.create.describe().endpoints.then_some(means.slices),
        balancers,
        gate: means.gate,
        cluster: means.cluster,
        events: means.events,
        clock: means.clock,
        metrics,
        queue_metrics: means.queue_metrics,
        worker_metrics: means.worker_metrics,
    };
    let controller = Controller::new(parts, means.config.service.clone());
    let (stop, health) = (means.stop, means.health);
    Ok(Begun::Running(Box::pin(async move {
        controller.run(&stop, |workers| health.ask(workers)).await;
    })))
}
