//! What the data plane is told when it is opened.

use std::path::PathBuf;
use std::time::Duration;

use crate::config::{AddressChoice, KernelChoice};

/// How often the kernel is asked whether it still has what it was told, unless somebody says otherwise.
const SCAN: Duration = Duration::from_secs(10);
/// What the plane is told when it is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// The file that keeps the last intent; without one it ends with the process.
    pub state: Option<PathBuf>,
    /// Where the virtual addresses are put and announced.
    pub addresses: AddressChoice,
    /// How often the kernel is asked whether it still has what it was told.
    pub scan: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { state: None, addresses: AddressChoice::Found, scan: SCAN }
    }
}

impl Options {
    /// What a config asks for.
    pub fn of(choice: &KernelChoice) -> Self {
        Self { state: Some(choice.state.clone()), addresses: choice.addresses.clone(), ..Self::default() }
    }
}
