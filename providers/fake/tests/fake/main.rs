//! The fake cloud from the outside: its rules, its faults, what it holds against its clients, the provider over it, and
//! the same over HTTP.

#![expect(clippy::unwrap_used, reason = "tests: what must not fail ends the test")]

mod chaos;
mod faults;
mod http;
mod instances;
mod load_balancers;
mod routes;
mod rules;
mod support;
mod violations;
mod volumes;
