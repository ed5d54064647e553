//! The cache on an API server that misbehaves, in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controller_kit::cache::{Cache, Change, Key, Listener, Metrics, Scope, trim};
use controller_kit::lifecycle::Shutdown;
use controller_kit::random::Randomness;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use prometheus_client::registry::Registry;
use testkit::{ApiServer, Fault, Verb, When, node};
use tokio::time::{sleep, timeout};

struct Setting {
    server: ApiServer,
    cache: Cache<Node>,
    stop: Shutdown,
    registry: Registry,
}

/// A running cache of Nodes on a new server.
fn setting(seed: u64) -> Setting {
    let server = ApiServer::new(seed);
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let keep = ["alpha.kubernetes.io/provided-node-ip"];
    let cache =
        Cache::new(server.client(), Scope::default(), trim::node(keep), Randomness::seeded(seed), &metrics);
    Setting { server, cache, stop: Shutdown::new(), registry }
}

impl Setting {
    fn run(&self) {
        let (cache, stop) = (self.cache.clone(), self.stop.clone());
        tokio::spawn(async move { cache.run(&stop).await });
    }

    fn label(&self, name: &str, value: &str) {
        self.server.modify::<Node>("", name, |node| {
            node.labels_mut().insert("l".into(), value.into());
        });
    }

    fn cached_label(&self, name: &str) -> Option<String> {
        self.cache.get(&Key::cluster(name))?.labels().get("l").cloned()
    }

    /// Waits until the cache shows what the server has, and checks that it does so within a time.
    async fn converges_within(&self, patience: Duration) {
        let versions = |nodes: &[Node]| -> BTreeMap<String, Option<String>> {
            nodes.iter().map(|node| (node.name_any(), node.resource_version())).collect()
        };
        let same = async {
            loop {
                let cached: Vec<Node> = self.cache.list().iter().map(|node| Node::clone(node)).collect();
                if versions(&cached) == versions(&self.server.list::<Node>()) {
                    return;
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(patience, same).await.unwrap_or_else(|_| panic!("no convergence:\n{}", self.server.trace()));
    }

    fn metric(&self, line: &str) -> u64 {
        let text = controller_kit::metrics::encode(&self.registry).unwrap();
        let value = text.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().unwrap())
    }
}

/// What a listener has been told; panics on a step that cannot follow.
#[derive(Default)]
struct Picture {
    nodes: BTreeMap<String, Arc<Node>>,
    steps: Vec<String>,
}

impl Picture {
    fn take(&mut self, change: Change<Node>) {
        match change {
            Change::Added(new) => {
                self.steps.push(format!("+{}", new.name_any()));
                assert!(self.nodes.insert(new.name_any(), new).is_none(), "added twice");
            }
            Change::Updated { old, new } => {
                self.steps.push(format!("~{}", new.name_any()));
                let known = self.nodes.insert(new.name_any(), new.clone()).unwrap();
                assert_eq!(known.resource_version(), old.resource_version());
                assert_eq!(old.uid(), new.uid());
                let number = |node: &Node| node.resource_version().unwrap().parse::<u64>().unwrap();
                assert!(number(&new) > number(&old), "time ran backwards");
            }
            Change::Deleted(last) => {
                self.steps.push(format!("-{}", last.name_any()));
                assert_eq!(self.nodes.remove(&last.name_any()).unwrap().uid(), last.uid());
            }
            Change::Synced => self.steps.push("synced".into()),
        }
    }

    /// Reads until nothing new has come for a while.
    async fn read(&mut self, listener: &mut Listener<Node>) -> Vec<String> {
        while let Ok(Some(change)) = timeout(Duration::from_secs(5), listener.next()).await {
            self.take(change);
        }
        std::mem::take(&mut self.steps)
    }
}

#[tokio::test(start_paused = true)]
async fn listeners_are_told_what_exists_then_that_it_is_all_then_what_changes() {
    let setting = setting(1);
    setting.server.create(&node("a").ready().build());
    setting.server.create(&node("b").ready().build());
    let (mut early, mut seen) = (setting.cache.subscribe(), Picture::default());
    assert!(!setting.cache.is_synced() && setting.cache.silence().is_none());
    setting.run();
    setting.cache.wait_synced().await;
    assert_eq!(seen.read(&mut early).await, ["+a", "+b", "synced"]);
    let (mut late, mut seen_late) = (setting.cache.subscribe(), Picture::default());
    assert_eq!(seen_late.read(&mut late).await, ["+a", "+b", "synced"]);
    setting.label("a", "1");
    setting.server.delete::<Node>("", "b");
    setting.server.create(&node("c").build());
    for (picture, listener) in [(&mut seen, &mut early), (&mut seen_late, &mut late)] {
        assert_eq!(picture.read(listener).await, ["~a", "-b", "+c"]);
    }
    assert_eq!(setting.cache.len(), 2);
    assert_eq!(setting.metric(r#"cache_objects{kind="Node"}"#), 2);
    assert_eq!(setting.server.requests().verb(Verb::Watch).count(), 1, "one watch for all listeners");
}

#[tokio::test(start_paused = true)]
async fn what_is_trimmed_is_not_stored() {
    let setting = setting(2);
    let mut big = node("a").internal_ip("10.0.0.1").provided_node_ip("10.0.0.1").ready().build();
    big.annotations_mut().insert("somebody.else/notes".into(), "x".repeat(1000));
    big.annotations_mut().insert("kubectl.kubernetes.io/last-applied-configuration".into(), "{}".into());
    let image: k8s_openapi::api::core::v1::ContainerImage =
        serde_json::from_value(serde_json::json!({"names": ["i"], "sizeBytes": 1})).unwrap();
    big.status.as_mut().unwrap().images = Some(vec![image]);
    setting.server.create(&big);
    setting.server.modify::<Node>("", "a", |node| {
        node.status.get_or_insert_default().images = big.status.as_ref().unwrap().images.clone();
    });
    setting.run();
    setting.cache.wait_synced().await;
    let cached = setting.cache.get(&Key::cluster("a")).unwrap();
    let annotations: Vec<_> = cached.annotations().keys().collect();
    assert_eq!(annotations, ["alpha.kubernetes.io/provided-node-ip"]);
    let status = cached.status.clone().unwrap();
    assert_eq!((status.images, status.addresses.unwrap().len()), (None, 1));
    assert!(cached.metadata.managed_fields.is_none() && cached.uid().is_some());
    // A change that the watch tells is trimmed too.
    setting.label("a", "1");
    setting.converges_within(Duration::from_secs(5)).await;
    let again = setting.cache.get(&Key::cluster("a")).unwrap();
    assert_eq!(again.annotations().len(), 1);
    assert!(again.status.as_ref().unwrap().images.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_expired_watch_leads_to_a_list_that_repairs_the_chain() {
    let setting = setting(3);
    for name in ["a", "b", "c"] {
        setting.server.create(&node(name).build());
    }
    let (mut listener, mut seen) = (setting.cache.subscribe(), Picture::default());
    setting.run();
    assert_eq!(seen.read(&mut listener).await, ["+a", "+b", "+c", "synced"]);
    // While nobody listens: one is deleted, one is replaced by a namesake, one changes, one is new.
    setting.server.faults().down_for(Duration::from_secs(60));
    setting.server.delete::<Node>("", "a");
    setting.server.delete::<Node>("", "b");
    setting.server.create(&node("b").build());
    setting.label("c", "1");
    setting.server.create(&node("d").build());
    setting.server.faults().forget_history();
    sleep(Duration::from_secs(120)).await;
    assert_eq!(seen.read(&mut listener).await, ["-a", "-b", "+b", "~c", "+d"]);
    setting.converges_within(Duration::from_secs(1)).await;
    assert_eq!(
        setting.server.requests().verb(Verb::List).kind("Node").filter(|request| request.code == 200).count(),
        2
    );
}

#[tokio::test(start_paused = true)]
async fn a_dropped_watch_is_resumed_without_a_list() {
    let setting = setting(4);
    setting.server.create(&node("a").build());
    setting.run();
    setting.cache.wait_synced().await;
    setting.server.faults().drop_watches();
    setting.label("a", "1");
    setting.converges_within(Duration::from_secs(10)).await;
    setting.server.faults().break_watches();
    setting.label("a", "2");
    setting.converges_within(Duration::from_secs(10)).await;
    assert_eq!(setting.server.requests().verb(Verb::List).kind("Node").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_silence_costs_few_requests_and_no_list() {
    let setting = setting(5);
    setting.run();
    setting.cache.wait_synced().await;
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(setting.server.requests().verb(Verb::List).kind("Node").count(), 1);
    let watches = setting.server.requests().verb(Verb::Watch).count();
    assert!((13..=19).contains(&watches), "{watches} watches of 200 to 290 s");
    assert!(setting.cache.silence().unwrap() < Duration::from_secs(300));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_has_gone_deaf_is_given_up() {
    let setting = setting(6);
    setting.server.create(&node("a").build());
    let silence = Fault::StallWatch { after: Duration::ZERO, lasting: Duration::from_secs(36_000) };
    setting.server.faults().once(When::watches(), silence);
    setting.run();
    setting.cache.wait_synced().await;
    setting.label("a", "1");
    sleep(Duration::from_secs(305)).await;
    assert_eq!(setting.cached_label("a").as_deref(), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn failures_are_waited_out_with_growing_pauses_and_nothing_is_lost() {
    let setting = setting(7);
    setting.server.create(&node("a").build());
    setting.run();
    setting.cache.wait_synced().await;
    let mark = setting.server.elapsed();
    setting.server.faults().down_for(Duration::from_secs(300));
    setting.label("a", "during");
    sleep(Duration::from_secs(299)).await;
    assert_eq!(setting.cache.len(), 1, "an outage is no absence");
    let tries = setting.server.requests().since(mark).count();
    assert!((6..=20).contains(&tries), "{tries} tries in five minutes");
    sleep(Duration::from_secs(62)).await;
    assert_eq!(setting.cached_label("a").as_deref(), Some("during"));
    assert!(setting.metric(r#"cache_watches_total{kind="Node",result="error"}"#) > 3);
}

#[tokio::test(start_paused = true)]
async fn the_first_list_is_tried_until_it_works() {
    let setting = setting(8);
    setting.server.create(&node("a").build());
    setting.server.faults().always(When::verb(Verb::List).times(4), Fault::Forbidden);
    setting.run();
    let (mut listener, mut seen) = (setting.cache.subscribe(), Picture::default());
    timeout(Duration::from_secs(60), setting.cache.wait_synced()).await.unwrap();
    assert_eq!(seen.read(&mut listener).await, ["+a", "synced"]);
}

/// The fault that Sieve calls time travel: after a reconnect the answers come from a server that is behind.
#[tokio::test(start_paused = true)]
async fn a_server_that_is_behind_rolls_nothing_back() {
    let setting = setting(9);
    for name in ["a", "b"] {
        setting.server.create(&node(name).build());
    }
    let (mut listener, mut seen) = (setting.cache.subscribe(), Picture::default());
    setting.run();
    setting.cache.wait_synced().await;
    setting.label("a", "new");
    setting.server.delete::<Node>("", "b");
    setting.server.create(&node("c").build());
    assert_eq!(seen.read(&mut listener).await, ["+a", "+b", "synced", "~a", "-b", "+c"]);
    // The watch cannot be resumed, so there has to be a list, and the cache that would answer it knows none of this.
    setting.server.faults().travel_back(6, Duration::from_secs(90));
    setting.server.faults().once(When::watches(), Fault::ExpireWatch(Duration::ZERO));
    for _ in 0..120 {
        sleep(Duration::from_secs(1)).await;
        assert_eq!(setting.cached_label("a").as_deref(), Some("new"), "a was not rolled back");
        let names: Vec<_> = setting.cache.list().iter().map(|node| node.name_any()).collect();
        assert_eq!(names, ["a", "c"], "b did not come back, c did not vanish");
    }
    assert_eq!(seen.read(&mut listener).await, [""; 0]);
    setting.label("a", "newer");
    assert_eq!(seen.read(&mut listener).await, ["~a"], "and it follows again");
}

#[tokio::test(start_paused = true)]
async fn a_server_on_which_no_watch_lasts_is_not_flooded_with_lists() {
    let setting = setting(11);
    setting.server.create(&node("a").build());
    setting.server.faults().always(When::watches(), Fault::ExpireWatch(Duration::ZERO));
    setting.run();
    sleep(Duration::from_secs(600)).await;
    let lists = setting.server.requests().verb(Verb::List).kind("Node").count();
    assert!((10..=30).contains(&lists), "{lists} lists in ten minutes");
    setting.label("a", "1");
    sleep(Duration::from_secs(61)).await;
    assert_eq!(setting.cached_label("a").as_deref(), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn a_stopped_cache_ends_its_listeners_after_their_mail() {
    let setting = setting(10);
    setting.server.create(&node("a").build());
    setting.run();
    setting.cache.wait_synced().await;
    let mut listener = setting.cache.subscribe();
    setting.stop.trigger();
    assert!(matches!(listener.next().await, Some(Change::Added(_))));
    assert!(matches!(listener.next().await, Some(Change::Synced)));
    assert!(timeout(Duration::from_secs(1), listener.next()).await.unwrap().is_none());
    assert!(matches!(setting.cache.subscribe().next().await, Some(Change::Added(_))), "the last state stays");
}

/// Whatever happens, each listener's steps follow from each other, and cache and server agree in the end.
#[tokio::test(start_paused = true)]
async fn any_mix_of_faults_ends_in_agreement() {
    for seed in 0..40 {
        let setting = setting(seed);
        let faults = setting.server.faults();
        faults.always(When::watches().with_probability(0.3), Fault::ExpireWatch(Duration::from_secs(7)));
        faults.always(When::watches().with_probability(0.3), Fault::BreakWatch(Duration::from_secs(3)));
        faults.always(When::reads().with_probability(0.3), Fault::Unavailable);
        faults.always(When::reads().with_probability(0.2), Fault::StaleRead { revisions: 5 });
        faults.always(When::reads().with_probability(0.2), Fault::LostAnswer);
        setting.run();
        let (mut quick, mut seen) = (setting.cache.subscribe(), Picture::default());
        let mut slow = setting.cache.subscribe();
        let chance = Randomness::seeded(seed ^ 0xff);
        for step in 0..120 {
            let name = ["a", "b", "c", "d"][step * 7 % 4];
            let exists = setting.server.get::<Node>("", name).is_some();
            match (exists, chance.unit() < 0.3) {
                (false, _) => drop(setting.server.create(&node(name).build())),
                (true, true) => setting.server.delete::<Node>("", name),
                (true, false) => setting.label(name, &step.to_string()),
            }
            if chance.unit() < 0.05 {
                faults.travel_back(4, Duration::from_secs(20));
            }
            sleep(Duration::from_secs(2)).await;
            while let Some(change) = quick.try_next() {
                seen.take(change);
            }
        }
        faults.clear();
        setting.converges_within(Duration::from_secs(120)).await;
        seen.read(&mut quick).await;
        let mut seen_late = Picture::default();
        seen_late.read(&mut slow).await;
        for picture in [&seen, &seen_late] {
            let told: Vec<_> = picture.nodes.values().map(|node| node.resource_version()).collect();
            let cached: Vec<_> = setting.cache.list().iter().map(|node| node.resource_version()).collect();
            assert_eq!(told, cached, "seed {seed}");
        }
        setting.stop.trigger();
    }
}
