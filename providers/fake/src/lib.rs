//! The cloud that misbehaves on demand: in the process or over HTTP.
//!
//! Read it in this order:
//!
//! 1. [`objects`]: what the cloud has. [`api`]: what a client can call, and what can come back.
//! 2. [`config`] and [`fault`]: how it behaves, and how it misbehaves.
//! 3. [`world`]: the cloud itself. It watches its clients and remembers each rule that one of them breaks; its back door
//!    is for tests.
//! 4. [`provider`]: the contract over the [`Api`], as an example of a provider.
//! 5. [`remote`], [`server`], [`transport`], [`clock`]: the same cloud as a process of its own, `fake-cloud`.
//!
//! ```
//! use std::sync::Arc;
//! use cloud_provider::{Context, Existence, Freshness, NodeRef};
//! use provider_fake::{Config, Effect, Fault, World};
//!
//! # futures::executor::block_on(async {
//! let context = Context::inert();
//! let world = World::new(Config::default(), Arc::clone(&context.clock));
//! let cloud = world.cloud(&context);
//! let node = NodeRef { name: "a".into(), ..NodeRef::default() };
//! let instances = cloud.instances.expect("the fake cloud has instances");
//!
//! // Every Node is adopted as an instance …
//! let answers = instances.lookup(std::slice::from_ref(&node), Freshness::Now).await?;
//! assert!(matches!(&answers[0], Existence::Found(found) if found.provider_id.as_ref().unwrap().as_str() == "fake://a"));
//!
//! // … until the cloud breaks.
//! world.inject(Fault::once("list_instances", Effect::Fail)).expect("a fault that can happen");
//! assert!(instances.lookup(&[node], Freshness::Now).await.is_err());
//! assert_eq!(world.counters().reads, 2);
//! # Ok::<(), cloud_provider::Error>(())
//! # })?;
//! # Ok::<(), cloud_provider::Error>(())
//! ```

pub mod api;
pub mod clock;
pub mod config;
pub mod fault;
pub mod objects;
pub mod provider;
pub mod remote;
pub mod server;
mod spell;
pub mod transport;
mod wire;
pub mod world;

pub use api::{Api, ApiError, Filter, Listed, Operation};
pub use config::Config;
pub use fault::{Effect, Fault};
pub use provider::{NAME, PROVIDER, ProviderSettings, cloud_over};
pub use remote::Remote;
pub use world::{Contents, Counters, Rule, World};
