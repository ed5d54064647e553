//! A provider: a name, a function that builds the cloud, and sub-commands of its own. Plain data, listed by whoever
//! makes a binary.

use std::fmt;

use crate::cloud::Cloud;
use crate::context::{BoxFuture, Context};
use crate::error::Error;

/// A provider that a binary can be told to use by `--cloud-provider=<name>`.
#[derive(Clone, Copy)]
pub struct Provider {
    /// Its name: the value of `--cloud-provider` and the scheme of its provider IDs.
    ///
    /// INVARIANT: it stands in `spec.providerID` of every Node, which is write-once.
    pub name: &'static str,
    /// What cloud it is for, in one line of `--help`.
    pub about: &'static str,
    /// Builds the cloud. Called once at start on every replica, leader or not, and once more for each new version of
    /// the config file: it checks the config and the credential, changes nothing in the cloud, and starts background
    /// work only if that ends with the context's shutdown.
    pub build: fn(Context) -> BoxFuture<Result<Cloud, Error>>,
    /// Sub-commands: `nephos <provider> <command>`.
    pub commands: &'static [Command],
    /// Whether its load balancers may ask for the pods behind Services: reading `EndpointSlices` is a right that the manager
    /// then needs.
    pub reads_endpoints: bool,
}

/// A sub-command that a provider brings.
#[derive(Clone, Copy)]
pub struct Command {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does, in one line of `--help`.
    pub about: &'static str,
    /// How its arguments are written, for `--help`.
    pub usage: &'static str,
    /// Runs it with the arguments that follow its name.
    pub run: fn(Vec<String>) -> BoxFuture<Result<(), Error>>,
}

impl Provider {
    /// A provider without sub-commands.
    pub const fn new(
        name: &'static str,
        about: &'static str,
        build: fn(Context) -> BoxFuture<Result<Cloud, Error>>,
    ) -> Self {
        Self { name, about, build, commands: &[], reads_endpoints: false }
    }

    /// Adds sub-commands.
    #[must_use]
    pub const fn with_commands(mut self, commands: &'static [Command]) -> Self {
        self.commands = commands;
        self
    }

    /// Says that its load balancers may ask for the pods behind Services.
    #[must_use]
    pub const fn reading_endpoints(mut self) -> Self {
        self.reads_endpoints = true;
        self
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Provider({})", self.name)
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Command({})", self.name)
    }
}
