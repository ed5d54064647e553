//! What stands between the provider and its cloud: a wrapper of the [`Api`] that a test can bend at any call, and that
//! lets an answer take its time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cloud_provider::Permit;
use provider_fake::objects::{
    Address, Balancer, BalancerUpdate, Disk, Machine, NewAddress, NewBalancer, NewDisk, NewRoute, RouteEntry,
    Tags,
};
use provider_fake::{Api, ApiError, Filter, Listed};
use testkit::conformance::stand_in::Fault;

use super::wire::Trouble;

type Answer<T> = Result<T, ApiError>;

/// Writes the trait of bends, in which each call passes through, and the wrapper that sends each call through one.
macro_rules! bendable {
    ($($call:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        /// A way to bend calls. Those that are not written pass through.
        #[async_trait]
        pub(crate) trait Bend: Send + Sync + 'static {
            $(
                #[allow(missing_docs)]
                async fn $call(&self, api: &dyn Api $(, $argument: $type)*) -> Answer<$answer> {
                    api.$call($($argument),*).await
                }
            )*
        }

        #[async_trait]
        impl Api for Between {
            $(
                async fn $call(&self $(, $argument: $type)*) -> Answer<$answer> {
                    let write = !(stringify!($call).starts_with("list_") || stringify!($call).starts_with("get_"));
                    if self.trouble.strikes(Fault::TimesOut, write) {
                        tokio::time::sleep(Self::DEADLINE).await;
                        return Err(ApiError::TimedOut);
                    }
                    let answer = self.bend.$call(&*self.api $(, $argument)*).await;
                    if !self.delay.is_zero() {
                        tokio::time::sleep(self.delay).await;
                    }
                    answer
                }
            )*
        }
    };
}

bendable! {
    list_instances(page: Option<&str>) -> Listed<Machine>;
    get_instance(id: &str) -> Machine;
    list_addresses(filter: &Filter, page: Option<&str>) -> Listed<Address>;
    get_address(id: &str) -> Address;
    create_address(new: &NewAddress, permit: &Permit) -> Address;
    tag_address(id: &str, tags: &Tags, permit: &Permit) -> Address;
    delete_address(id: &str, permit: &Permit) -> ();
    list_load_balancers(filter: &Filter, page: Option<&str>) -> Listed<Balancer>;
    get_load_balancer(id: &str) -> Balancer;
    create_load_balancer(new: &NewBalancer, permit: &Permit) -> Balancer;
    update_load_balancer(id: &str, update: &BalancerUpdate, permit: &Permit) -> Balancer;
    set_backends(id: &str, backends: &BTreeSet<String>, permit: &Permit) -> Balancer;
    delete_load_balancer(id: &str, permit: &Permit) -> ();
    list_routes(filter: &Filter, page: Option<&str>) -> Listed<RouteEntry>;
    create_route(new: &NewRoute, permit: &Permit) -> RouteEntry;
    delete_route(id: &str, permit: &Permit) -> ();
    list_volumes(filter: &Filter, page: Option<&str>) -> Listed<Disk>;
    get_volume(id: &str) -> Disk;
    create_volume(new: &NewDisk, permit: &Permit) -> Disk;
    resize_volume(id: &str, bytes: u64, permit: &Permit) -> Disk;
    attach_volume(id: &str, machine: &str, permit: &Permit) -> Disk;
    detach_volume(id: &str, machine: &str, permit: &Permit) -> Disk;
    delete_volume(id: &str, permit: &Permit) -> ();
    list_clusters() -> BTreeMap<String, String>;
    adopt(machines: &[Machine]) -> ();
}

/// Every call passes through.
pub(crate) struct Straight;

impl Bend for Straight {}

/// The API behind a bend.
pub(crate) struct Between {
    /// The cloud.
    pub(crate) api: Arc<dyn Api>,
    /// What happens on the way.
    pub(crate) bend: Arc<dyn Bend>,
    /// Which calls get no answer in time.
    pub(crate) trouble: Trouble,
    /// How long each answer takes after the cloud has acted.
    pub(crate) delay: Duration,
}

impl Between {
    /// How long a caller waits for an answer.
    const DEADLINE: Duration = Duration::from_secs(30);
}
