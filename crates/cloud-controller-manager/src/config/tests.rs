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
        (election.lease.namespace.as_str(), election.lease.name.as_str()),
        ("kube-system", "cloud-controller-manager")
    );
    assert_eq!(election.timing.lease_duration, Duration::from_secs(15));
    assert_eq!(config.cluster_name, "kubernetes");
    assert!(config.client.rate.is_none());
}

/// Proves: ROUTE-1, ROUTE-8, IPAM-2
#[test]
fn networks_are_read_by_upstreams_flags_and_judged_by_their_controllers() {
    let config = check(&["--cloud-provider=fake"]).unwrap();
    assert!(config.route.configure && config.route.cluster_cidr.is_empty());
    assert_eq!(config.route.settings.audit_period, Duration::from_secs(300), "upstream's is 10 s");
    assert_eq!(config.node_ipam, node_ipam::Typed::default());
    let config = check(&[
        "--cloud-provider=fake",
        "--allocate-node-cidrs",
        "--cluster-cidr=10.244.0.0/16,fd00:10::/48",
        "--service-cluster-ip-range=10.96.0.0/12",
        "--node-cidr-mask-size=0",
        "--node-cidr-mask-size-ipv4=25",
        "--node-cidr-mask-size-ipv6=64",
        "--configure-cloud-routes=false",
        "--route-reconciliation-period=10s",
        "--concurrent-route-syncs=3",
    ])
    .unwrap();
    assert!(!config.route.configure);
    assert_eq!(config.route.settings.audit_period, Duration::from_secs(10));
    assert_eq!(config.route.settings.workers, 3);
    assert!(node_ipam::Ranges::of(&config.node_ipam).is_ok());
    // What only concerns one controller does not stop the others.
    assert!(check(&["--cloud-provider=fake", "--cluster-cidr=nonsense", "--allocate-node-cidrs"]).is_ok());
    let errors =
        check(&["--cloud-provider=fake", "--route-reconciliation-period=0s", "--concurrent-route-syncs=0"]);
    let errors = errors.unwrap_err().to_string();
    assert!(errors.contains("--route-reconciliation-period") && errors.contains("--concurrent-route-syncs"));
}
