//! Balancers: found again after anything, changed only when ours and only when different.

use std::collections::BTreeSet;
use std::time::Duration;

use cloud_provider::load_balancer::{Agreement, Identity, Spec};
use cloud_provider::ownership::{CLUSTER_TAG, OWNER_TAG};
use cloud_provider::{Cloud, Context, Decision, Error};
use k8s_openapi::api::core::v1::LoadBalancerStatus;
use provider_fake::config::{IpMode, Quotas};
use provider_fake::objects::Balancer;
use provider_fake::provider::IDLE_TIMEOUT_ANNOTATION;
use provider_fake::{Config, Effect, Fault, Operation, World};
use rstest::rstest;
use serde_json::json;

use crate::support::{
    CLUSTER, NAME, UID, balancers, cluster, context, fake, open_gate, plain, spec_of, world,
};

/// What somebody does to a balancer at the cloud's console.
type Edit = fn(&mut Balancer);

async fn ensure(cloud: &Cloud, spec: &Spec) -> Result<LoadBalancerStatus, Error> {
    balancers(cloud).ensure(spec, &open_gate()).await
}

async fn delete(cloud: &Cloud) -> Result<(), Error> {
    let identity = Identity::of(&plain().service, &cluster(CLUSTER));
    balancers(cloud).delete(&identity, None, &open_gate()).await
}

async fn agreement(cloud: &Cloud, spec: &Spec) -> Agreement {
    balancers(cloud).get(spec).await.unwrap().unwrap().agreement
}

fn ips(status: &LoadBalancerStatus) -> Vec<String> {
    status.ingress.iter().flatten().map(|ingress| ingress.ip.clone().unwrap()).collect()
}

fn assert_empty(world: &World) {
    let contents = world.contents();
    assert_eq!((contents.balancers.len(), contents.addresses.len()), (0, 0), "{contents:?}");
}

#[tokio::test(start_paused = true)]
async fn ensure_makes_one_tagged_balancer_and_a_second_ensure_writes_nothing() {
    let (world, cloud) = fake(Config { ip_mode: Some(IpMode::Proxy), ..Config::default() });
    assert_eq!(balancers(&cloud).get(&plain()).await.unwrap(), None);
    world.reset_counters();
    let status = ensure(&cloud, &plain()).await.unwrap();
    assert_eq!((world.counters().writes, world.counters().reads), (2, 3), "an address and a balancer");
    assert_eq!(ips(&status), ["198.18.0.1"]);
    assert_eq!(status.ingress.unwrap()[0].ip_mode.as_deref(), Some("Proxy"));
    assert_eq!(agreement(&cloud, &plain()).await, Agreement::Same);

    let made = &world.contents().balancers[0];
    assert_eq!((made.name.as_str(), made.tags[CLUSTER_TAG].as_str()), (NAME, CLUSTER));
    assert_eq!(made.tags[OWNER_TAG], UID);
    assert_eq!(made.settings.listeners[0].node_port, Some(30080));
    assert_eq!(made.backends, BTreeSet::from(["a".to_owned(), "b".to_owned()]));

    world.reset_counters();
    assert_eq!(ips(&ensure(&cloud, &plain()).await.unwrap()), ["198.18.0.1"]);
    assert_eq!((world.counters().writes, world.counters().reads), (0, 2));
    assert_eq!(world.violations(), [""; 0]);
}

/// Whatever call of an ensure goes wrong, in whatever way: the next one ends in the same place, with nothing twice.
#[rstest]
#[tokio::test(start_paused = true)]
async fn an_ensure_that_was_interrupted_anywhere_is_finished_by_the_next(
    #[values(Effect::Fail, Effect::LoseAnswer)] effect: Effect,
    #[values(0, 30)] lag: u64,
) {
    let lag = Duration::from_secs(lag);
    let config = Config { invisible_for: lag, visible_after_delete: lag, ..Config::default() };
    let (calm, cloud) = fake(config.clone());
    ensure(&cloud, &plain()).await.unwrap();
    for call in 0..calm.counters().total() {
        let (world, cloud) = fake(config.clone());
        world.inject(Fault::once("*", effect).skip(call)).unwrap();
        ensure(&cloud, &plain()).await.unwrap_err();
        ensure(&cloud, &plain()).await.unwrap();
        assert_eq!(world.contents(), calm.contents(), "{effect:?} at call {call}");
        delete(&cloud).await.unwrap();
        world.owner_gone(UID);
        assert_eq!(world.violations(), [""; 0], "{effect:?} at call {call}");
    }
}

/// The same for a delete: repeated until it succeeds, it leaves nothing.
#[rstest]
#[tokio::test(start_paused = true)]
async fn a_delete_that_was_interrupted_anywhere_is_finished_by_the_next(
    #[values(Effect::Fail, Effect::LoseAnswer)] effect: Effect,
) {
    for call in 0.. {
        let (world, cloud) = fake(Config::default());
        ensure(&cloud, &plain()).await.unwrap();
        world.inject(Fault::once("*", effect).skip(call)).unwrap();
        let struck = delete(&cloud).await.is_err();
        world.clear_faults();
        delete(&cloud).await.unwrap();
        assert_empty(&world);
        if !struck {
            assert!(call >= 5, "a delete makes several calls");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_former_manager_left_is_taken_over_and_stamped_at_the_same_address() {
    let (world, cloud) = fake(Config::default());
    let mut left = Balancer::new(NAME);
    left.addresses.insert("old".into(), "192.0.2.44".parse().unwrap());
    let id = world.plant_balancer(left, None);
    assert!(matches!(agreement(&cloud, &plain()).await, Agreement::Different(_)));

    assert_eq!(ips(&ensure(&cloud, &plain()).await.unwrap()), ["192.0.2.44"]);
    let contents = world.contents();
    assert_eq!((contents.balancers.len(), contents.addresses.len()), (1, 1));
    assert_eq!(contents.balancers[0].id, id);
    assert_eq!(contents.balancers[0].tags[CLUSTER_TAG], CLUSTER);
    assert_eq!(contents.addresses[0].tags[CLUSTER_TAG], CLUSTER);
    assert_eq!(agreement(&cloud, &plain()).await, Agreement::Same);
    delete(&cloud).await.unwrap();
    assert_empty(&world);
}

#[tokio::test(start_paused = true)]
async fn another_clusters_balancer_under_our_name_is_never_touched() {
    let (world, cloud) = fake(Config::default());
    let foreign = Balancer::new(NAME).tagged(CLUSTER_TAG, "cluster-2").tagged(OWNER_TAG, UID);
    world.plant_balancer(foreign, Some("cluster-2"));
    let before = world.contents();
    for refused in [
        ensure(&cloud, &plain()).await.map(drop),
        balancers(&cloud).update_backends(&plain(), &open_gate()).await,
        delete(&cloud).await,
    ] {
        assert_eq!(refused.unwrap_err().decision(), &Decision::NotOwned);
    }
    assert_eq!(balancers(&cloud).get(&plain()).await.unwrap(), None, "it is not ours to report");
    assert_eq!((world.contents(), world.counters().writes), (before, 0));
}

#[tokio::test(start_paused = true)]
async fn an_address_that_somebody_reserved_for_us_is_used_and_never_given_back() {
    let (world, cloud) = fake(Config::default());
    ensure(&cloud, &plain()).await.unwrap();
    let balancer = world.contents().balancers[0].id.clone();
    let theirs = provider_fake::objects::Address {
        id: "theirs".into(),
        name: "reserved".into(),
        ip: "192.0.2.5".parse().unwrap(),
        tags: std::collections::BTreeMap::new(),
    };
    world.plant_address(theirs, Some("somebody"));
    world.change_balancer(&balancer, |each| {
        each.addresses = [("theirs".to_owned(), "192.0.2.5".parse().unwrap())].into();
    });
    assert_eq!(ips(&ensure(&cloud, &plain()).await.unwrap()), ["192.0.2.5"]);
    delete(&cloud).await.unwrap();
    let left: Vec<String> = world.contents().addresses.into_iter().map(|address| address.id).collect();
    assert_eq!(left, ["theirs"]);
    assert_eq!(world.violations(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_pending_balancer_asks_to_come_back_and_holds_up_nobody() {
    let (world, cloud) = fake(Config { balancer_ready_after: Duration::from_secs(12), ..Config::default() });
    for wait in [5, 5, 2] {
        let pending = ensure(&cloud, &plain()).await.unwrap_err();
        let after = Duration::from_secs(wait);
        assert_eq!(pending.decision(), &Decision::RetryAfter { after });
        let refused = balancers(&cloud).update_backends(&plain(), &open_gate()).await.unwrap_err();
        assert_eq!(refused.decision(), &Decision::RetryAfter { after });
        tokio::time::advance(after).await;
    }
    assert!(ensure(&cloud, &plain()).await.is_ok());
    assert_eq!(world.contents().balancers.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_full_quota_leaves_an_address_that_get_reports_and_delete_removes() {
    let quotas = Quotas { load_balancers: Some(0), ..Quotas::default() };
    let (world, cloud) = fake(Config { quotas, ..Config::default() });
    assert_eq!(ensure(&cloud, &plain()).await.unwrap_err().decision(), &Decision::QuotaExceeded);
    assert_eq!(world.contents().addresses.len(), 1);
    let Agreement::Different(points) = agreement(&cloud, &plain()).await else { panic!("no difference") };
    assert_eq!(points, ["there is no balancer, only the address 198.18.0.1"]);
    delete(&cloud).await.unwrap();
    assert_empty(&world);
    assert!(delete(&cloud).await.is_ok(), "nothing there is success");
}

#[tokio::test(start_paused = true)]
async fn every_setting_is_seen_when_it_drifts_and_put_right_by_ensure() {
    let fields = json!({
        "ports": [{ "port": 80, "nodePort": 30080 }, { "port": 53, "protocol": "UDP", "nodePort": 30053 }],
        "loadBalancerSourceRanges": ["10.0.0.0/8"],
        "sessionAffinity": "ClientIP",
        "externalTrafficPolicy": "Local",
        "healthCheckNodePort": 31000,
        "annotations": { IDLE_TIMEOUT_ANNOTATION: "90s" },
    });
    let spec = spec_of(&fields, &["a"], CLUSTER);
    let (world, cloud) = fake(Config::default());
    ensure(&cloud, &spec).await.unwrap();
    let good = world.contents();
    let id = &good.balancers[0].id;
    let edits: [(&str, Edit); 7] = [
        ("listeners", |each| each.settings.listeners.truncate(1)),
        ("source ranges", |each| each.settings.source_ranges.clear()),
        ("session affinity", |each| each.settings.affinity_seconds = None),
        ("health check", |each| each.settings.health_check = None),
        ("idle timeout", |each| each.settings.idle_seconds = Some(1)),
        ("backends", |each| each.backends.clear()),
        ("tags", |each| drop(each.tags.remove(OWNER_TAG))),
    ];
    for (what, edit) in edits {
        world.change_balancer(id, edit);
        let Agreement::Different(points) = agreement(&cloud, &spec).await else { panic!("{what} not seen") };
        assert!(points.len() == 1 && points[0].starts_with(what), "{points:?}");
        ensure(&cloud, &spec).await.unwrap();
        assert_eq!(world.contents(), good, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_service_no_longer_asks_for_is_removed() {
    let rich = json!({
        "ports": [{ "port": 80, "nodePort": 30080 }],
        "ipFamilies": ["IPv6", "IPv4"],
        "loadBalancerSourceRanges": ["10.0.0.0/8"],
        "annotations": { IDLE_TIMEOUT_ANNOTATION: "90s" },
    });
    let (world, cloud) = fake(Config::default());
    let status = ensure(&cloud, &spec_of(&rich, &["a"], CLUSTER)).await.unwrap();
    assert_eq!(ips(&status), ["2001:db8::1", "198.18.0.1"], "in the order of the families");
    assert_eq!(ips(&ensure(&cloud, &plain()).await.unwrap()), ["198.18.0.1"]);

    let (fresh, cloud) = fake(Config::default());
    ensure(&cloud, &plain()).await.unwrap();
    let settings = |world: &World| world.contents().balancers[0].settings.clone();
    assert_eq!(settings(&world), settings(&fresh));
    assert_eq!(world.contents().addresses.len(), 1, "the IPv6 address is given back");
}

#[tokio::test(start_paused = true)]
async fn a_requested_address_is_honoured_also_when_it_changes() {
    let asking =
        |ip: &str| spec_of(&json!({ "ports": [{ "port": 80 }], "loadBalancerIP": ip }), &["a"], CLUSTER);
    let (world, cloud) = fake(Config::default());
    for ip in ["192.0.2.1", "192.0.2.2"] {
        assert_eq!(ips(&ensure(&cloud, &asking(ip)).await.unwrap()), [ip]);
        assert_eq!(world.contents().addresses.len(), 1);
    }
    let bad =
        spec_of(&json!({ "ports": [], "annotations": { IDLE_TIMEOUT_ANNOTATION: "soon" } }), &[], CLUSTER);
    assert_eq!(ensure(&cloud, &bad).await.unwrap_err().decision(), &Decision::InvalidConfig);
}

#[tokio::test(start_paused = true)]
async fn update_backends_changes_the_backends_exactly_and_nothing_else() {
    let (world, cloud) = fake(Config::default());
    let missing = balancers(&cloud).update_backends(&plain(), &open_gate()).await.unwrap_err();
    assert_eq!(missing.decision(), &Decision::NotFound);
    ensure(&cloud, &plain()).await.unwrap();
    let mut expected = world.contents();
    let id = expected.balancers[0].id.clone();
    world.change_balancer(&id, |each| each.settings.affinity_seconds = Some(9));

    let other = spec_of(&json!({ "ports": [{ "port": 8080, "nodePort": 30081 }] }), &["b", "c"], CLUSTER);
    balancers(&cloud).update_backends(&other, &open_gate()).await.unwrap();
    expected.balancers[0].backends = BTreeSet::from(["b".to_owned(), "c".to_owned()]);
    expected.balancers[0].settings.affinity_seconds = Some(9);
    assert_eq!(world.contents(), expected);
    world.reset_counters();
    balancers(&cloud).update_backends(&other, &open_gate()).await.unwrap();
    assert_eq!(world.counters().writes, 0);
}

#[tokio::test(start_paused = true)]
async fn a_balancer_too_many_is_seen_and_removed() {
    let (world, cloud) = fake(Config::default());
    for _ in 0..2 {
        world.plant_balancer(
            Balancer::new(NAME).tagged(CLUSTER_TAG, CLUSTER).tagged(OWNER_TAG, UID),
            Some(CLUSTER),
        );
    }
    ensure(&cloud, &plain()).await.unwrap();
    let kept: Vec<String> = world.contents().balancers.into_iter().map(|each| each.id).collect();
    assert_eq!(kept, ["lb-000001"], "the oldest stays");
}

#[tokio::test(start_paused = true)]
async fn everything_of_this_cluster_is_listed_for_the_sweeper_and_nothing_of_others() {
    let (world, cloud) = fake(Config { page_size: 1, ..Config::default() });
    ensure(&cloud, &plain()).await.unwrap();
    let other = world.cloud(&context("cluster-2"));
    let mut theirs = spec_of(&json!({ "ports": [] }), &[], "cluster-2");
    theirs.identity.uid = "other-uid".into();
    ensure(&other, &theirs).await.unwrap();

    let owned = balancers(&cloud).list_owned(&cluster(CLUSTER)).await.unwrap();
    assert_eq!(owned.len(), 1);
    let Identity { namespace, name, uid, .. } = &owned[0].identity;
    assert_eq!((namespace.as_str(), name.as_str(), uid.as_str()), ("shop", "web", UID));
    assert_eq!(owned[0].objects, ["load balancer lb-000001", "address 198.18.0.1"]);
    assert_eq!(world.violations(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_does_not_know_itself_is_served_by_the_uid_of_its_services() {
    let world = world(Config::default());
    let mut context = Context::inert();
    context.clock = std::sync::Arc::new(provider_fake::clock::TokioClock::start());
    let cloud = world.cloud(&context);
    let mut spec = plain();
    spec.identity.cluster = context.cluster.clone();
    ensure(&cloud, &spec).await.unwrap();
    ensure(&cloud, &spec).await.unwrap();
    assert_eq!(world.contents().balancers.len(), 1);
    balancers(&cloud).delete(&spec.identity, None, &open_gate()).await.unwrap();
    assert_empty(&world);
    assert_eq!(world.violations(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_ghost_in_a_lagging_list_is_not_taken_for_a_balancer() {
    let (world, cloud) = fake(Config { visible_after_delete: Duration::from_secs(60), ..Config::default() });
    ensure(&cloud, &plain()).await.unwrap();
    delete(&cloud).await.unwrap();
    assert_eq!(balancers(&cloud).get(&plain()).await.unwrap(), None);
    ensure(&cloud, &plain()).await.unwrap();
    assert_eq!(world.contents().balancers.len(), 1);
    assert_eq!(world.counters().of(Operation::CreateLoadBalancer), 2);
    assert_eq!(world.violations(), [""; 0]);
}
