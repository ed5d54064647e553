//! What the process knows of the cluster: one watch per kind, shared by all controllers and by the provider's readers.
//! Only kinds that a running controller watches are watched, so that no right is needed for the others.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::context::{NodeReader, ServiceReader};
use controller_kit::cache::{Cache, Key, Scope, trim};
use controller_kit::lifecycle::Group;
use controller_kit::serve::health;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::Process;
use super::controllers::{Prepared, TABLE, Watched};

/// The caches; clones share them.
#[derive(Clone)]
pub(super) struct Caches {
    pub(super) nodes: Cache<Node>,
    pub(super) services: Cache<Service>,
    pub(super) slices: Cache<EndpointSlice>,
    checks: health::Checks,
}

impl Caches {
    /// Caches that are empty until [`Caches::group`] runs.
    pub(super) fn new(process: &Process) -> Self {
        let client = process.clients.named("shared-informers").build();
        let (random, metrics) = (&process.random, &process.families.cache);
        let kept = TABLE.iter().flat_map(|row| row.node_annotations).copied();
        Self {
            nodes: Cache::new(client.clone(), Scope::default(), trim::node(kept), random.clone(), metrics),
            services: Cache::new(client.clone(), Scope::default(), trim::service(), random.clone(), metrics),
            slices: Cache::new(client, Scope::default(), trim::endpoint_slice(), random.clone(), metrics),
            checks: process.checks.clone(),
        }
    }

    /// Fills those that these controllers watch. A cache that is not filled yet is a reason not to be ready, and no reason
    /// to wait: what cannot be listed today may be tomorrow, and controllers wait for their caches themselves. Only some
    /// Services need `endpoints`: without them the rest is served.
    pub(super) fn group(&self, controllers: &[Prepared], endpoints: bool) -> Group {
        let watched = |kind| controllers.iter().any(|controller| controller.row.watches.contains(&kind));
        let mut group = Group::new("caches", Duration::from_secs(1));
        if watched(Watched::Nodes) {
            group = self.filled(group, "nodes", &self.nodes);
        }
        if watched(Watched::Services) {
            group = self.filled(group, "services", &self.services);
        }
        if endpoints {
            group = filling(group, "endpointslices", &self.slices);
        }
        group
    }

    fn filled<K: controller_kit::cache::Object>(
        &self,
        group: Group,
        name: &'static str,
        cache: &Cache<K>,
    ) -> Group {
        let asked = cache.clone();
        self.checks.add(health::Scope::Ready, format!("cache-{name}"), move || {
            if asked.is_synced() { Ok(()) } else { Err(format!("{name} are not listed yet").into()) }
        });
        filling(group, name, cache)
    }
}

fn filling<K: controller_kit::cache::Object>(group: Group, name: &'static str, cache: &Cache<K>) -> Group {
    let cache = cache.clone();
    group.task(name, |task| async move {
        cache.run(&task.stop).await;
        Ok::<(), Infallible>(())
    })
}

/// The Nodes as a provider reads them.
pub(super) struct Nodes(pub(super) Cache<Node>);

impl NodeReader for Nodes {
    fn get(&self, name: &str) -> Option<Arc<Node>> {
        self.0.get(&Key::cluster(name))
    }

    fn list(&self) -> Vec<Arc<Node>> {
        self.0.list()
    }

    fn is_synced(&self) -> bool {
        self.0.is_synced()
    }
}

/// The Services as a provider reads them.
pub(super) struct Services(pub(super) Cache<Service>);

impl ServiceReader for Services {
    fn get(&self, namespace: &str, name: &str) -> Option<Arc<Service>> {
        self.0.get(&Key::namespaced(namespace, name))
    }

    fn list(&self) -> Vec<Arc<Service>> {
        self.0.list()
    }

    fn is_synced(&self) -> bool {
        self.0.is_synced()
    }
}
