//! Which cluster this is: the UID of its `kube-system` namespace, where we may read it.

use cloud_provider::well_known::leases;
use cloud_provider::{ClusterId, ClusterIdentity};
use controller_kit::log::report;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;

/// Reads the identity. Without the right to read it, only the name is known, and nothing can be proved ours by tag.
pub(super) async fn identify(client: &kube::Client, name: &str) -> ClusterIdentity {
    match Api::<Namespace>::all(client.clone()).get(leases::NAMESPACE).await {
        Ok(Namespace { metadata, .. }) => match metadata.uid {
            Some(uid) => ClusterIdentity::new(name, ClusterId::NamespaceUid(uid)),
            None => ClusterIdentity::unidentified(name),
        },
        Err(error) => {
            tracing::warn!(
                why = %report(&error),
                "Cannot read the UID of namespace kube-system: cloud objects cannot be told from other clusters' by tag. \
                 Allow get on that namespace"
            );
            ClusterIdentity::unidentified(name)
        }
    }
}
