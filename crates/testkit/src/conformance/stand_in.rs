//! What stands in for a cloud: how to build the provider against it, a back door that needs no provider, faults on
//! demand, and counters. Only a few methods are required; every other says `Unsupported` until it is written, and the
//! checks that need it are then skipped, visibly.

use std::time::Duration;

use async_trait::async_trait;
use cloud_provider::load_balancer::Spec;
use cloud_provider::{Cloud, CloudConfig, Context, Error};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::PersistentVolume;
use serde::{Deserialize, Serialize};

use super::Time;

mod contents;
mod fault;
mod instance;

pub(crate) use contents::listed;
pub use contents::{Balancer, Contents, Detail, Object, Route, Volume};
pub use fault::{Aim, Calls, Fault};
pub use instance::{Instance, Seed};

/// A stand-in does not have this control; the text says why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported(pub String);

/// What a control answers.
pub type Control<T> = Result<T, Unsupported>;

/// How many calls reached the cloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Count {
    /// Calls that only read.
    pub reads: u64,
    /// Calls that may change something, refused ones included.
    pub writes: u64,
}

/// How a cloud behaves while it is well. The default answers at once and shows everything at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Manners {
    /// Each call takes this long before the cloud acts, and this long again before the answer arrives.
    pub latency: Duration,
    /// A new balancer is under construction for this long.
    pub construction: Duration,
    /// Lists do not show what was made less than this long ago.
    pub lag: Duration,
}

/// Something foreign, to be planted in the cloud: another cluster's, or nobody's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Foreign {
    /// A balancer of this name, tagged for this cluster; untagged without one.
    Balancer {
        /// Its name in the cloud.
        name: String,
        /// The identity in its tag.
        cluster: Option<String>,
    },
    /// A route that no rule makes ours.
    Route {
        /// Where it leads.
        destination: IpNet,
        /// The identity in its tag, where the cloud tags routes.
        cluster: Option<String>,
    },
    /// A volume of this name, tagged for this cluster; untagged without one.
    Volume {
        /// Its name in the cloud.
        name: String,
        /// The identity in its tag.
        cluster: Option<String>,
    },
}

/// A balancer as a Go manager left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoMade {
    /// The cloud's ID of the balancer.
    pub id: String,
    /// The address it answers at, as it stands in the Service's status.
    pub address: String,
}

/// A stand-in for one provider's cloud.
///
/// The suite makes a runtime for each check (see [`StandIn::time`]) and calls [`StandIn::reset`] on it first: a stand-in
/// that needs a server or a task starts it there.
#[async_trait]
pub trait StandIn: Send + Sync + 'static {
    /// The provider's name: the scheme of its provider IDs.
    fn provider(&self) -> &str;

    /// What this stand-in is, for the report: "in the process", "moto 5.1".
    fn title(&self) -> String;

    /// How time passes.
    fn time(&self) -> Time;

    /// An empty cloud of these manners, without faults; counters at zero. The default manners are always possible.
    async fn reset(&self, manners: Manners) -> Control<()>;

    /// Builds the provider against this stand-in. The context is complete but for what only the stand-in knows (its
    /// transport, say).
    async fn build(&self, context: Context) -> Result<Cloud, Error>;

    /// How many calls reached the cloud since the reset. The back door does not count.
    async fn calls(&self) -> Count;

    /// Everything in the cloud that a manager could have made, as plain data.
    async fn contents(&self) -> Control<Contents> {
        unsupported("cannot show what is in the cloud")
    }

    /// A config that the provider accepts; `None` if it needs none.
    fn config(&self) -> Option<CloudConfig> {
        None
    }

    /// A config that the provider must refuse.
    fn broken_config(&self) -> Control<CloudConfig> {
        unsupported("has no broken config")
    }

    /// An annotation, and a value that makes a visible difference in [`StandIn::contents`].
    fn annotation(&self) -> Control<(String, String)> {
        unsupported("names no annotation to try")
    }

    /// The networks out of which pods get their addresses, one per family that routes may have.
    fn pod_networks(&self) -> Vec<IpNet> {
        vec![IpNet::V4(ipnet::Ipv4Net::new_assert(std::net::Ipv4Addr::new(10, 244, 0, 0), 16))]
    }

    /// A PV that names the volume of this ID.
    fn persistent_volume(&self, _volume: &str) -> Control<PersistentVolume> {
        unsupported("has no shape for a PV")
    }

    /// How many instances one page of a list holds.
    fn page_size(&self) -> Control<usize> {
        unsupported("does not say how long its pages are")
    }

    /// Makes an instance, as a person with the cloud's console would.
    async fn start_instance(&self, _seed: &Seed) -> Control<Instance> {
        unsupported("cannot make instances")
    }

    /// Shuts an instance down.
    async fn stop_instance(&self, _instance: &Instance) -> Control<()> {
        unsupported("cannot stop instances")
    }

    /// Ends an instance for good.
    async fn delete_instance(&self, _instance: &Instance) -> Control<()> {
        unsupported("cannot delete instances")
    }

    /// Makes something foreign and tells its ID.
    async fn plant(&self, _foreign: &Foreign) -> Control<String> {
        unsupported("cannot plant foreign objects")
    }

    /// Makes the balancer that the Go manager of this cloud would have made for this Service, with its backends and
    /// without any tag of ours.
    async fn plant_go_made(&self, _spec: &Spec) -> Control<GoMade> {
        unsupported("does not know what a Go manager leaves")
    }

    /// Removes an object, as a person with the cloud's console would.
    async fn remove(&self, _object: &str) -> Control<()> {
        unsupported("cannot remove objects by hand")
    }

    /// Changes something about a balancer that `ensure` sets, as a person with the cloud's console would.
    async fn tamper(&self, _balancer: &str) -> Control<()> {
        unsupported("cannot change a balancer by hand")
    }

    /// Makes a listed route a black hole, as happens when its target goes away.
    async fn blackhole(&self, _destination: IpNet) -> Control<()> {
        unsupported("has no black holes")
    }

    /// From now on these calls fail like this.
    async fn inject(&self, fault: Fault, _aim: Aim) -> Control<()> {
        unsupported(&format!("cannot inject the fault {fault:?}"))
    }

    /// Ends every fault.
    async fn heal(&self) {}

    /// Completes when no call is under way any more. A cancelled call may still be travelling through a socket.
    async fn settle(&self) {}
}

/// The answer of a control that is not there.
pub fn unsupported<T>(why: &str) -> Control<T> {
    Err(Unsupported(format!("the stand-in {why}")))
}
