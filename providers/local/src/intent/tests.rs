use std::time::Duration;

use proptest::collection::{btree_map, btree_set};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn backend(node: &str, address: &str, port: u16) -> Backend {
    Backend { node: node.into(), address: address.parse().unwrap(), port, weight: 1 }
}

fn balancer(address: &str, key: PortKey, backends: &[Backend]) -> Balancer {
    Balancer {
        cluster: None,
        namespace: "shop".into(),
        name: "web".into(),
        addresses: [address.parse().unwrap()].into(),
        ports: [(key, Port { backends: backends.iter().cloned().collect(), ..Port::default() })].into(),
        settings: Settings::default(),
    }
}

fn intent(balancers: &[(&str, Balancer)]) -> Intent {
    let balancers =
        balancers.iter().map(|(uid, balancer)| ((*uid).to_owned(), Arc::new(balancer.clone()))).collect();
    Intent { balancers, ..Intent::empty() }
}

/// Carries changes out on the value itself, as a data plane does on the machine.
fn apply(intent: &mut Intent, changes: Vec<Change>) {
    for change in changes {
        let uid = change.uid().clone();
        match change {
            Change::Remove(_) => assert!(intent.balancers.remove(&uid).is_some()),
            Change::Add(_, balancer) => assert!(intent.balancers.insert(uid, balancer).is_none()),
            change => apply_to(Arc::make_mut(intent.balancers.get_mut(&uid).unwrap()), change),
        }
    }
}

fn apply_to(balancer: &mut Balancer, change: Change) {
    match change {
        Change::Remove(_) | Change::Add(..) => unreachable!(),
        Change::Rename { cluster, namespace, name, .. } => {
            (balancer.cluster, balancer.namespace, balancer.name) = (cluster, namespace, name);
        }
        Change::RemoveAddress(_, address) => assert!(balancer.addresses.remove(&address)),
        Change::AddAddress(_, address) => assert!(balancer.addresses.insert(address)),
        Change::RemovePort(_, key) => assert!(balancer.ports.remove(&key).is_some()),
        Change::AddPort(_, key, port) => assert!(balancer.ports.insert(key, port).is_none()),
        Change::Deliver(_, key, delivery) => balancer.ports.get_mut(&key).unwrap().delivery = delivery,
        Change::RemoveBackend(_, key, backend) => {
            assert!(balancer.ports.get_mut(&key).unwrap().backends.remove(&backend));
        }
        Change::AddBackend(_, key, backend) => {
            assert!(balancer.ports.get_mut(&key).unwrap().backends.insert(backend));
        }
        Change::UpdateBackend(_, key, backend) => {
            let backends = &mut balancer.ports.get_mut(&key).unwrap().backends;
            let before = backends.len();
            backends.retain(|other| other.socket() != backend.socket());
            assert_eq!(backends.len(), before - 1);
            backends.insert(backend);
        }
        Change::Configure(_, settings) => balancer.settings = *settings,
    }
}

prop_compose! {
    fn any_backend()(node in 0..3_u8, address in 1..4_u8, port in 30000..30003_u16, weight in 0..3_u16) -> Backend {
        Backend { node: format!("node-{node}"), address: IpAddr::from([10, 0, 0, address]), port, weight }
    }
}

prop_compose! {
    fn any_port()(backends in btree_set(any_backend(), 0..5), unmodified: bool) -> Port {
        let delivery = if unmodified { Delivery::Unmodified } else { Delivery::Rewritten };
        let mut seen = BTreeSet::new();
        let backends = backends.into_iter().filter(|backend| seen.insert(backend.socket())).collect();
        Port { backends, delivery }
    }
}

prop_compose! {
    fn any_balancer()(
        cluster in proptest::option::of("[cd]"),
        name in "[ab]",
        addresses in btree_set((1..5_u8).prop_map(|last| IpAddr::from([192, 0, 2, last])), 0..3),
        ports in btree_map((any::<bool>(), 80..83_u16), any_port(), 0..3),
        connection_limit in 0..2_u32,
    ) -> Balancer {
        let ports = ports
            .into_iter()
            .map(|((udp, port), rest)| (if udp { PortKey::udp(port) } else { PortKey::tcp(port) }, rest))
            .collect();
        let settings = Settings { connection_limit, ..Settings::default() };
        Balancer { cluster, namespace: "shop".into(), name, addresses, ports, settings }
    }
}

prop_compose! {
    fn any_intent()(balancers in btree_map("[xyz]", any_balancer(), 0..4)) -> Intent {
        let balancers = balancers.into_iter().map(|(uid, balancer)| (uid, Arc::new(balancer))).collect();
        Intent { balancers, ..Intent::empty() }
    }
}

proptest! {
    #[test]
    fn a_plan_carried_out_gives_the_wanted_intent_and_then_plans_nothing(now in any_intent(), wanted in any_intent()) {
        let mut state = now.clone();
        apply(&mut state, plan(&now, &wanted));
        prop_assert_eq!(&state, &wanted);
        prop_assert_eq!(plan(&state, &wanted), vec![]);
    }

    #[test]
    fn an_intent_survives_its_own_format(intent in any_intent()) {
        let text = serde_json::to_string(&intent).unwrap();
        prop_assert_eq!(serde_json::from_str::<Intent>(&text).unwrap(), intent);
    }

    #[test]
    fn what_is_put_into_words_balancer_by_balancer_is_the_whole(
        intents in proptest::collection::vec(any_intent(), 1..4),
    ) {
        let mut words = words::Words::default();
        for intent in intents {
            let whole = serde_json::to_vec(&intent).unwrap();
            prop_assert_eq!(words.of(&intent).unwrap(), whole);
        }
    }
}

#[test]
fn an_address_is_freed_by_one_balancer_before_another_takes_it() {
    let web = balancer("192.0.2.1", PortKey::tcp(80), &[]);
    let changes = plan(&intent(&[("z", web.clone())]), &intent(&[("a", web.clone())]));
    assert_eq!(changes, [Change::Remove("z".into()), Change::Add("a".into(), Arc::new(web))]);
}

#[test]
fn a_port_whose_backends_all_change_is_never_empty_in_between() {
    let old = balancer("192.0.2.1", PortKey::tcp(80), &[backend("a", "10.0.0.1", 30080)]);
    let new = balancer("192.0.2.1", PortKey::tcp(80), &[backend("b", "10.0.0.2", 30080)]);
    let words: Vec<String> =
        plan(&intent(&[("u", old)]), &intent(&[("u", new)])).iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
        ["backend b (10.0.0.2:30080) of TCP/80 is missing", "backend a (10.0.0.1:30080) of TCP/80 is to go"]
    );
}

#[test]
fn the_written_form_is_the_one_that_is_documented() {
    let mut web = balancer("192.0.2.1", PortKey::tcp(443), &[backend("a", "10.0.0.1", 30443)]);
    web.cluster = Some("6a1f".into());
    web.settings.affinity = Affinity::ClientIp { timeout: Duration::from_secs(10_800) };
    web.settings.proxy_protocol = Some(ProxyProtocol::V2);
    web.settings.source_ranges = ["10.0.0.0/8".parse().unwrap()].into();
    web.settings.health_check = HealthCheck::of(Probe::Http { port: 32000, path: "/healthz".into() });
    web.settings.traffic_policy = TrafficPolicy::Local;
    let written = json!({
        "version": 1, "revision": 0,
        "balancers": { "uid-1": {
            "cluster": "6a1f", "namespace": "shop", "name": "web", "addresses": ["192.0.2.1"],
            "ports": { "TCP/443": {
                "backends": [{ "node": "a", "address": "10.0.0.1", "port": 30443, "weight": 1 }],
                "delivery": "rewritten",
            } },
            "settings": {
                "sourceRanges": ["10.0.0.0/8"], "affinity": { "clientIp": { "timeoutMs": 10_800_000 } },
                "algorithm": "roundRobin", "proxyProtocol": "v2", "clientAddress": "replaced",
                "healthCheck": {
                    "probe": { "http": { "port": 32000, "path": "/healthz" } },
                    "intervalMs": 1000, "timeoutMs": 700, "healthyAfter": 1, "unhealthyAfter": 2,
                },
                "idleTimeoutMs": 3_600_000, "udpIdleTimeoutMs": 60_000, "connectionLimit": 0,
                "drainTimeoutMs": 300_000, "trafficPolicy": "Local",
            },
        } },
    });
    assert_eq!(serde_json::to_value(intent(&[("uid-1", web.clone())])).unwrap(), written);
    assert_eq!(serde_json::from_value::<Intent>(written).unwrap(), intent(&[("uid-1", web)]));
}

#[test]
fn what_a_writer_left_out_gets_the_defaults() {
    let text = json!({ "version": 1, "balancers": { "u": {
        "namespace": "shop", "name": "web", "addresses": ["2001:db8::1"],
        "ports": { "UDP/53": { "backends": [{ "node": "a", "address": "10.0.0.1", "port": 30053 }] } },
    } } });
    let read: Intent = serde_json::from_value(text).unwrap();
    let web = balancer("2001:db8::1", PortKey::udp(53), &[backend("a", "10.0.0.1", 30053)]);
    assert_eq!(read, intent(&[("u", web)]));
}

#[test]
fn two_balancers_may_share_an_address_and_not_a_port_of_it() {
    let web = balancer("192.0.2.1", PortKey::tcp(80), &[]);
    let other = balancer("192.0.2.1", PortKey::udp(80), &[]);
    assert_eq!(intent(&[("a", web.clone()), ("b", other)]).check(), Ok(()));
    let refusal = intent(&[("a", web.clone()), ("b", web)]).check().unwrap_err();
    assert_eq!(refusal.to_string(), "TCP 192.0.2.1:80 is wanted by both shop/web and shop/web");
}

#[test]
fn an_intent_of_newer_code_is_refused() {
    let newer = Intent { version: VERSION + 1, ..Intent::empty() };
    assert_eq!(newer.check(), Err(Refusal::Newer(VERSION + 1)));
}

#[test]
fn a_backend_that_differs_only_in_its_weight_is_not_two() {
    let twice = [backend("a", "10.0.0.1", 80), Backend { weight: 2, ..backend("a", "10.0.0.1", 80) }];
    let refusal = intent(&[("u", balancer("192.0.2.1", PortKey::tcp(80), &twice))]).check().unwrap_err();
    assert!(matches!(refusal, Refusal::DoubleBackend { .. }), "{refusal}");
    let zero = intent(&[("u", balancer("192.0.2.1", PortKey::tcp(80), &[backend("a", "10.0.0.1", 0)]))]);
    assert!(matches!(zero.check(), Err(Refusal::PortZero { .. })));
}

#[test]
fn the_store_gives_back_what_was_last_written() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::at(directory.path().join("state").join("intent.json"));
    assert_eq!(store.read().unwrap(), None);
    for address in ["192.0.2.1", "192.0.2.2"] {
        let wanted = intent(&[("u", balancer(address, PortKey::tcp(80), &[]))]);
        store.write(&wanted).unwrap();
        assert_eq!(store.read().unwrap(), Some(wanted));
    }
    let files = std::fs::read_dir(directory.path().join("state")).unwrap().count();
    assert_eq!(files, 1, "a temporary file was left behind");
}

#[test]
fn a_write_that_fails_leaves_the_last_intent_and_says_where() {
    let directory = tempfile::tempdir().unwrap();
    let blocked = directory.path().join("file").join("intent.json");
    std::fs::write(directory.path().join("file"), "not a directory").unwrap();
    let error = Store::at(&blocked).write(&Intent::empty()).unwrap_err();
    assert_eq!(error.to_string(), format!("writing the intent to {}", blocked.display()));
}

#[test]
fn a_damaged_file_is_an_error_and_never_an_empty_intent() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("intent.json");
    std::fs::write(&path, r#"{"version": 1, "balancers": {"#).unwrap();
    assert!(matches!(Store::at(&path).read(), Err(StoreError::Parse(..))));
    std::fs::write(&path, r#"{"version": 99}"#).unwrap();
    assert!(matches!(Store::at(&path).read(), Err(StoreError::Refused(..))));
}
