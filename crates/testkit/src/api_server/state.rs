//! What a running server holds: the store, the allocations and the source of its randomness.

use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use serde_json::Value;

use super::kinds::{self, KINDS, KindId};
use super::schema;
use super::store::{Key, Store};

const NAME_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const FIRST_NODE_PORT: u16 = 30_000;
const LAST_NODE_PORT: u16 = 32_767;

/// The state behind the lock.
#[derive(Debug)]
pub(crate) struct State {
    /// Objects and history.
    pub(crate) store: Store,
    /// Drives UIDs, generated names and ports; faults draw from a stream of their own, so that adding a fault does
    /// not change an object.
    random: SmallRng,
}

impl State {
    /// An empty state whose identifiers come from the seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self { store: Store::new(), random: SmallRng::seed_from_u64(seed ^ 0x6e65_7068_6f73) }
    }

    /// A UID.
    pub(crate) fn uid(&mut self) -> String {
        let mut bytes = [0; 16];
        self.random.fill_bytes(&mut bytes);
        uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
    }

    /// A whole number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.random.random_range(0..bound)
    }

    /// The five characters after a `generateName`.
    pub(crate) fn name_suffix(&mut self) -> String {
        (0..5).map(|_| char::from(NAME_ALPHABET[self.random.random_range(0..NAME_ALPHABET.len())])).collect()
    }

    /// A node port that no Service uses, or `None` when all are taken.
    pub(crate) fn node_port(&mut self, also_taken: &[u64]) -> Option<u16> {
        let mut taken: Vec<u64> = also_taken.to_vec();
        for service in self.services() {
            let ports = service["spec"]["ports"].as_array().into_iter().flatten();
            taken.extend(ports.filter_map(|port| port["nodePort"].as_u64()));
            taken.extend(service["spec"]["healthCheckNodePort"].as_u64());
        }
        let free = |port: &u16| !taken.contains(&u64::from(*port));
        let start = self.random.random_range(FIRST_NODE_PORT..=LAST_NODE_PORT);
        (start..=LAST_NODE_PORT).chain(FIRST_NODE_PORT..start).find(free)
    }

    /// A cluster IP that no Service uses.
    pub(crate) fn cluster_ip(&mut self) -> String {
        loop {
            let [high, low] = self.random.random_range(256_u16..65_000).to_be_bytes();
            let ip = format!("10.96.{high}.{low}");
            if !self.services().any(|service| schema::text(service, &["spec", "clusterIP"]) == ip) {
                return ip;
            }
        }
    }

    fn services(&self) -> impl Iterator<Item = &Value> {
        kinds::named("Service").into_iter().flat_map(|id| self.store.objects(id).values().map(AsRef::as_ref))
    }

    /// The namespace object.
    pub(crate) fn namespace(&self, name: &str) -> Option<&Value> {
        let kind = kinds::named("Namespace")?;
        self.store.get(kind, &Key::new("", name)).map(AsRef::as_ref)
    }

    /// The default storage class, where one is marked.
    pub(crate) fn default_storage_class(&self) -> Option<String> {
        let kind = kinds::named("StorageClass")?;
        let marked = |class: &&std::sync::Arc<Value>| {
            class["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"] == "true"
        };
        let class = self.store.objects(kind).values().find(marked)?;
        Some(schema::text(class, &["metadata", "name"]).to_owned())
    }

    /// The object, by its kind, namespace and name.
    pub(crate) fn find(&self, kind: KindId, namespace: &str, name: &str) -> Option<&std::sync::Arc<Value>> {
        let namespace = if KINDS[kind].namespaced { namespace } else { "" };
        self.store.get(kind, &Key::new(namespace, name))
    }
}
