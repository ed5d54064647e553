//! The secure port: health, metrics and a look inside, over TLS, for those who may.
//!
//! Read in this order: [`options`] (what the flags say), [`tls`] (certificates, versions, ciphers), [`server`] (how
//! connections are accepted and kept within limits), [`auth`] (who may see what), [`health`] (what the probes ask),
//! [`site`] (the paths and what they show).

pub mod answer;
pub mod auth;
mod connection;
mod exposition;
pub mod health;
pub mod options;
mod pages;
mod places;
pub mod server;
pub mod site;
mod subject;
pub mod tls;

use async_trait::async_trait;
use bytes::Bytes;
use http::Request;

pub use self::answer::Answer;
pub use self::connection::Peer;
pub use self::exposition::PROMETHEUS;
pub use self::options::{Limits, Options};
pub use self::server::{Error, Server};
pub use self::site::{Contents, Site};

/// What is served on a port. Requests come whole, within the port's limits, with a [`Peer`] among their extensions.
#[async_trait]
pub trait Application: Send + Sync + 'static {
    /// Answers one request. Cancelled when the client goes away or the request takes too long.
    async fn answer(&self, request: Request<Bytes>) -> Answer;
}
