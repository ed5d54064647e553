//! The secure port on a loopback socket, asked by a real TLS client; in part on a real API server.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail where it stands")]
#![allow(clippy::print_stdout, reason = "figures are worth reading")]

mod client;
mod limits;
mod pages;
mod port;
mod real;
mod secrets;
mod shape;
mod storm;
mod tls;
mod trust;
