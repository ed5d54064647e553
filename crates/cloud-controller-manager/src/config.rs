//! What the application runs on: checked, immutable, and either whole or a list of everything that is wrong.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use cloud_controllers::around::{Deadlines, budget};
use cloud_controllers::{node, node_ipam, node_lifecycle, route, service};
use cloud_provider::registry::Choice;
use cloud_provider::{Provider, Registry};
use controller_kit::client::{self, Rate};
use controller_kit::log;
use controller_kit::serve::{self, auth};

use crate::options::gates::Gates;
use crate::options::{Options, given, listed};

mod election;
pub mod migration;
pub mod selection;
#[cfg(test)]
mod tests;

pub use self::election::{Election, LeaseName};
pub use self::migration::Migration;
pub use self::selection::Selection;

/// A checked configuration.
#[derive(Debug)]
pub struct Config {
    /// The cloud.
    pub provider: Provider,
    /// Its config file.
    pub cloud_config: Option<PathBuf>,
    /// How often that file is looked at again; `None` for never.
    pub reload_period: Option<Duration>,
    /// `--cluster-name`.
    pub cluster_name: String,
    /// Whether a cloud that needs a cluster ID and has none is no reason to end.
    pub allow_untagged_cloud: bool,
    /// How many calls to the cloud at once.
    pub budget: budget::Settings,
    /// How long they may take.
    pub deadlines: Deadlines,
    /// How to reach the API server.
    pub client: client::Options,
    /// How to elect a leader; `None` to run without.
    pub election: Option<Election>,
    /// The Lease that Events about the manager itself refer to.
    pub lease: LeaseName,
    /// Which controllers are led under a second lease.
    pub migration: Option<Migration>,
    /// Whether each controller has credentials of its own.
    pub own_accounts: bool,
    /// Which feature gates are open.
    pub gates: Gates,
    /// Which controllers run.
    pub controllers: Selection,
    /// The pause between starting two of them.
    pub start_interval: Duration,
    /// The node controller.
    pub node: node::Settings,
    /// The node lifecycle controller.
    pub node_lifecycle: node_lifecycle::Settings,
    /// The route controller.
    pub route: Route,
    /// Node IPAM, as typed.
    pub node_ipam: node_ipam::Typed,
    /// The service controller.
    pub service: service::Settings,
    /// What is served, and to whom.
    pub serving: Serving,
    /// What is logged.
    pub logging: log::Options,
    /// What is reported as this binary's version.
    pub version: String,
    /// What should be said about the flags that were given.
    pub remarks: Vec<String>,
    /// Every flag in force, by name, as `/flagz` shows it. No flag holds a secret.
    pub flags: BTreeMap<String, String>,
}

/// What the route controller was told. Whether it can run with that is its own business.
#[derive(Debug, Clone)]
pub struct Route {
    /// `--configure-cloud-routes`.
    pub configure: bool,
    /// `--cluster-cidr`.
    pub cluster_cidr: String,
    /// The numbers.
    pub settings: route::Settings,
}

/// The secure port.
#[derive(Debug, Clone)]
pub struct Serving {
    /// Where and how.
    pub options: serve::Options,
    /// Who asks.
    pub authentication: auth::Authentication,
    /// Whether they may.
    pub authorization: auth::Authorization,
    /// Another way to the API server for questions about tokens.
    pub authentication_kubeconfig: Option<PathBuf>,
    /// Another way to the API server for questions about rights.
    pub authorization_kubeconfig: Option<PathBuf>,
    /// Whether `/debug/flags/v` is served.
    pub profiling: bool,
}

/// Everything that is wrong with a command line, at once.
#[derive(Debug)]
pub struct Errors(Vec<String>);

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

impl std::error::Error for Errors {}

/// Keeps what is right and collects what is wrong.
#[derive(Default)]
struct Checks(Vec<String>);

impl Checks {
    fn all<T>(&mut self, checked: Result<T, Vec<String>>) -> Option<T> {
        checked.map_err(|wrong| self.0.extend(wrong)).ok()
    }

    fn one<T>(&mut self, checked: Result<T, String>) -> Option<T> {
        checked.map_err(|wrong| self.0.push(wrong)).ok()
    }
}

impl Config {
    /// Checks what was typed.
    pub fn check(options: Options, registry: &Registry) -> Result<Self, Errors> {
        let mut checks = Checks(options.mistakes.clone());
        let provider = checks.one(choose(&options.cloud.cloud_provider, registry));
        let rate = checks.one(rate(&options));
        let election = checks.all(election::check(&options.leader));
        let migration = checks.all(Migration::read(&options.migration));
        let gates = checks.all(gates(&options));
        let version = checks.one(version(&options.generic.version));
        checks.0.extend(options.webhook.errors(options.serving.secure_port));
        let controllers = checks.all(Selection::read(&options.controllers.controllers));
        let deadlines = checks.all(options.cloud.deadlines());
        let node = checks.all(options.node.settings());
        let node_lifecycle = checks.all(options.node_lifecycle.settings());
        let route = checks.all(options.route.settings(&options.networks));
        let service = checks.all(options.service.settings());
        let serving = checks.all(serving(&options));
        let whole = (|| {
            Some(Self {
                provider: provider?,
                cloud_config: given(options.cloud.cloud_config.as_deref()),
                reload_period: Some(options.cloud.cloud_config_reload_period.get())
                    .filter(|period| !period.is_zero()),
                cluster_name: options.cloud.cluster_name.clone(),
                allow_untagged_cloud: options.cloud.allow_untagged_cloud,
                budget: options.cloud.budget(),
                deadlines: deadlines?,
                client: client_options(&options, rate?, version.as_ref()?),
                migration: migration?.filter(|_| options.leader.leader_elect),
                own_accounts: options.generic.use_service_account_credentials,
                gates: gates?,
                election: election?,
                lease: LeaseName::of(&options.leader),
                controllers: controllers?,
                start_interval: options.controllers.controller_start_interval.get(),
                node: node?,
                node_lifecycle: node_lifecycle?,
                route: Route {
                    configure: options.networks.configure_cloud_routes,
                    cluster_cidr: options.networks.cluster_cidr.clone(),
                    settings: route?,
                },
                node_ipam: options.node_ipam.typed(&options.networks),
                service: service?,
                serving: serving?,
                logging: log::Options {
                    format: options.logging.logging_format,
                    verbosity: options.logging.verbosity,
                    vmodule: options.logging.vmodule.clone(),
                },
                version: version?,
                remarks: options.remarks,
                flags: options.flags,
            })
        })();
        whole.filter(|_| checks.0.is_empty()).ok_or(Errors(checks.0))
    }
}

fn choose(name: &str, registry: &Registry) -> Result<Provider, String> {
    match registry.choose(name) {
        Ok(Choice::Provider(provider)) => Ok(provider),
        Ok(Choice::None) => Err("--cloud-provider cannot be empty: name the cloud to run for".to_owned()),
        Ok(Choice::External) => {
            Err("--cloud-provider=external is for the kubelet and kube-controller-manager: \
                                     name the cloud that this manager is to speak to"
                .to_owned())
        }
        Err(error) => Err(format!("--cloud-provider: {error}")),
    }
}

fn rate(options: &Options) -> Result<Option<Rate>, String> {
    let (qps, burst) = (options.client.kube_api_qps, options.client.kube_api_burst);
    if qps == 0.0 {
        return Ok(None);
    }
    if !qps.is_finite() || qps < 0.0 || burst == 0 {
        return Err(format!("--kube-api-qps={qps} and --kube-api-burst={burst} must be greater than zero"));
    }
    Ok(Some(Rate { qps, burst }))
}

/// The gates, and what they forbid.
fn gates(options: &Options) -> Result<Gates, Vec<String>> {
    let gates = Gates::read(&options.generic.feature_gates)?;
    let uid_headers = listed(&options.authentication.requestheader_uid_headers);
    if !uid_headers.is_empty() && !gates.is_open("RemoteRequestHeaderUID") {
        let error = "--requestheader-uid-headers requires the feature gate RemoteRequestHeaderUID";
        return Err(vec![error.to_owned()]);
    }
    Ok(gates)
}

/// `--version=vX.Y.Z` sets what is reported.
fn version(given: &str) -> Result<String, String> {
    match given {
        "false" => Ok(concat!("v", env!("CARGO_PKG_VERSION")).to_owned()),
        other if other.starts_with('v') => Ok(other.to_owned()),
        other => Err(format!("--version={other}: expected true, raw, or a version that begins with v")),
    }
}

fn client_options(options: &Options, rate: Option<Rate>, version: &str) -> client::Options {
    client::Options {
        kubeconfig: given(options.client.kubeconfig.as_deref()),
        master: options.client.master.clone().filter(|url| !url.is_empty()),
        rate,
        user_agent: client::user_agent(crate::command::UPSTREAM_NAME, version, "nephos", "unknown"),
    }
}

fn serving(options: &Options) -> Result<Serving, Vec<String>> {
    let mut checks = Checks::default();
    let port = checks.all(options.serving.settings());
    let authentication = checks.all(options.authentication.settings());
    let authorization = checks.all(options.authorization.settings());
    let (Some(port), Some(authentication), Some(authorization)) = (port, authentication, authorization)
    else {
        return Err(checks.0);
    };
    Ok(Serving {
        options: port,
        authentication,
        authorization,
        authentication_kubeconfig: given(options.authentication.authentication_kubeconfig.as_deref()),
        authorization_kubeconfig: given(options.authorization.authorization_kubeconfig.as_deref()),
        profiling: options.debugging.profiling,
    })
}
