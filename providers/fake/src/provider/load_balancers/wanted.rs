//! What a Service's balancer should be, and in what a balancer differs from it. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::net::IpAddr;

use cloud_provider::gcfg::GoDuration;
use cloud_provider::load_balancer::{Affinity, Annotation, AnnotationType, Family, Identity, Spec};
use cloud_provider::ownership::{CLUSTER_TAG, OWNER_TAG};
use cloud_provider::{Error, ProviderId};
use k8s_openapi::api::core::v1::Node;

use super::super::NAME;
use crate::objects::{Balancer, BalancerUpdate, Listener, Settings, Tags, family_of};

/// The key of the tag that names the Service, for people and for the report of orphans.
///
/// INVARIANT: written on cloud objects that outlive every release.
pub const SERVICE_TAG: &str = "nephos-service";

/// The annotation that sets after how long a silence a connection is ended.
///
/// INVARIANT: users' manifests carry it.
pub const IDLE_TIMEOUT_ANNOTATION: &str = "service.fake.cloud/idle-timeout";

pub(super) const ANNOTATIONS: &[Annotation] = &[Annotation {
    key: IDLE_TIMEOUT_ANNOTATION,
    type_: AnnotationType::Duration,
    default: "",
    about: "After how long a silence a connection is ended; never if it is absent.",
}];

/// What a Service's balancer should be.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wanted {
    pub(super) tags: Tags,
    pub(super) settings: Settings,
    pub(super) backends: BTreeSet<String>,
    families: BTreeSet<Family>,
    requested: Option<IpAddr>,
}

impl Wanted {
    pub(super) fn of(spec: &Spec) -> Result<Self, Error> {
        Ok(Self {
            tags: tags(&spec.identity),
            settings: settings(spec)?,
            backends: spec.nodes.iter().map(|node| backend(node)).collect(),
            families: spec.families.iter().copied().collect(),
            requested: spec.requested_address,
        })
    }

    /// Our tags over those that an object has: what others wrote there stays.
    pub(super) fn tags_over(&self, tags: &Tags) -> Tags {
        let mut all = tags.clone();
        all.extend(self.tags.clone());
        all
    }

    /// What to write to the balancer; nothing if it is as it should be.
    pub(super) fn update(&self, balancer: &Balancer, addresses: BTreeSet<String>) -> Option<BalancerUpdate> {
        let update = BalancerUpdate {
            tags: self.tags_over(&balancer.tags),
            addresses,
            settings: self.settings.clone(),
        };
        let now: BTreeSet<String> = balancer.addresses.keys().cloned().collect();
        let same =
            update.tags == balancer.tags && update.addresses == now && update.settings == balancer.settings;
        (!same).then_some(update)
    }

    /// In what the balancer differs, in words for an Event.
    pub(super) fn differences(&self, balancer: &Balancer) -> Vec<String> {
        let (is, should) = (&balancer.settings, &self.settings);
        let families: BTreeSet<Family> = balancer.addresses.values().map(|ip| family_of(*ip)).collect();
        let address = self.requested.filter(|asked| !balancer.addresses.values().any(|ip| ip == asked));
        [
            differs("listeners", &is.listeners, &should.listeners),
            differs("source ranges", &is.source_ranges, &should.source_ranges),
            differs("session affinity", &is.affinity_seconds, &should.affinity_seconds),
            differs("health check", &is.health_check, &should.health_check),
            differs("idle timeout", &is.idle_seconds, &should.idle_seconds),
            differs("backends", &balancer.backends, &self.backends),
            differs("address families", &families, &self.families),
            address.map(|asked| format!("it does not answer at {asked}")),
            differs("tags", &balancer.tags, &self.tags_over(&balancer.tags)),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// In a few words, for the plan and the log.
    pub(super) fn summary(&self) -> String {
        format!("{} ports, {} backends", self.settings.listeners.len(), self.backends.len())
    }
}

fn differs<T: PartialEq + Debug>(what: &str, is: &T, should: &T) -> Option<String> {
    (is != should).then(|| format!("{what}: {is:?} instead of {should:?}"))
}

fn tags(identity: &Identity) -> Tags {
    let mut tags: Tags = BTreeMap::from([
        (OWNER_TAG.to_owned(), identity.uid.clone()),
        (SERVICE_TAG.to_owned(), format!("{}/{}", identity.namespace, identity.name)),
    ]);
    if let Some(id) = identity.cluster.id() {
        tags.insert(CLUSTER_TAG.to_owned(), id.to_string());
    }
    tags
}

fn settings(spec: &Spec) -> Result<Settings, Error> {
    let mut listeners: Vec<Listener> =
        spec.ports.iter().map(|port| Listener::new(port.protocol, port.port, port.node_port)).collect();
    listeners.sort();
    let everybody = spec.source_ranges.allows_everybody();
    Ok(Settings {
        listeners,
        source_ranges: if everybody { BTreeSet::new() } else { spec.source_ranges.iter().copied().collect() },
        affinity_seconds: match spec.affinity {
            Affinity::None => None,
            Affinity::ClientIp(time) => Some(time.as_secs()),
        },
        health_check: spec.health_check.as_ref().map(|check| (check.path.clone(), check.port)),
        idle_seconds: idle_seconds(spec)?,
    })
}

fn idle_seconds(spec: &Spec) -> Result<Option<u64>, Error> {
    let Some(text) = spec.annotation(IDLE_TIMEOUT_ANNOTATION) else { return Ok(None) };
    let read = text.parse::<GoDuration>().ok().and_then(GoDuration::to_std);
    read.map(|time| Some(time.as_secs())).ok_or_else(|| {
        Error::invalid_config(format!(
            "reading {IDLE_TIMEOUT_ANNOTATION}: {text:?} is not a duration such as 30s"
        ))
    })
}

/// The ID of a node's instance; its name while it has none.
fn backend(node: &Node) -> String {
    node.spec
        .as_ref()
        .and_then(|spec| spec.provider_id.as_deref())
        .and_then(|id| id.parse::<ProviderId>().ok())
        .filter(|id| id.scheme() == NAME)
        .map(|id| id.rest().to_owned())
        .or_else(|| node.metadata.name.clone())
        .unwrap_or_default()
}
