//! What stands around the provider: a wrapper of every slot that a flaw can twist at any method.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use cloud_provider::load_balancer::{Description, Identity, Observed, Owned, Spec};
use cloud_provider::{
    Changes, Cloud, ClusterIdentity, Clusters, Error, Existence, Freshness, Instances, LoadBalancers,
    NodeRef, Route, Routes, Snapshot, Volume, VolumeRequest, Volumes,
};
use k8s_openapi::api::core::v1::{LoadBalancerStatus, PersistentVolume, Service};

type Answer<T> = Result<T, Error>;
type Labels = Option<BTreeMap<String, String>>;

/// Writes the trait of twists, in which each method passes through, and the wrapper that sends each through one.
macro_rules! twistable {
    ($($slot:ident: $contract:ident { $($twist:ident = $method:ident($($argument:ident: $type:ty),*) -> $answer:ty;)* })*) => {
        /// A way to break promises. Methods that are not written keep them.
        #[async_trait]
        pub(crate) trait Twist: Send + Sync + 'static {
            fn describe(&self, inner: &dyn LoadBalancers) -> Description {
                inner.describe()
            }

            fn name(&self, inner: &dyn LoadBalancers, identity: &Identity) -> String {
                inner.name(identity)
            }

            $($(
                async fn $twist(&self, inner: &dyn $contract $(, $argument: $type)*) -> Answer<$answer> {
                    inner.$method($($argument),*).await
                }
            )*)*
        }

        twistable! { @implement $($slot: $contract { $($twist = $method($($argument: $type),*) -> $answer;)* })* }
    };
    (@implement $($slot:ident: $contract:ident { $($twist:ident = $method:ident($($argument:ident: $type:ty),*) -> $answer:ty;)* })*) => {
        $(twistable! { @slot $slot: $contract { $($twist = $method($($argument: $type),*) -> $answer;)* } })*
    };
    (@slot load_balancers: LoadBalancers { $($twist:ident = $method:ident($($argument:ident: $type:ty),*) -> $answer:ty;)* }) => {
        #[async_trait]
        impl LoadBalancers for Twisted<dyn LoadBalancers> {
            fn describe(&self) -> Description {
                self.twist.describe(&*self.inner)
            }

            fn name(&self, identity: &Identity) -> String {
                self.twist.name(&*self.inner, identity)
            }

            $(async fn $method(&self $(, $argument: $type)*) -> Answer<$answer> {
                self.twist.$twist(&*self.inner $(, $argument)*).await
            })*
        }
    };
    (@slot $slot:ident: $contract:ident { $($twist:ident = $method:ident($($argument:ident: $type:ty),*) -> $answer:ty;)* }) => {
        #[async_trait]
        impl $contract for Twisted<dyn $contract> {
            $(async fn $method(&self $(, $argument: $type)*) -> Answer<$answer> {
                self.twist.$twist(&*self.inner $(, $argument)*).await
            })*
        }
    };
}

twistable! {
    instances: Instances {
        lookup = lookup(nodes: &[NodeRef], freshness: Freshness) -> Vec<Existence>;
        list_instances = list() -> Option<Snapshot>;
    }
    load_balancers: LoadBalancers {
        get = get(spec: &Spec) -> Option<Observed>;
        ensure = ensure(spec: &Spec, changes: &Changes) -> LoadBalancerStatus;
        update_backends = update_backends(spec: &Spec, changes: &Changes) -> ();
        delete = delete(identity: &Identity, service: Option<&Service>, changes: &Changes) -> ();
        list_owned = list_owned(cluster: &ClusterIdentity) -> Vec<Owned>;
    }
    routes: Routes {
        list_routes = list(cluster: &ClusterIdentity) -> Vec<Route>;
        create_route = create(cluster: &ClusterIdentity, hint: &str, route: &Route, changes: &Changes) -> ();
        delete_route = delete(cluster: &ClusterIdentity, route: &Route, changes: &Changes) -> ();
    }
    volumes: Volumes {
        create_volume = create(request: &VolumeRequest, changes: &Changes) -> Volume;
        delete_volume = delete(id: &str, changes: &Changes) -> ();
        attach = attach(id: &str, node: &NodeRef, changes: &Changes) -> String;
        detach = detach(id: &str, node: &NodeRef, changes: &Changes) -> ();
        resize = resize(id: &str, bytes: u64, changes: &Changes) -> u64;
        get_volume = get(id: &str) -> Volume;
        list_volumes = list() -> Vec<Volume>;
        labels_for = labels_for(volume: &PersistentVolume) -> Labels;
    }
    clusters: Clusters {
        list_clusters = list() -> Vec<String>;
        address = control_plane_address(cluster: &str) -> String;
    }
}

struct Twisted<T: ?Sized> {
    inner: Arc<T>,
    twist: Arc<dyn Twist>,
}

/// The same cloud, with every slot behind the twist.
pub(crate) fn twisted(mut cloud: Cloud, twist: &Arc<dyn Twist>) -> Cloud {
    macro_rules! wrap {
        ($slot:ident) => {
            cloud.$slot = cloud.$slot.map(|inner| Arc::new(Twisted { inner, twist: Arc::clone(twist) }) as _);
        };
    }
    wrap!(instances);
    wrap!(load_balancers);
    wrap!(routes);
    wrap!(volumes);
    wrap!(clusters);
    cloud
}
