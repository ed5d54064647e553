//! The all-in-one binary: a list of providers, nothing else.

use std::process::ExitCode;

use cloud_provider::Provider;

fn main() -> ExitCode {
    cloud_controller_manager::main_with("nephos", providers())
}

fn providers() -> Vec<Provider> {
    vec![
        #[cfg(feature = "fake")]
        provider_fake::PROVIDER,
        #[cfg(feature = "local")]
        provider_local::PROVIDER,
    ]
}
