//! Load balancers that go to the pods themselves follow them.

use cloud_controllers::service::Settings;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use provider_fake::Config;
use serde_json::json;
use testkit::service;
use tokio::time::sleep;

use crate::stage::{Process, Stage, secs};

fn slice(name: &str, of: &str, pods: &[&str]) -> EndpointSlice {
    let endpoints: Vec<_> = pods.iter().map(|ip| json!({"addresses": [ip], "nodeName": "a"})).collect();
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"namespace": "default", "name": name, "labels": {"kubernetes.io/service-name": of}},
        "addressType": "IPv4",
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        "endpoints": endpoints,
    });
    serde_json::from_value(slice).unwrap()
}

/// A Service without node ports that has its load balancer, in a cluster that has more of both kinds.
async fn provisioned() -> (Stage, Process) {
    let mut stage = Stage::new(1, Config::default());
    stage.pods = true;
    stage.server.create(&slice("direct-1", "direct", &["10.1.0.1"]));
    stage.server.create(&slice("usual-1", "usual", &["10.1.0.9"]));
    let process = stage.start(Settings::default());
    let mut direct = service("direct").load_balancer().port(80).build();
    direct.spec.as_mut().unwrap().allocate_load_balancer_node_ports = Some(false);
    stage.server.create(&direct);
    stage.server.create(&service("usual").load_balancer().port(80).build());
    stage.provisioned("direct").await;
    stage.provisioned("usual").await;
    sleep(secs(5)).await;
    (stage, process)
}

#[tokio::test(start_paused = true)]
async fn a_service_without_node_ports_is_given_its_pods_and_no_other_is() {
    let (stage, _process) = provisioned().await;
    assert_eq!(stage.script.pods_of("direct").unwrap(), ["10.1.0.1:8080"]);
    assert_eq!(stage.script.pods_of("usual"), None);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_pods_is_followed_at_once_by_their_service_alone_and_without_an_event() {
    let (stage, _process) = provisioned().await;
    stage.script.forget();
    stage.server.create(&slice("direct-2", "direct", &["10.1.0.2", "10.1.0.3"]));
    let expected = ["10.1.0.1:8080", "10.1.0.2:8080", "10.1.0.3:8080"].map(str::to_owned);
    let has = |pods: &[String]| {
        let pods = pods.to_vec();
        move |stage: &Stage| stage.script.pods_of("direct").as_deref() == Some(&pods[..])
    };
    let took = stage.until(secs(5), "the new pods", has(&expected)).await;
    assert!(took < secs(1), "{took:?}");

    stage.server.delete::<EndpointSlice>("default", "direct-1");
    stage.until(secs(5), "without the old ones", has(&expected[1..])).await;
    stage.server.modify::<EndpointSlice>("default", "usual-1", |slice| slice.endpoints.clear());
    sleep(secs(60)).await;
    assert_eq!((stage.script.count("update"), stage.script.count("ensure")), (2, 0));
    assert!(stage.script.calls_for("usual").is_empty());
    assert_eq!(stage.message("direct", "UpdatedLoadBalancer"), None, "pods come and go all the time");
}

#[tokio::test(start_paused = true)]
async fn a_new_node_is_told_to_those_that_go_to_pods_too() {
    let (stage, _process) = provisioned().await;
    stage.script.forget();
    stage.add_node("c", "10.0.0.3");
    sleep(secs(60)).await;
    assert_eq!(stage.script.count("update"), 2);
    assert_eq!(stage.script.pods_of("direct").unwrap(), ["10.1.0.1:8080"]);
    assert!(stage.message("direct", "UpdatedLoadBalancer").is_some());
}
