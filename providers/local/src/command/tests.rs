use cloud_provider::Decision;

use super::*;
use crate::intent::status::{BackendStatus, BalancerStatus, Health, ListenerStatus};
use crate::intent::{Backend, Balancer, Intent, Port, PortKey, Settings, Status};

#[test]
fn a_good_config_is_summed_up_and_a_bad_inventory_is_told_by_line() {
    let dir = tempfile::tempdir().unwrap();
    let (config, machines) = (dir.path().join("local.yaml"), dir.path().join("machines.yaml"));
    std::fs::write(
        &config,
        "site: lab\ninventory: machines.yaml\npools:\n- {name: lan, addresses: [192.0.2.7]}\n",
    )
    .unwrap();
    std::fs::write(&machines, "machines: [{name: a}, {name: b}]\n").unwrap();
    let said = checked(&config).unwrap();
    assert!(said.contains("site      lab\nmachines  2 in "), "{said}");
    assert!(said.ends_with("pool      lan: 192.0.2.7\n"), "{said}");

    std::fs::write(&machines, "machines:\n- {name: a}\n- {name: a}\n").unwrap();
    let error = checked(&config).unwrap_err();
    assert_eq!(error.decision(), &Decision::InvalidConfig);
    assert!(error.report().contains("machines.yaml:3: "), "{}", error.report());
}

#[tokio::test]
async fn a_wrong_argument_is_an_error_and_help_is_not() {
    for command in ALL {
        let wrong = (command.run)(vec!["--no-such-flag".to_owned()]).await;
        assert!(wrong.unwrap_err().report().contains("--no-such-flag"), "{command:?}");
        (command.run)(vec!["--help".to_owned()]).await.unwrap();
    }
}

#[test]
fn the_overview_tells_what_is_not_open_and_who_is_not_healthy() {
    let backend = Backend { node: "a".into(), address: [10, 0, 0, 1].into(), port: 30080, weight: 1 };
    let balancer = Balancer {
        cluster: None,
        namespace: "default".into(),
        name: "web".into(),
        addresses: ["192.0.2.7".parse().unwrap()].into(),
        ports: [(PortKey::tcp(80), Port { backends: [backend.clone()].into(), ..Port::default() })].into(),
        settings: Settings::default(),
    };
    let listener = balancer.listeners().next().unwrap();
    let told = BalancerStatus {
        listeners: vec![ListenerStatus { listener, failure: Some("address in use".into()) }],
        backends: vec![BackendStatus {
            port: PortKey::tcp(80),
            backend,
            health: Health::Unhealthy { why: "connection refused".into() },
            connections: Some(3),
            draining: false,
        }],
        problems: Vec::new(),
    };
    let intent =
        Intent { revision: 4, balancers: [("u".to_owned(), balancer.into())].into(), ..Intent::empty() };
    let status = Status { revision: 4, balancers: [("u".to_owned(), told)].into() };
    assert_eq!(
        overview::of(&intent, &status),
        "revision 4, 1 balancers\n\ndefault/web\n  TCP 192.0.2.7:80  NOT OPEN: address in use\n    \
         a (10.0.0.1:30080)  unhealthy: connection refused, 3 connections\n"
    );
}
