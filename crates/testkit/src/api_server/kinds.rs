//! The table of the kinds that the server stores. Adding one is one line here; rules that are special to a kind
//! (defaults, validation) live in `admission` and `validation`.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Event, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, Secret, Service,
    ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::storage::v1::{StorageClass, VolumeAttachment};
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What the server knows about a kind.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each read on its own")]
pub(crate) struct Kind {
    /// The API group; empty for the core group.
    pub(crate) group: &'static str,
    /// The version within the group.
    pub(crate) version: &'static str,
    /// Such as `Node`.
    #[expect(clippy::struct_field_names, reason = "what Kubernetes calls it")]
    pub(crate) kind: &'static str,
    /// Such as `nodes`.
    pub(crate) plural: &'static str,
    /// Whether objects live in namespaces.
    pub(crate) namespaced: bool,
    /// How the status subresource behaves, where there is one.
    pub(crate) status: Option<StatusSubresource>,
    /// Whether DELETE answers the object instead of a `Status`.
    pub(crate) delete_answers_object: bool,
    /// Whether PUT of an absent object creates it.
    pub(crate) create_on_update: bool,
    /// Whether PUT without a `resourceVersion` is accepted.
    pub(crate) unconditional_update: bool,
    /// Fields, beyond name and namespace, that field selectors may name.
    pub(crate) selectable: &'static [&'static str],
    /// Parses and prints the object as its type does: unknown fields are dropped, wrong types refused.
    pub(crate) typed: fn(Value) -> Result<Value, serde_json::Error>,
}

/// What a write to the status subresource may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatusSubresource {
    /// The status and the metadata: labels, annotations and finalizers pass.
    WithMetadata,
    /// The status alone.
    Alone,
}

/// Where objects of a kind live, as a constant.
pub trait Scoped {
    /// Whether they live in namespaces.
    const NAMESPACED: bool;
}

impl Scoped for NamespaceResourceScope {
    const NAMESPACED: bool = true;
}

impl Scoped for ClusterResourceScope {
    const NAMESPACED: bool = false;
}

impl Kind {
    const fn of<K>() -> Self
    where
        K: Resource + Serialize + DeserializeOwned,
        K::Scope: Scoped,
    {
        Self {
            group: K::GROUP,
            version: K::VERSION,
            kind: K::KIND,
            plural: K::URL_PATH_SEGMENT,
            namespaced: <K::Scope as Scoped>::NAMESPACED,
            status: None,
            delete_answers_object: false,
            create_on_update: false,
            unconditional_update: true,
            selectable: &[],
            typed: round_trip::<K>,
        }
    }

    const fn status(mut self, status: StatusSubresource) -> Self {
        self.status = Some(status);
        self
    }

    const fn answers_deleted_object(mut self) -> Self {
        self.delete_answers_object = true;
        self
    }

    const fn creates_on_update(mut self) -> Self {
        self.create_on_update = true;
        self
    }

    const fn needs_version_to_update(mut self) -> Self {
        self.unconditional_update = false;
        self
    }

    const fn selectable(mut self, fields: &'static [&'static str]) -> Self {
        self.selectable = fields;
        self
    }

    /// `v1` or `coordination.k8s.io/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Where the real server keeps objects of the kind; some of its messages show it.
    pub(crate) fn storage_path(&self) -> &'static str {
        match self.kind {
            "Node" => "minions",
            "Service" => "services/specs",
            _ => self.plural,
        }
    }

    /// `nodes` or `leases.coordination.k8s.io`, as messages name a resource.
    pub(crate) fn group_resource(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }
}

fn round_trip<K: Serialize + DeserializeOwned>(value: Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(serde_json::from_value::<K>(value)?)
}

/// The place of a kind in [`KINDS`].
pub(crate) type KindId = usize;

/// Every kind that the server stores.
pub(crate) const KINDS: &[Kind] = &[
    Kind::of::<Namespace>()
        .status(StatusSubresource::WithMetadata)
        .answers_deleted_object()
        .selectable(&["status.phase"]),
    Kind::of::<Node>().status(StatusSubresource::WithMetadata).selectable(&["spec.unschedulable"]),
    Kind::of::<Service>()
        .status(StatusSubresource::WithMetadata)
        .answers_deleted_object()
        .creates_on_update()
        .selectable(&["spec.clusterIP", "spec.type"]),
    Kind::of::<Lease>().creates_on_update().needs_version_to_update(),
    Kind::of::<Event>().creates_on_update().selectable(&[
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ]),
    Kind::of::<PersistentVolume>().status(StatusSubresource::WithMetadata).answers_deleted_object(),
    Kind::of::<PersistentVolumeClaim>().status(StatusSubresource::WithMetadata).answers_deleted_object(),
    Kind::of::<StorageClass>().answers_deleted_object(),
    Kind::of::<VolumeAttachment>()
        .status(StatusSubresource::Alone)
        .answers_deleted_object()
        .needs_version_to_update(),
    Kind::of::<ConfigMap>(),
    Kind::of::<Secret>().selectable(&["type"]),
    Kind::of::<EndpointSlice>(),
    Kind::of::<ServiceAccount>().answers_deleted_object(),
    Kind::of::<Pod>().status(StatusSubresource::WithMetadata).answers_deleted_object().selectable(&[
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ]),
];

/// The kind served at this group, version and plural.
pub(crate) fn at(group: &str, version: &str, plural: &str) -> Option<KindId> {
    KINDS.iter().position(|k| k.group == group && k.version == version && k.plural == plural)
}

/// The kind of this name, such as `Node`.
pub(crate) fn named(kind: &str) -> Option<KindId> {
    KINDS.iter().position(|k| k.kind == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_at_its_path_and_by_its_name() {
        for (id, kind) in KINDS.iter().enumerate() {
            assert_eq!(at(kind.group, kind.version, kind.plural), Some(id));
            assert_eq!(named(kind.kind), Some(id));
        }
    }
}
