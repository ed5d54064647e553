use cloud_provider::Decision;
use rstest::rstest;

use super::*;

const README: &str = include_str!("../../README.md");

#[test]
fn an_empty_file_and_no_file_are_the_defaults() {
    assert_eq!(Config::of(None).unwrap(), Config::default());
    assert_eq!(Config::parse("f.yaml", " \n").unwrap(), Config::default());
    assert!(Config::default().problems().is_empty());
}

#[test]
fn one_line_is_enough() {
    let config = Config::parse("f.yaml", "latency: 20ms\n").unwrap();
    assert_eq!(config, Config { latency: Duration::from_millis(20), ..Config::default() });
    assert!(config.adopt);
}

#[test]
fn every_key_can_be_written() {
    let text = r"
timeout: 5s
adopt: false
zones: [z1, z2]
region: r1
instanceType: big
lacks: [volumes]
classes: [fast]
ipMode: Proxy
podNetworks: [10.244.0.0/16]
seed: 7
latency: 1.5s
latencies: { create_load_balancer: 2s, 'list_*': 5ms }
pageSize: 3
rateLimit: { perSecond: 10, burst: 20 }
balancerReadyAfter: 1m
invisibleFor: 30s
visibleAfterDelete: 31s
quotas: { loadBalancers: 2, addresses: 3, routes: 4, volumes: 5 }
uniqueNames: true
expectPermits: false
addressPool: 203.0.113.0/24
addressPoolV6: 2001:db8:1::/64
instances:
- name: a
  addresses: [[InternalIP, 10.0.0.1]]
clusters: { blue: https://192.0.2.1:6443 }
faults:
- { operation: create_route, effect: lose_answer, times: 1, probability: 0.5, from: 1s, until: 2s }
logCalls: 10
";
    let config = Config::parse("f.yaml", text).unwrap();
    let spare = Config { endpoint: None, ..Config::default() };
    let same: Vec<String> = keys_of(&config)
        .into_iter()
        .zip(keys_of(&spare))
        .filter(|(given, default)| given.1 == default.1)
        .map(|(given, _)| given.0)
        .collect();
    assert_eq!(same, ["endpoint"], "every other key was given a value of its own, and taken");
    assert_eq!(config.latency_of(crate::Operation::ListRoutes), Duration::from_millis(5));
    assert_eq!(config.latency_of(crate::Operation::GetVolume), Duration::from_millis(1500));
    assert_eq!(config.faults[0].until, Some(Duration::from_secs(2)));
}

#[rstest]
#[case("latencie: 20ms", "latencie")]
#[case("latency: 20", "a duration such as 300ms")]
#[case("latency: -1s", "below zero")]
#[case("pageSize: 0", "pageSize: a page needs room for at least one object")]
#[case("zones: []", "zones: at least one is needed")]
#[case("rateLimit: { perSecond: 0, burst: 1 }", "rateLimit: perSecond and burst must be above zero")]
#[case("latencies: { get_instanc: 1s }", "did you mean \"get_instance\"?")]
#[case("faults: [{ operation: creat_route, effect: fail }]", "faults[0]: \"creat_route\" names no operation")]
#[case("faults: [{ operation: '*', effect: explode }]", "explode")]
#[case("ipMode: vip", "vip")]
#[case(
    "endpoint: http://127.0.0.1:1\nlatency: 1s\nseed: 3",
    "latency, seed: with an endpoint, this belongs into the config of the process there"
)]
fn what_cannot_be_meant_is_an_error_that_names_it(#[case] text: &str, #[case] expected: &str) {
    let error = Config::parse("f.yaml", text).unwrap_err();
    assert_eq!(error.decision(), &Decision::InvalidConfig);
    let report = error.report();
    assert!(report.contains("f.yaml") && report.contains(expected), "{report}");
}

#[test]
fn the_table_in_the_readme_has_every_key_with_its_default_and_no_other() {
    let documented: BTreeMap<String, String> = README
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split(" | ");
            let key = cells.next()?.trim_end_matches('`').to_owned();
            let default = cells.next()?.trim_matches('`').to_owned();
            Some((key, default))
        })
        .collect();
    let actual: BTreeMap<String, String> = keys_of(&Config::default())
        .into_iter()
        .map(|(key, value)| {
            let shown = match value {
                serde_json::Value::String(text) => text,
                serde_json::Value::Null => "none".to_owned(),
                other => other.to_string(),
            };
            (key, shown)
        })
        .collect();
    let quotas = "{\"addresses\":null,\"loadBalancers\":null,\"routes\":null,\"volumes\":null}";
    let actual: BTreeMap<String, String> = actual
        .into_iter()
        .map(|(key, shown)| (key, if shown == quotas { "{}".to_owned() } else { shown }))
        .collect();
    assert_eq!(documented, actual);
}

#[test]
fn every_effect_is_explained_in_the_readme() {
    use crate::fault::Effect;
    let effects = [
        Effect::Fail,
        Effect::Hang,
        Effect::LoseAnswer,
        Effect::HangAfter,
        Effect::Unauthorized,
        Effect::Forbidden,
        Effect::Throttle,
        Effect::Quota,
        Effect::Conflict,
        Effect::NotFound,
        Effect::Empty,
        Effect::Foreign,
        Effect::Duplicate,
        Effect::RepeatPage,
        Effect::Slow,
    ];
    for effect in effects {
        let word = serde_json::to_value(effect).unwrap();
        let entry = format!("\n* `{}`: ", word.as_str().unwrap());
        assert!(README.contains(&entry), "{entry:?} is missing");
    }
}

#[test]
fn every_call_is_named_in_the_readme() {
    for operation in crate::Operation::ALL {
        assert!(README.contains(&format!("`{operation}`")), "{operation} is missing");
    }
}

#[test]
fn a_name_always_has_the_same_zone_and_names_are_spread() {
    let all = ["a", "b", "c"].map(str::to_owned);
    let zones: Vec<String> = (0..30).map(|index| zone_of(&all, &format!("node-{index}"))).collect();
    assert_eq!(zones, (0..30).map(|index| zone_of(&all, &format!("node-{index}"))).collect::<Vec<_>>());
    for zone in &all {
        assert!(zones.contains(zone), "no node in zone {zone}");
    }
}
