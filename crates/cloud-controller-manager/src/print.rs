//! What the binary prints: roles, capabilities, its version, completions, its manual.

use std::fmt::Write as _;
use std::io::{self, Write};

use cloud_provider::registry::Choice;
use cloud_provider::{Capability, Cloud, CloudConfig, Registry};
use controller_kit::log::report;
use serde_json::json;

use crate::app::controllers::TABLE;
use crate::command::page::{CapabilitiesOptions, Output};
use crate::command::{self, Page, RbacOptions};
use crate::config::Selection;
use crate::options::given;
use crate::rbac::{self, Needs};

/// Why nothing was printed.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Makes the page and writes it to `out`.
pub async fn print(
    page: Page,
    binary: &'static str,
    registry: &Registry,
    mut out: impl Write,
) -> Result<(), Error> {
    match page {
        Page::Rbac(options) => out.write_all(roles(&options, registry)?.as_bytes())?,
        Page::Capabilities(options) => out.write_all(capabilities(&options, registry).await?.as_bytes())?,
        Page::Version { raw } => writeln!(out, "{}", version(raw))?,
        Page::Completion(shell) => {
            clap_complete::generate(shell, &mut command::all_in_one(binary, registry), binary, &mut out);
        }
        Page::Man => man(binary, registry, &mut out)?,
    }
    out.flush()?;
    Ok(())
}

/// The roles that `run` needs with these flags.
pub fn roles(options: &RbacOptions, registry: &Registry) -> Result<String, Error> {
    if !options.run.mistakes.is_empty() {
        return Err(options.run.mistakes.join("; ").into());
    }
    let selection =
        Selection::read(&options.run.controllers.controllers).map_err(|errors| errors.join("; "))?;
    let leader = &options.run.leader;
    let mut leases = Vec::new();
    if leader.leader_elect {
        let namespace = &leader.leader_elect_resource_namespace;
        leases.push((namespace.clone(), leader.leader_elect_resource_name.clone()));
        if options.run.migration.enable_leader_migration {
            let migration =
                crate::config::Migration::read(&options.run.migration).map_err(|errors| errors.join("; "))?;
            leases.extend(migration.map(|migration| (namespace.clone(), migration.leader_name)));
        }
    }
    let needs = Needs {
        controllers: TABLE.iter().filter(|row| selection.enables(row.name)).collect(),
        leases,
        serving: options.run.serving.secure_port != 0,
        lookup: !options.run.authentication.authentication_skip_lookup,
        own_accounts: options.run.generic.use_service_account_credentials,
        endpoints: reads_endpoints(&options.run.cloud.cloud_provider, registry)?,
    };
    Ok(rbac::manifest(&rbac::grants(&needs), &options.service_account, &options.service_account_namespace))
}

fn reads_endpoints(provider: &str, registry: &Registry) -> Result<bool, Error> {
    Ok(match registry.choose(provider)? {
        Choice::Provider(provider) => provider.reads_endpoints,
        Choice::None | Choice::External => false,
    })
}

/// One line, or all that is known of the build.
pub fn version(raw: bool) -> String {
    let version = concat!("v", env!("CARGO_PKG_VERSION"));
    if !raw {
        return format!("nephos {version}");
    }
    format!("nephos {version} {}/{} rustc", std::env::consts::OS, std::env::consts::ARCH)
}

async fn capabilities(options: &CapabilitiesOptions, registry: &Registry) -> Result<String, Error> {
    if options.cloud_provider.is_empty() {
        return Ok(inventory(options.output, registry));
    }
    let Choice::Provider(provider) = registry.choose(&options.cloud_provider)? else {
        return Err("--cloud-provider: name the cloud itself".into());
    };
    let file = given(options.cloud_config.as_deref()).map(|path| CloudConfig::read(&path)).transpose()?;
    let context = crate::app::bare_context().with_config(file);
    let cloud = (provider.build)(context).await.map_err(|error| report(&error).to_string())?;
    Ok(of_cloud(&cloud, options.output))
}

fn of_cloud(cloud: &Cloud, output: Output) -> String {
    let fits = |needs: Option<Capability>| needs.is_none_or(|needed| cloud.can(needed));
    if output == Output::Json {
        let can: Vec<&str> =
            Capability::ALL.into_iter().filter(|each| cloud.can(*each)).map(Capability::name).collect();
        let run: Vec<&str> = TABLE.iter().filter(|row| fits(row.needs)).map(|row| row.name).collect();
        return format!("{}\n", json!({"provider": cloud.name, "capabilities": can, "controllers": run}));
    }
    let mut text = format!("{:<34} {}\n", "CAPABILITY", cloud.name.to_uppercase());
    for capability in Capability::ALL {
        let answer = if cloud.can(capability) { "yes" } else { capability.missing() };
        let _ = writeln!(text, "{:<34} {answer}", capability.name());
    }
    let _ = writeln!(text, "\n{:<34} RUNS", "CONTROLLER");
    for row in TABLE {
        let _ = writeln!(text, "{:<34} {}", row.name, if fits(row.needs) { "yes" } else { "no" });
    }
    text
}

fn inventory(output: Output, registry: &Registry) -> String {
    if output == Output::Json {
        let providers: Vec<&str> = registry.providers().iter().map(|provider| provider.name).collect();
        let controllers: Vec<_> =
            TABLE.iter().map(|row| json!({"name": row.name, "aliases": row.aliases})).collect();
        return format!("{}\n", json!({"providers": providers, "controllers": controllers}));
    }
    let mut text = format!("{:<34} ABOUT\n", "PROVIDER");
    for provider in registry.providers() {
        let _ = writeln!(text, "{:<34} {}", provider.name, provider.about);
    }
    let _ = writeln!(text, "\n{:<34} {:<24} NEEDS", "CONTROLLER", "ALIASES");
    for row in TABLE {
        let needs = row.needs.map_or("nothing of the cloud", Capability::name);
        let _ = writeln!(text, "{:<34} {:<24} {needs}", row.name, row.aliases.join(", "));
    }
    text
}

/// The page of the whole command, then that of `run`, as one document.
fn man(binary: &'static str, registry: &Registry, out: &mut impl Write) -> io::Result<()> {
    let command = command::all_in_one(binary, registry);
    clap_mangen::Man::new(command).render(out)?;
    clap_mangen::Man::new(command::manager("run").display_name(format!("{binary}-run"))).render(out)
}
