//! Random stories under random faults, by seed: whatever happened on the way, the end is what an undisturbed cloud has.

use std::time::Duration;

use cloud_provider::load_balancer::Spec;
use cloud_provider::{Cloud, Route};
use provider_fake::objects::{Balancer, RouteEntry};
use provider_fake::{Config, Effect, Fault, World};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::support::{CLUSTER, UID, balancers, cluster, fake, open_gate, spec_of};

const SEEDS: u64 = 60;
const STEPS: u64 = 25;

/// A cloud in which much goes wrong: one call in four, lists half a minute late, balancers that take their time.
fn rough(seed: u64) -> Config {
    let effects =
        [Effect::Fail, Effect::LoseAnswer, Effect::Throttle, Effect::Conflict, Effect::Unauthorized];
    let faults = effects.map(|effect| Fault::new("*", effect).with_probability(0.05)).to_vec();
    let lag = Duration::from_secs(30);
    Config {
        seed,
        faults,
        page_size: 2,
        latency: Duration::from_millis(20),
        invisible_for: lag,
        visible_after_delete: lag,
        balancer_ready_after: Duration::from_secs(10),
        ..Config::default()
    }
}

fn some_spec(rng: &mut SmallRng) -> Spec {
    let ports = [80, 443, 8080].map(|port| json!({ "port": port, "nodePort": 30000 + port }));
    let families: [Value; 3] = [json!(["IPv4"]), json!(["IPv6"]), json!(["IPv4", "IPv6"])];
    let fields = json!({
        "ports": &ports[..rng.random_range(1..=3)],
        "ipFamilies": families.choose(rng),
        "sessionAffinity": if rng.random_bool(0.5) { "ClientIP" } else { "None" },
    });
    let nodes = ["a", "b", "c"];
    spec_of(&fields, &nodes[..rng.random_range(0..=3)], CLUSTER)
}

fn some_route(rng: &mut SmallRng) -> Route {
    let network = format!("10.244.{}.0/24", rng.random_range(0..4));
    Route::new(network.parse().unwrap()).to_node("a", Vec::new())
}

/// One step; what fails, fails.
async fn step(cloud: &Cloud, rng: &mut SmallRng) {
    let spec = some_spec(rng);
    let (gate, routes) = (open_gate(), cloud.routes.as_ref().unwrap());
    match rng.random_range(0..6) {
        0 | 1 => drop(balancers(cloud).ensure(&spec, &gate).await),
        2 => drop(balancers(cloud).update_backends(&spec, &gate).await),
        3 => drop(balancers(cloud).delete(&spec.identity, None, &gate).await),
        4 => drop(routes.create(&cluster(CLUSTER), "uid", &some_route(rng), &gate).await),
        _ => {
            if let Some(route) =
                routes.list(&cluster(CLUSTER)).await.ok().and_then(|all| all.first().cloned())
            {
                drop(routes.delete(&cluster(CLUSTER), &route, &gate).await);
            }
        }
    }
    tokio::time::advance(Duration::from_secs(rng.random_range(0..20))).await;
}

/// What matters of the end: not the IDs, not which address it is.
fn picture(world: &World) -> (Vec<Balancer>, usize, Vec<RouteEntry>) {
    let contents = world.contents();
    let balancers = contents.balancers.into_iter().map(|balancer| Balancer {
        id: String::new(),
        addresses: [].into(),
        ..balancer
    });
    let routes = contents.routes.into_iter().map(|route| RouteEntry { id: String::new(), ..route });
    (balancers.collect(), contents.addresses.len(), routes.collect())
}

/// Ensures until it is done; pending balancers take a few rounds.
async fn settle(cloud: &Cloud, spec: &Spec) {
    for _ in 0..5 {
        tokio::time::advance(Duration::from_secs(60)).await;
        if balancers(cloud).ensure(spec, &open_gate()).await.is_ok() {
            return;
        }
    }
    panic!("it never settles");
}

#[tokio::test(start_paused = true)]
async fn once_the_faults_stop_every_story_ends_as_if_there_had_been_none() {
    let mut refused = 0;
    for seed in 0..SEEDS {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (world, cloud) = fake(rough(seed));
        for _ in 0..STEPS {
            step(&cloud, &mut rng).await;
        }
        refused += world.counters().total() - world.counters().by_outcome["ok"];
        world.clear_faults();
        let last = some_spec(&mut rng);
        settle(&cloud, &last).await;

        let (calm, calm_cloud) = fake(Config::default());
        settle(&calm_cloud, &last).await;
        let (balancers_now, addresses_now, routes) = picture(&world);
        let (balancers_calm, addresses_calm, _) = picture(&calm);
        assert_eq!((balancers_now, addresses_now), (balancers_calm, addresses_calm), "seed {seed}");
        let mut networks: Vec<String> = routes.iter().map(|route| route.destination.to_string()).collect();
        networks.sort();
        networks.dedup();
        assert_eq!(networks.len(), routes.len(), "seed {seed}: a route twice");

        balancers(&cloud).delete(&last.identity, None, &open_gate()).await.unwrap();
        world.owner_gone(UID);
        assert_eq!(world.violations(), [""; 0], "seed {seed}");
        assert_eq!(world.counters().in_flight, 0);
    }
    assert!(refused > SEEDS * 5, "the clouds were too kind: {refused} refusals");
}
