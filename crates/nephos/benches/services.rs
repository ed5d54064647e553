//! Load balancers through the whole binary on a real API server: how long five hundred take, what one more node costs
//! them, and how long a new Service waits while a thousand old ones are looked at on a slow cloud. Exits with 1 above a
//! bound.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a measurement prints, and stops where it stands"
)]

#[allow(dead_code, reason = "the tests need more of it")]
#[path = "../tests/nephos/process.rs"]
mod process;
#[allow(dead_code, reason = "the tests need more of it")]
#[path = "../tests/nephos/scene.rs"]
mod scene;

use std::time::Duration;

use control_plane::kubelet::register_all;
use control_plane::{ControlPlane, Kubelet};
use futures::StreamExt as _;
use futures::stream;
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::{ListParams, PostParams};
use provider_fake::{Config, Effect, Fault, Operation};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::process::Nephos;
use crate::scene::Scene;

const PATIENCE: Duration = Duration::from_secs(300);

const SERVICES: usize = 500;
const MANY: usize = 1_000;

/// The time to the last address, in terms of the time that creating the Services takes.
const LAST_ADDRESS: f64 = 1.2;

/// How long a new Service may wait for its first call.
const FIRST_CALL: Duration = Duration::from_secs(1);

/// How many clients create Services at once.
const CREATORS: usize = 4;

#[tokio::main]
async fn main() {
    let cloud = Config { latency: Duration::from_millis(20), ..Config::default() };
    let scene = Scene::with(ControlPlane::builder(), cloud).await;
    let client = scene.client().await;
    let nodes = [worker(1), worker(2)];
    register_all(&client, &nodes, 2).await.expect("the nodes register");
    let services: Api<Service> = Api::default_namespaced(client.clone());
    let mut nephos = scene.nephos(&["--leader-elect=false"]);
    nephos.wait_for("Started \\\"service-lb-controller\\\"", PATIENCE).await;

    let mut kept = five_hundred(&scene, &services).await;
    kept &= one_more_node(&scene, &client).await;
    create(&services, SERVICES..MANY).await;
    addressed(&services, MANY).await;
    nephos.terminate();
    nephos.exit_code(PATIENCE).await;
    kept &= a_new_one_among_a_thousand(&scene, &services).await;
    assert_eq!(scene.world.violations(), Vec::<String>::new());
    scene.end().await;
    if !kept {
        std::process::exit(1);
    }
}

fn worker(number: usize) -> Kubelet {
    Kubelet::new(format!("worker-{number}")).provider_id(format!("fake://worker-{number}"))
}

async fn create(services: &Api<Service>, numbers: std::ops::Range<usize>) {
    let one = async |number: usize| {
        let service = serde_json::from_value(json!({
            "metadata": { "name": format!("web-{number:04}") },
            "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }], "selector": { "app": "web" } },
        }));
        services
            .create(&PostParams::default(), &service.expect("a Service"))
            .await
            .expect("creating a Service");
    };
    stream::iter(numbers).for_each_concurrent(CREATORS, one).await;
}

/// Waits until so many Services have an address.
async fn addressed(services: &Api<Service>, count: usize) {
    let began = Instant::now();
    loop {
        let listed = services.list(&ListParams::default()).await.expect("listing Services").items;
        let has_address = |service: &&Service| {
            let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
            balancer.and_then(|balancer| balancer.ingress.as_ref()).is_some_and(|ingress| !ingress.is_empty())
        };
        if listed.iter().filter(has_address).count() >= count {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "not all Services have an address within {PATIENCE:?}");
        sleep(Duration::from_millis(50)).await;
    }
}

async fn five_hundred(scene: &Scene, services: &Api<Service>) -> bool {
    let began = Instant::now();
    create(services, 0..SERVICES).await;
    let created = began.elapsed();
    addressed(services, SERVICES).await;
    let last = began.elapsed();
    let factor = last.as_secs_f64() / created.as_secs_f64();
    let calls = scene.world.counters().total();
    println!(
        "{SERVICES} Services, 20 ms a cloud call, {calls} calls: created in {created:.2?}, the last address after \
         {last:.2?}: {factor:.2} times (bound {LAST_ADDRESS})"
    );
    factor <= LAST_ADDRESS
}

async fn one_more_node(scene: &Scene, client: &kube::Client) -> bool {
    scene.world.reset_counters();
    let began = Instant::now();
    register_all(client, &[worker(3)], 1).await.expect("the node registers");
    let complete = || scene.world.contents().balancers.iter().all(|balancer| balancer.backends.len() == 3);
    while !complete() {
        assert!(began.elapsed() < PATIENCE, "not all load balancers have the node within {PATIENCE:?}");
        sleep(Duration::from_millis(50)).await;
    }
    let took = began.elapsed();
    sleep(Duration::from_secs(10)).await;
    let updates = scene.world.counters().of(Operation::SetBackends);
    println!("one more node: {updates} updates of {SERVICES} load balancers, complete after {took:.2?}");
    usize::try_from(updates).is_ok_and(|updates| updates == SERVICES)
}

/// A restart with a thousand Services on a cloud that takes two seconds a call, twenty at once.
async fn a_new_one_among_a_thousand(scene: &Scene, services: &Api<Service>) -> bool {
    scene.world.inject(Fault::new("*", Effect::Slow).after(Duration::from_secs(2))).expect("a fault");
    let mut nephos: Nephos = scene.nephos(&["--leader-elect=false", "--cloud-calls-in-flight=20"]);
    nephos.wait_for("Started \\\"service-lb-controller\\\"", PATIENCE).await;
    // Sixteen are for everybody; four are kept for creates.
    let began = Instant::now();
    while scene.world.counters().in_flight < 16 {
        assert!(began.elapsed() < PATIENCE, "the old ones are not looked at");
        sleep(Duration::from_millis(20)).await;
    }
    let mut waits = Vec::new();
    for number in MANY..MANY + 5 {
        scene.world.reset_counters();
        let created = Instant::now();
        create(services, number..number + 1).await;
        // Nothing but a create may be the seventeenth.
        while scene.world.counters().max_in_flight <= 16 {
            assert!(created.elapsed() < PATIENCE, "the new one is not called for");
            sleep(Duration::from_millis(5)).await;
        }
        waits.push(created.elapsed());
        while scene.world.counters().in_flight > 16 {
            sleep(Duration::from_millis(50)).await;
        }
        let looked = scene.world.counters().total();
        assert!(looked > 0, "the old ones are still looked at");
    }
    let longest = waits.iter().max().copied().unwrap_or_default();
    println!(
        "{MANY} Services looked at on a cloud of 2 s a call, 20 at once: a new one gets its first call after {waits:.2?} \
         (bound {FIRST_CALL:?})"
    );
    nephos.terminate();
    nephos.exit_code(PATIENCE).await;
    longest < FIRST_CALL
}
