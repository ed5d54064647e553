//! The contract between Nephos and a cloud: all that a provider author reads.
//!
//! # What to write for a new cloud
//!
//! 1. A [`Provider`]: a name (the scheme of your provider IDs and the value of `--cloud-provider`) and a function that
//!    [builds](Provider::build) your [`Cloud`] from a [`Context`]. The context is all that you may ask of the
//!    framework: your config file, the cluster's identity, Nodes and Services, Events, HTTP, time, metrics.
//! 2. What your cloud can do, one trait a slot. Leave a slot empty and Nephos behaves as if the capability did not exist,
//!    and says so:
//!
//!    | slot | trait | who asks |
//!    |---|---|---|
//!    | [`Cloud::instances`] | [`Instances`]: one bulk look-up | the node and node lifecycle controllers |
//!    | [`Cloud::load_balancers`] | [`LoadBalancers`]: get, ensure, update, delete, list | the service controller |
//!    | [`Cloud::routes`] | [`Routes`]: list, create, delete | the route controller |
//!    | [`Cloud::volumes`] | [`Volumes`]: create, attach, resize, labels | the volume controller and the webhooks |
//!    | [`Cloud::clusters`] | [`Clusters`]: list, address | tools |
//!
//!    Coming from Go, with `Instances` and `Zones` at hand? [`legacy`] takes them method by method.
//! 3. A `main.rs` of five lines that hands your provider to the manager.
//!
//! # The four promises
//!
//! * **Existence has four answers** ([`Existence`]). An error, a short list, an empty inventory is
//!   [`Existence::Unknown`]; only [`Existence::Absent`], which asks for [`Evidence`], can cost a Node its life. If you
//!   list all instances anyway, a [`Snapshot`] keeps these rules for you.
//! * **Every change passes the gate** ([`Changes`]). Describe it as a [`Change`], make it inside [`Changes::make`]. Dry runs,
//!   fencing, the decision log and the counts come from there; you write none of them.
//! * **Nothing is touched that is not provably ours** ([`Proof`]). An update or a delete cannot even be described without
//!   a proof of ownership.
//! * **An error is a decision for the caller** ([`Decision`]): come back later, slow down, ask a person. It is found
//!   through any wrapping.
//!
//! What you need not write: retries, rate limits, deadlines around your calls, call metrics, leader election, caches.
//!
//! # A complete small provider
//!
//! A cloud of two machines in a config file. It reads the file in [`gcfg`] syntax, answers for the Nodes, and can do
//! nothing else.
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::sync::Arc;
//!
//! use async_trait::async_trait;
//! use cloud_provider::{
//!     Cloud, Context, Error, Existence, Freshness, Instance, Instances, NodeRef, Provider, ProviderId, Snapshot, gcfg,
//! };
//!
//! /// What `cloud.conf` holds.
//! #[derive(serde::Deserialize)]
//! struct Config {
//!     #[serde(default)]
//!     machine: BTreeMap<String, Machine>,
//! }
//!
//! #[derive(serde::Deserialize)]
//! struct Machine {
//!     address: String,
//!     zone: String,
//! }
//!
//! const NAME: &str = "shelf";
//!
//! pub const PROVIDER: Provider =
//!     Provider::new(NAME, "machines on a shelf, listed in a file", |context| Box::pin(build(context)));
//!
//! async fn build(context: Context) -> Result<Cloud, Error> {
//!     let Some(file) = &context.config else {
//!         return Err(Error::invalid_config("no --cloud-config was given: the shelf's machines stand there"));
//!     };
//!     let read = gcfg::read::<Config>(&file.path().display().to_string(), file.bytes())
//!         .map_err(|errors| Error::invalid_config("reading the list of machines").because(errors))?;
//!     let mut seen = Snapshot::new(NAME);
//!     for (name, machine) in read.config.machine {
//!         let id = ProviderId::new(NAME, &name)
//!             .map_err(|error| Error::invalid_config("naming a machine").because(error))?;
//!         let instance = Instance::new(id).address("InternalIP", machine.address).located(machine.zone, "home");
//!         seen.insert(instance, [name]);
//!     }
//!     Ok(Cloud::new(NAME).with_instances(Arc::new(Shelf { seen })))
//! }
//!
//! struct Shelf {
//!     seen: Snapshot,
//! }
//!
//! #[async_trait]
//! impl Instances for Shelf {
//!     async fn lookup(&self, nodes: &[NodeRef], _: Freshness) -> Result<Vec<Existence>, Error> {
//!         Ok(self.seen.answers(nodes))
//!     }
//! }
//!
//! # use cloud_provider::CloudConfig;
//! # futures::executor::block_on(async {
//! let config = CloudConfig::from_bytes("cloud.conf", "[machine \"a\"]\naddress = 192.0.2.1\nzone = top\n");
//! let cloud = (PROVIDER.build)(Context::inert().with_config(Some(config))).await?;
//! let nodes = ["a", "b"].map(|name| NodeRef { name: name.to_owned(), ..NodeRef::default() });
//! let answers = cloud.instances.expect("declared above").lookup(&nodes, Freshness::Now).await?;
//! assert!(matches!(&answers[0], Existence::Found(a) if a.zone.as_deref() == Some("top")));
//! assert!(matches!(&answers[1], Existence::Absent(_)));
//! # Ok::<(), Error>(())
//! # })?;
//! # Ok::<(), Error>(())
//! ```
//!
//! # The rest of the house
//!
//! [`well_known`] has the names that all of Kubernetes agrees on, [`registry`] the list of providers that a binary knows,
//! [`config`] the config file with its reload, [`ownership`] the tags that we write. The conformance suite in the
//! `testkit` crate holds a provider to every promise on this page.

pub mod changes;
pub mod cloud;
pub mod cluster;
pub mod clusters;
pub mod config;
pub mod context;
pub mod error;
pub mod gcfg;
pub mod instances;
pub mod legacy;
pub mod load_balancer;
pub mod nearest;
pub mod ownership;
pub mod provider;
pub mod provider_id;
pub mod registry;
pub mod routes;
pub mod volumes;
pub mod well_known;

pub use changes::{Change, Changes, Gate, Outcome, Permit, Refusal, Verb};
pub use cloud::{Capability, Cloud, ClusterIdKnowledge};
pub use cluster::{ClusterId, ClusterIdentity};
pub use clusters::Clusters;
pub use config::{CloudConfig, ConfigFile};
pub use context::Context;
pub use error::{Decision, Error};
pub use instances::{Doubt, Evidence, Existence, Freshness, Instance, Instances, NodeRef, Power, Snapshot};
pub use load_balancer::LoadBalancers;
pub use ownership::Proof;
pub use provider::{Command, Provider};
pub use provider_id::ProviderId;
pub use registry::{Registry, RegistryError};
pub use routes::{Route, Routes};
pub use volumes::{Volume, VolumeRequest, Volumes};
