//! What the binary prints instead of running: the rights it needs, what a cloud can do, its version, and what shells and
//! manual readers want.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use clap_complete::Shell;
use controller_kit::flags::go_style;

use crate::options::Options;

/// Something to print.
#[derive(Debug)]
pub enum Page {
    /// The roles that `run` needs with these flags.
    Rbac(Box<RbacOptions>),
    /// What a cloud can do, and which controllers there are.
    Capabilities(CapabilitiesOptions),
    /// The version.
    Version {
        /// With everything that is known of the build.
        raw: bool,
    },
    /// A completion script.
    Completion(Shell),
    /// The manual page.
    Man,
}

/// `rbac`: all flags of `run`, and who gets the roles.
#[derive(Debug, Clone, Args)]
pub struct RbacOptions {
    /// The service account that the manager runs as.
    #[arg(
        long,
        default_value = "cloud-controller-manager",
        value_name = "NAME",
        help_heading = "Rbac flags"
    )]
    pub service_account: String,

    /// The namespace of that service account.
    #[arg(long, default_value = "kube-system", value_name = "NAMESPACE", help_heading = "Rbac flags")]
    pub service_account_namespace: String,

    /// The flags of `run`.
    #[command(flatten)]
    pub run: Options,
}

/// `capabilities`: which cloud, and how it is shown.
#[derive(Debug, Clone, Args)]
pub struct CapabilitiesOptions {
    /// The provider to ask. Without it, the providers and controllers in this binary are listed.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    pub cloud_provider: String,

    /// The path to the cloud provider configuration file.
    #[arg(long, value_name = "FILE")]
    pub cloud_config: Option<PathBuf>,

    /// How it is shown.
    #[arg(long, short, value_enum, default_value_t = Output::Table, value_name = "FORMAT")]
    pub output: Output,
}

/// How something is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// `rbac`, which takes the flags of `run`.
pub(super) fn rbac() -> Command {
    // After the flags, whose own description would take its place.
    go_style(RbacOptions::augment_args(Command::new("rbac")))
        .about("Print the least roles that `run` needs with the same flags")
        .long_about(None)
}

/// The commands that print.
pub(super) fn commands() -> [Command; 5] {
    let capabilities = go_style(CapabilitiesOptions::augment_args(Command::new("capabilities")))
        .about("Show what a cloud can do and which controllers would run")
        .long_about(None);
    [
        rbac(),
        capabilities,
        Command::new("version").about("Print the version"),
        Command::new("completion").about("Print a completion script").arg(
            Arg::new("shell").required(true).value_parser(clap::value_parser!(Shell)).help("For which shell"),
        ),
        Command::new("man").about("Print the manual page"),
    ]
}

impl Page {
    /// What a sub-command asks for; `None` if it is another one.
    pub(super) fn read(name: &str, matches: &ArgMatches) -> Result<Option<Self>, clap::Error> {
        Ok(Some(match name {
            "capabilities" => Self::Capabilities(CapabilitiesOptions::from_arg_matches(matches)?),
            "version" => Self::Version { raw: false },
            "completion" => match matches.get_one::<Shell>("shell") {
                Some(shell) => Self::Completion(*shell),
                None => return Ok(None),
            },
            "man" => Self::Man,
            _ => return Ok(None),
        }))
    }
}
