//! The node controller, as the manager begins it.

use std::sync::Arc;

use anyhow::Context as _;
use cloud_controllers::node::{self, Controller, Metrics, Parts};
use cloud_provider::Capability;
use cloud_provider::well_known::service_accounts;

use super::{Begun, Means, Row, Watched};

pub(super) const ROW: Row = Row {
    name: node::NAME,
    aliases: &["cloud-node"],
    running_name: node::RUNNING_NAME,
    client: service_accounts::NODE_CONTROLLER,
    needs: Some(Capability::Instances),
    watches: &[Watched::Nodes],
    node_annotations: &node::ANNOTATIONS,
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
