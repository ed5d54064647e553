//! What tests stand on.
//!
//! Read in this order: [`builders`] say which objects there are; [`api_server`] is a Kubernetes API server in this
//! process and in virtual time, which misbehaves on demand and remembers everything; [`story`] tells what happens and
//! compares what came of it, on that server and on the real one. [`Awake`] is the clock for bounds of real time.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
//! use testkit::{ApiServer, Fault, Verb, When, node};
//!
//! let server = ApiServer::new(42);
//! server.create(&node("a").uninitialized().internal_ip("10.0.0.1").ready().build());
//! server.faults().once(When::verb(Verb::Patch).kind("Node").name("a"), Fault::LostAnswer);
//! // ... run a controller on server.client() ...
//! assert_eq!(server.requests().verb(Verb::Delete).count(), 0);
//! # });
//! ```

pub mod api_server;
mod awake;
pub mod builders;
pub mod conformance;
pub mod story;

pub use api_server::{
    ApiServer, EPOCH, Fault, Faults, Request, Requests, Stored, Trace, TransportError, Verb, When, Written,
};
pub use awake::Awake;
pub use builders::{
    config_map, lease, namespace, node, persistent_volume, service, service_account, storage_class,
};
