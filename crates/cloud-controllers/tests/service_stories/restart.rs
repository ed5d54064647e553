//! What was there before this process: other processes of ours, other managers, and what happened in between.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use cloud_controllers::around::budget;
use cloud_controllers::around::gate::Mode;
use cloud_controllers::service::Settings;
use cloud_provider::ownership::{CLUSTER_TAG, OWNER_TAG};
use k8s_openapi::api::core::v1::Service;
use provider_fake::objects::Balancer;
use provider_fake::{Config, Effect, Fault};
use testkit::{Requests, service};
use tokio::time::{Instant, sleep};

use crate::stage::{CLUSTER, FINALIZER, Stage, secs};

async fn after_a_life_with(services: usize, config: Config) -> Stage {
    let stage = Stage::new(1, config);
    let process = stage.start(Settings::default());
    for number in 0..services {
        stage.server.create(&service(&format!("web-{number}")).load_balancer().port(80).build());
    }
    for number in 0..services {
        stage.provisioned(&format!("web-{number}")).await;
    }
    sleep(secs(5)).await;
    process.stop().await;
    stage.script.forget();
    stage.world.reset_counters();
    stage
}

fn event_writes(stage: &Stage) -> Requests {
    stage.server.requests().user_agent("events").writes()
}

/// Proves: SVC-9, SVC-12, COST-8, WEAK-3
#[tokio::test(start_paused = true)]
async fn a_restart_touches_nothing_that_did_not_change() {
    let stage = after_a_life_with(50, Config::default()).await;
    let (writes, events) = (stage.writes().count(), event_writes(&stage).count());
    let _process = stage.start(Settings::default());
    sleep(secs(120)).await;
    assert_eq!((stage.script.count("get"), stage.script.count("ensure")), (50, 0));
    assert_eq!(stage.world.counters().writes, 0);
    assert_eq!((stage.writes().count(), event_writes(&stage).count()), (writes, events));
    // Everything is known again: a new node is followed, an edit is made.
    stage.add_node("c", "10.0.0.3");
    stage
        .until(secs(10), "the backends", |stage| {
            stage.balancers().iter().all(|balancer| balancer.backends.len() == 3)
        })
        .await;
    assert_eq!((stage.script.count("update"), stage.script.count("ensure")), (50, 0));
    stage.assert_sound();
}

#[tokio::test(start_paused = true)]
async fn what_changed_meanwhile_is_made_up_for() {
    let stage = after_a_life_with(4, Config::default()).await;
    stage.edit("web-0", |service| service.spec.as_mut().unwrap().ports.as_mut().unwrap()[0].port = 8080);
    stage.server.delete::<Service>("default", "web-1");
    stage.edit("web-2", |service| service.spec.as_mut().unwrap().type_ = Some("ClusterIP".into()));
    stage.edit("web-3", |service| service.status = None);
    stage.add_node("c", "10.0.0.3");
    let _process = stage.start(Settings::default());
    stage.gone("web-1").await;
    stage
        .until(secs(20), "the rest", |stage| {
            let balancers = stage.balancers();
            balancers.len() == 2
                && balancers.iter().any(|each| each.settings.listeners[0].port == 8080)
                && balancers.iter().all(|each| each.backends.len() == 3)
                && !stage.is_held("web-2")
                && !stage.addresses("web-3").is_empty()
        })
        .await;
    stage.assert_sound();
}

/// Proves: COST-8
#[tokio::test(start_paused = true)]
async fn a_new_service_is_served_at_once_while_a_thousand_old_ones_are_looked_at_on_a_slow_cloud() {
    let stage = after_a_life_with(0, Config { latency: secs(2), ..Config::default() }).await;
    let mut stage = stage;
    stage.budget = budget::Settings { slots: NonZeroUsize::new(20).unwrap(), ..budget::Settings::default() };
    for number in 0..1000 {
        let made = service(&format!("old-{number}")).load_balancer().port(80).finalizer(FINALIZER).build();
        stage.server.create(&made);
        stage.server.modify::<Service>("default", &format!("old-{number}"), |service| {
            let status = testkit::service("x").ingress_ip("203.0.113.250").build().status;
            service.status = status;
        });
    }
    let _process = stage.start(Settings::default());
    sleep(secs(30)).await;
    assert!(stage.script.count("get") >= 16, "the old ones are under way");
    for name in ["new-1", "new-2"] {
        let created = Instant::now();
        stage.server.create(&service(name).load_balancer().port(80).build());
        stage.until(secs(5), "a call", |stage| !stage.script.calls_for(name).is_empty()).await;
        let (call, at) = stage.script.calls_for(name)[0];
        assert_eq!(call, "ensure");
        assert!(at - created < secs(1), "{:?}", at - created);
        sleep(secs(1)).await;
    }
}

/// Proves: IFACE-13
#[tokio::test(start_paused = true)]
async fn a_balancer_that_a_go_manager_left_is_taken_over_as_it_is_and_then_is_ours() {
    let stage = Stage::new(1, Config::default());
    let web = stage.server.create(&service("web").load_balancer().port(80).finalizer(FINALIZER).build());
    let uid = web.metadata.uid.clone().unwrap();
    let name: String = format!("a{}", uid.replace('-', "")).chars().take(32).collect();
    let port = web.spec.unwrap().ports.unwrap()[0].clone();
    let ip: IpAddr = "203.0.113.77".parse().unwrap();
    let mut left = Balancer::new(name);
    left.addresses.insert("eip-1".into(), ip);
    left.settings.listeners = vec![provider_fake::objects::Listener::new(
        cloud_provider::load_balancer::Protocol::Tcp,
        80,
        port.node_port.map(|port| u16::try_from(port).unwrap()),
    )];
    left.backends = ["a".to_owned(), "b".to_owned()].into();
    let id = stage.world.plant_balancer(left, None);
    stage.edit("web", |service| {
        service.status = testkit::service("x").ingress_ip("203.0.113.77").build().status;
    });

    let process = stage.start(Settings::default());
    stage.until(secs(10), "our tags", |stage| stage.balancers()[0].tags.contains_key(CLUSTER_TAG)).await;
    sleep(secs(30)).await;
    let [balancer] = &stage.balancers()[..] else { panic!("{:?}", stage.balancers()) };
    assert_eq!((&balancer.id, balancer.addresses.values().next()), (&id, Some(&ip)));
    assert_eq!(balancer.tags[CLUSTER_TAG], CLUSTER);
    assert_eq!(balancer.tags[OWNER_TAG], uid);
    assert_eq!(stage.addresses("web")[0].0, "203.0.113.77");
    let created =
        stage.world.counters().by_operation.keys().filter(|name| name.starts_with("create")).count();
    assert_eq!(created, 0, "nothing was made anew");
    process.stop().await;

    // From now on it is ours: not touched by a restart, edited, removed.
    stage.world.reset_counters();
    let _process = stage.start(Settings::default());
    sleep(secs(30)).await;
    assert_eq!(stage.world.counters().writes, 0);
    stage.edit("web", |service| service.spec.as_mut().unwrap().ports.as_mut().unwrap()[0].port = 8080);
    stage.until(secs(10), "an edit", |stage| stage.balancers()[0].settings.listeners[0].port == 8080).await;
    assert_eq!(stage.addresses("web")[0].0, "203.0.113.77");
    stage.server.delete::<Service>("default", "web");
    stage.gone("web").await;
    assert!(stage.balancers().is_empty() && stage.world.contents().addresses.is_empty());
    stage.assert_sound();
}

#[tokio::test(start_paused = true)]
async fn a_second_cluster_of_the_same_name_is_neither_adopted_nor_removed() {
    let stage = Stage::new(1, Config::default());
    let web = stage.server.create(&service("web").load_balancer().port(80).build());
    let name: String = format!("a{}", web.metadata.uid.unwrap().replace('-', "")).chars().take(32).collect();
    let theirs = Balancer::new(name).tagged(CLUSTER_TAG, "cluster-2");
    stage.world.plant_balancer(theirs, Some("cluster-2"));
    let _process = stage.start(Settings::default());
    sleep(secs(60)).await;
    let (_, reason, message) = stage.condition("web", "LoadBalancerProvisioned").unwrap();
    assert_eq!(reason, "NotOwned", "{message}");
    stage.server.delete::<Service>("default", "web");
    sleep(secs(60)).await;
    assert_eq!(stage.balancers().len(), 1);
    stage.assert_sound();
}

#[tokio::test(start_paused = true)]
async fn in_observe_mode_nothing_is_written_anywhere() {
    let mut stage = after_a_life_with(1, Config::default()).await;
    stage.mode = Mode::Observe;
    let (writes, events) = (stage.writes().count(), event_writes(&stage).count());
    let _process = stage.start(Settings::default());
    stage.server.create(&service("new").load_balancer().port(80).build());
    stage.edit("web-0", |service| service.spec.as_mut().unwrap().ports.as_mut().unwrap()[0].port = 8080);
    stage.add_node("c", "10.0.0.3");
    sleep(secs(120)).await;
    stage.server.delete::<Service>("default", "web-0");
    sleep(secs(4000)).await;
    assert_eq!(stage.world.counters().writes, 0);
    assert_eq!((stage.writes().count(), event_writes(&stage).count()), (writes, events));
}

#[tokio::test(start_paused = true)]
async fn a_first_look_that_fails_is_repeated_and_touches_nothing() {
    let stage = after_a_life_with(1, Config::default()).await;
    stage.world.inject(Fault::new("reads", Effect::Unauthorized).times(3)).unwrap();
    let address = stage.addresses("web-0");
    let _process = stage.start(Settings::default());
    sleep(secs(120)).await;
    assert_eq!((stage.world.counters().writes, stage.script.count("ensure")), (0, 0));
    assert_eq!(stage.addresses("web-0"), address);
    assert!(stage.has_event("web-0", "SyncLoadBalancerFailed"));
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_for_five_minutes_costs_no_balancer() {
    let stage = after_a_life_with(10, Config::default()).await;
    let _process = stage.start(Settings::default());
    sleep(secs(30)).await;
    stage.server.faults().down_for(secs(300));
    sleep(secs(200)).await;
    stage.world.reset_counters();
    sleep(secs(200)).await;
    assert_eq!((stage.balancers().len(), stage.world.counters().writes), (10, 0));
    stage.server.faults().travel_back(20, secs(60));
    sleep(Duration::from_secs(120)).await;
    assert_eq!((stage.balancers().len(), stage.world.counters().writes), (10, 0));
    stage.assert_sound();
}
