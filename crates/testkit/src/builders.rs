//! Objects in the words of a test: `node("a").uninitialized().internal_ip("10.0.0.1").ready()`. Builders turn into
//! k8s-openapi types with `build()` or `into()`, and fill in nothing that was not said.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

mod node;
mod objects;
mod service;

pub use node::{NodeBuilder, node};
pub use objects::{
    LeaseBuilder, VolumeBuilder, config_map, lease, namespace, persistent_volume, service_account,
    storage_class,
};
pub use service::{ServiceBuilder, service};

/// Metadata that every builder can say something about.
fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

/// Adds an entry to an optional map.
fn insert(map: &mut Option<std::collections::BTreeMap<String, String>>, key: &str, value: &str) {
    map.get_or_insert_default().insert(key.to_owned(), value.to_owned());
}

/// The sentences about metadata, for a builder with a `metadata()` accessor.
macro_rules! metadata_sentences {
    () => {
        /// With this label.
        #[must_use]
        pub fn label(mut self, key: &str, value: &str) -> Self {
            super::insert(&mut self.0.metadata.labels, key, value);
            self
        }

        /// With this annotation.
        #[must_use]
        pub fn annotation(mut self, key: &str, value: &str) -> Self {
            super::insert(&mut self.0.metadata.annotations, key, value);
            self
        }

        /// Held by this finalizer.
        #[must_use]
        pub fn finalizer(mut self, finalizer: &str) -> Self {
            self.0.metadata.finalizers.get_or_insert_default().push(finalizer.to_owned());
            self
        }

        /// With this UID, where no server assigns one.
        #[must_use]
        pub fn uid(mut self, uid: &str) -> Self {
            self.0.metadata.uid = Some(uid.to_owned());
            self
        }
    };
}
use metadata_sentences;

/// Turns a builder into its object.
macro_rules! builds {
    ($builder:ty => $object:ty) => {
        impl $builder {
            /// The object.
            pub fn build(self) -> $object {
                self.0
            }
        }

        impl From<$builder> for $object {
            fn from(builder: $builder) -> Self {
                builder.build()
            }
        }
    };
}
use builds;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_node_is_what_its_sentence_says() {
        let node = node("a")
            .uninitialized()
            .internal_ip("10.0.0.1")
            .provider_id("fake://a")
            .label("zone", "z")
            .ready()
            .build();
        let expected = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "a", "labels": {"zone": "z"}},
            "spec": {
                "providerID": "fake://a",
                "taints": [{
                    "key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule",
                }],
            },
            "status": {
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            },
        });
        assert_eq!(serde_json::to_value(node).unwrap(), expected);
    }

    #[test]
    fn saying_the_opposite_replaces_what_was_said() {
        let node = node("a").ready().not_ready().build();
        let conditions = node.status.unwrap().conditions.unwrap();
        assert_eq!(conditions.len(), 1);
        assert_eq!(conditions[0].status, "False");
    }

    #[test]
    fn a_service_is_what_its_sentence_says() {
        let service =
            service("web").namespace("shop").load_balancer().port(80).named_port("tls", 443).build();
        let expected = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80}, {"name": "tls", "port": 443}]},
        });
        assert_eq!(serde_json::to_value(service).unwrap(), expected);
    }
}
