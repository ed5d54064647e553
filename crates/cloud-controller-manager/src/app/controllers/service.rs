//! The service controller, as the manager begins it.

use cloud_controllers::service::{self, Balancers, Controller, Metrics, Parts};
use cloud_provider::Capability;
use cloud_provider::well_known::service_accounts;

use super::{Begun, Means, Row, Watched};

pub(super) const ROW: Row = Row {
    name: service::NAME,
    aliases: &["service"],
    running_name: service::RUNNING_NAME,
    client: service_accounts::SERVICE_CONTROLLER,
    needs: Some(Capability::LoadBalancers),
    watches: &[Watched::Nodes, Watched::Services],
    node_annotations: &[],
    prepare: |registry| {
        let metrics = Metrics::register(registry);
        Box::new(|means| begin(means, metrics))
    },
};

fn begin(means: Means, metrics: Metrics) -> anyhow::Result<Begun> {
    let parts = Parts {
        client: means.client,
        services: means.services,
        nodes: means.nodes,
        balancers: Balancers::of(&means.cloud)?,
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
