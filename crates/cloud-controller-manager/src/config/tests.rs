//! What is refused, and what the defaults are.

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
        check(&["--cloud-provider=fake", "--leader-elect=false", "--leader-elect-lease-duration=0"]).unwrap();
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
