//! What people type: `nephos local <command>`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Parser;
use cloud_provider::{CloudConfig, Command, Error};

use crate::cleanup;
use crate::config::{Config, Machines};
use crate::inventory;
use crate::proxy;

mod overview;

/// All commands.
pub const ALL: &[Command] = &[
    Command {
        name: "proxy",
        about: "Forward what comes in at the virtual addresses, fed by the manager over a unix socket",
        usage: proxy::command::USAGE,
        run: |arguments| Box::pin(forward(arguments)),
    },
    Command {
        name: "show",
        about: "Show what the proxy forwards: addresses, ports, backends and their health",
        usage: "[--socket PATH]",
        run: |arguments| Box::pin(show(arguments)),
    },
    Command {
        name: "check",
        about: "Check a config and the inventory that it names, and say what is wrong on which line",
        usage: "CONFIG",
        run: |arguments| Box::pin(async move { check(arguments) }),
    },
    Command {
        name: "cleanup",
        about: "Remove what managers left in this machine's kernel: our virtual addresses, routes and tables",
        usage: "[--dry-run]",
        run: |arguments| Box::pin(clean(arguments)),
    },
];

async fn forward(arguments: Vec<String>) -> Result<(), Error> {
    match proxy::command::run(arguments).await {
        Err(proxy::command::Error::Arguments(error)) => answer_about_arguments(&error),
        ended => ended.map_err(|error| Error::from_source("running the proxy", error)),
    }
}

#[derive(Debug, Parser)]
#[command(name = "show", no_binary_name = true, about = "Show what the proxy forwards")]
struct Show {
    /// The unix socket of the proxy
    #[arg(long, value_name = "PATH", default_value = proxy::command::SOCKET)]
    socket: PathBuf,
}

async fn show(arguments: Vec<String>) -> Result<(), Error> {
    let arguments = match Show::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return answer_about_arguments(&error),
    };
    let client = proxy::Client::at(&arguments.socket);
    let attempt = || "asking the proxy what it does";
    let intent = client.intent().await.map_err(|error| Error::from_source(attempt(), error))?;
    let status = client.status().await.map_err(|error| Error::from_source(attempt(), error))?;
    say(&overview::of(&intent, &status))
}

#[derive(Debug, Parser)]
#[command(name = "check", no_binary_name = true, about = "Check a config and its inventory")]
struct Check {
    /// The file that --cloud-config names
    config: PathBuf,
}

fn check(arguments: Vec<String>) -> Result<(), Error> {
    match Check::try_parse_from(arguments) {
        Ok(arguments) => say(&checked(&arguments.config)?),
        Err(error) => answer_about_arguments(&error),
    }
}

/// What a good config says, in a few lines.
fn checked(path: &Path) -> Result<String, Error> {
    let config = Config::of(Some(&CloudConfig::read(path)?))?;
    let machines = match &config.machines {
        Machines::Adopt => "each Node is its own machine".to_owned(),
        Machines::Inventory(path) => {
            let file = path.display().to_string();
            let text = std::fs::read_to_string(path).map_err(|error| {
                Error::invalid_config(format!("reading the inventory {file}")).because(error)
            })?;
            let machines = inventory::parse(&file, &text, &config.site, &config.defaults)
                .map_err(|problems| problems.refuse("reading the inventory"))?;
            format!("{} in {file}", machines.len())
        }
    };
    let mut lines = vec![format!("site      {}", config.site), format!("machines  {machines}")];
    for pool in config.pools.iter() {
        let ranges: Vec<String> = pool.ranges.iter().map(ToString::to_string).collect();
        lines.push(format!("pool      {}: {}", pool.name, ranges.join(", ")));
    }
    Ok(lines.join("\n") + "\n")
}

#[derive(Debug, Parser)]
#[command(
    name = "cleanup",
    no_binary_name = true,
    about = "Remove what managers left in this machine's kernel"
)]
struct Cleanup {
    /// Only say what would be removed
    #[arg(long)]
    dry_run: bool,
}

async fn clean(arguments: Vec<String>) -> Result<(), Error> {
    match Cleanup::try_parse_from(arguments) {
        Ok(Cleanup { dry_run: true }) => say(&cleanup::Found::look().await?.to_string()),
        Ok(Cleanup { dry_run: false }) => say(&cleanup::remove().await?.to_string()),
        Err(error) => answer_about_arguments(&error),
    }
}

/// Help goes to standard output and is no failure; everything else is.
fn answer_about_arguments(error: &clap::Error) -> Result<(), Error> {
    if error.use_stderr() {
        let whole = error.to_string();
        let first = whole.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        return Err(Error::invalid_config("reading the arguments").because(first));
    }
    say(&error.to_string())
}

fn say(text: &str) -> Result<(), Error> {
    let written = std::io::stdout().write_all(text.as_bytes());
    written.map_err(|error| Error::from_source("writing to standard output", error))
}

#[cfg(test)]
mod tests;
