//! What the application runs on: checked, immutable, and either whole or a list of everything that is wrong.

use std::fmt;
use std::path::PathBuf;

use cloud_provider::registry::Choice;
use cloud_provider::{Provider, Registry};
use controller_kit::client::{self, Rate};
use controller_kit::leader::Timing;
use controller_kit::log;

use crate::options::Options;

/// A checked configuration.
#[derive(Debug)]
pub struct Config {
    /// The cloud.
    pub provider: Provider,
    /// Its config file.
    pub cloud_config: Option<PathBuf>,
    /// `--cluster-name`.
    pub cluster_name: String,
    /// How to reach the API server.
    pub client: client::Options,
    /// How to elect a leader; `None` to run without.
    pub election: Option<Election>,
    /// What is logged.
    pub logging: log::Options,
}

/// How to elect a leader.
#[derive(Debug, Clone)]
pub struct Election {
    /// The Lease's namespace.
    pub namespace: String,
    /// The Lease's name.
    pub name: String,
    /// The three numbers.
    pub timing: Timing,
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

impl Config {
    /// Checks what was typed.
    pub fn check(options: Options, registry: &Registry) -> Result<Self, Errors> {
        let mut errors = Vec::new();
        let provider =
            choose(&options.cloud.cloud_provider, registry).map_err(|error| errors.push(error)).ok();
        let rate = rate(&options).map_err(|error| errors.push(error)).ok().flatten();
        let election = election(&options).map_err(|wrong| errors.extend(wrong)).ok().flatten();
        let (Some(provider), true) = (provider, errors.is_empty()) else { return Err(Errors(errors)) };
        Ok(Self {
            provider,
            cloud_config: options.cloud.cloud_config.filter(|path| !path.as_os_str().is_empty()),
            cluster_name: options.cloud.cluster_name,
            client: client::Options {
                kubeconfig: options.client.kubeconfig.filter(|path| !path.as_os_str().is_empty()),
                master: options.client.master.filter(|url| !url.is_empty()),
                rate,
                user_agent: client::user_agent(
                    crate::command::UPSTREAM_NAME,
                    concat!("v", env!("CARGO_PKG_VERSION")),
                    "nephos",
                    "unknown",
                ),
            },
            election,
            logging: log::Options {
                format: options.logging.logging_format,
                verbosity: options.logging.verbosity,
                vmodule: options.logging.vmodule,
            },
        })
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

fn election(options: &Options) -> Result<Option<Election>, Vec<String>> {
    let leader = &options.leader;
    if !leader.leader_elect {
        return Ok(None);
    }
    let timing = Timing {
        lease_duration: leader.leader_elect_lease_duration.get(),
        renew_deadline: leader.leader_elect_renew_deadline.get(),
        retry_period: leader.leader_elect_retry_period.get(),
    };
    let mut errors = Vec::new();
    if leader.leader_elect_resource_lock != "leases" {
        errors.push(format!(
            "--leader-elect-resource-lock={} is not supported: only leases is",
            leader.leader_elect_resource_lock
        ));
    }
    if let Err(error) = timing.validate() {
        errors.push(format!("--leader-elect-*: {error}"));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok(Some(Election {
        namespace: leader.leader_elect_resource_namespace.clone(),
        name: leader.leader_elect_resource_name.clone(),
        timing,
    }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::FromArgMatches;
    use cloud_provider::Cloud;

    use super::*;

    const FAKE: Provider = Provider::new("fake", "a cloud", |_| Box::pin(async { Ok(Cloud::new("fake")) }));

    fn check(line: &[&str]) -> Result<Config, Errors> {
        let command = crate::command::manager("run");
        let matches = command.try_get_matches_from(std::iter::once(&"run").chain(line)).unwrap();
        Config::check(Options::from_arg_matches(&matches).unwrap(), &Registry::new([FAKE]).unwrap())
    }

    /// Proves: APP-6, APP-8
    #[test]
    fn every_mistake_is_named_at_once() {
        let errors = check(&[
            "--cloud-provider=fkae",
            "--kube-api-qps=-1",
            "--leader-elect-resource-lock=endpoints",
            "--leader-elect-lease-duration=5s",
        ])
        .unwrap_err()
        .to_string();
        for part in ["did you mean \"fake\"", "--kube-api-qps=-1", "endpoints", "renew deadline"] {
            assert!(errors.contains(part), "{part} is missing in: {errors}");
        }
    }

    /// Proves: APP-6
    #[test]
    fn a_cloud_must_be_named() {
        assert!(check(&[]).unwrap_err().to_string().contains("--cloud-provider cannot be empty"));
        assert!(check(&["--cloud-provider=external"]).unwrap_err().to_string().contains("kubelet"));
    }

    /// Proves: APP-36
    #[test]
    fn without_election_its_numbers_do_not_matter() {
        let config =
            check(&["--cloud-provider=fake", "--leader-elect=false", "--leader-elect-lease-duration=0"])
                .unwrap();
        assert!(config.election.is_none());
    }

    #[test]
    fn defaults_are_upstreams_but_for_the_client_side_limit() {
        let config = check(&["--cloud-provider=fake"]).unwrap();
        let election = config.election.unwrap();
        assert_eq!(
            (election.namespace.as_str(), election.name.as_str()),
            ("kube-system", "cloud-controller-manager")
        );
        assert_eq!(election.timing.lease_duration, Duration::from_secs(15));
        assert_eq!(config.cluster_name, "kubernetes");
        assert!(config.client.rate.is_none());
    }
}
