//! What the cloud holds against its clients. Each test breaks one rule through the API itself.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cloud_provider::ownership::{CLUSTER_TAG, OWNER_TAG};
use cloud_provider::{Change, Changes, Error, Verb};
use provider_fake::objects::{Balancer, Tags};
use provider_fake::world::Warrant;
use provider_fake::{Api, ApiError, Config, World};

use crate::rules::{create_address, create_balancer, new_address, new_balancer, new_route};
use crate::support::{CLUSTER, TestGate, UID, cluster, with_permit, world};

fn start() -> (World, Arc<dyn Api>) {
    let world = world(Config::default());
    let api = world.connect(&cluster(CLUSTER));
    (world, api)
}

async fn set_backends(api: &Arc<dyn Api>, id: &str) {
    let nobody = &BTreeSet::new();
    with_permit(Verb::Update, async |permit| api.set_backends(id, nobody, permit).await).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn well_behaved_clients_break_no_rule() {
    let (world, api) = start();
    let address = create_address(&api, new_address("x", None)).await.unwrap();
    let id = create_balancer(&api, new_balancer("x", &[&address], None)).await.unwrap().id;
    set_backends(&api, &id).await;
    let free = Balancer::new("a1");
    set_backends(&api, &world.plant_balancer(free, None)).await;
    assert_eq!(world.violations(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_change_to_what_carries_another_clusters_tag_is_noted() {
    let (world, api) = start();
    let id = world.plant_balancer(Balancer::new("a1").tagged(CLUSTER_TAG, "cluster-2"), None);
    set_backends(&api, &id).await;
    assert_eq!(
        world.violations(),
        [format!(
            "ownership: \"cluster-1\" called set_backends on {id}, which is tagged for cluster \"cluster-2\""
        )]
    );
}

#[tokio::test(start_paused = true)]
async fn a_change_to_what_another_cluster_made_is_noted_even_without_a_tag() {
    let (world, api) = start();
    let id = world.plant_balancer(Balancer::new("a1"), Some("cluster-2"));
    with_permit(Verb::Delete, async |permit| api.delete_load_balancer(&id, permit).await).await.unwrap();
    assert_eq!(
        world.violations(),
        [format!(
            "ownership: \"cluster-1\" called delete_load_balancer on {id}, which was made by cluster \"cluster-2\""
        )]
    );
}

#[tokio::test(start_paused = true)]
async fn making_something_in_the_name_of_another_cluster_is_noted() {
    let (world, api) = start();
    let mut new = new_address("x", None);
    new.tags.insert(CLUSTER_TAG.into(), "cluster-2".into());
    create_address(&api, new).await.unwrap();
    assert_eq!(world.violations().len(), 1);
    assert!(world.violations()[0].starts_with("ownership: "), "{:?}", world.violations());
}

#[tokio::test(start_paused = true)]
async fn making_something_without_the_clusters_tag_is_noted() {
    let (world, api) = start();
    create_address(&api, provider_fake::objects::NewAddress { tags: Tags::new(), ..new_address("x", None) })
        .await
        .unwrap();
    assert_eq!(world.violations(), ["tag: cluster-1 made address-000001 without the tag nephos-cluster"]);
}

#[tokio::test(start_paused = true)]
async fn a_permit_for_another_verb_is_noted() {
    let (world, api) = start();
    let id = create_address(&api, new_address("x", None)).await.unwrap();
    with_permit(Verb::Create, async |permit| api.delete_address(&id, permit).await).await.unwrap();
    assert_eq!(
        world.violations(),
        [format!("permit: \"cluster-1\" called delete_address on \"{id}\" with a permit to create")]
    );
}

#[tokio::test(start_paused = true)]
async fn a_write_that_shows_no_permit_is_noted_where_permits_are_expected() {
    for (expect_permits, noted) in [(true, 1), (false, 0)] {
        let world = world(Config { expect_permits, ..Config::default() });
        let session = world.session(CLUSTER);
        session.create_address_with(&new_address("x", None), Warrant::Told(None)).await.unwrap();
        assert_eq!(world.violations().len(), noted);
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_starts_after_the_lease_may_have_passed_on_is_noted() {
    let (world, api) = start();
    let gate = Arc::new(TestGate::default());
    let changes = Changes::through(Arc::clone(&gate) as _);
    let made = changes.make(Change::create("address", "x"), |permit| {
        let (api, gate) = (Arc::clone(&api), Arc::clone(&gate));
        async move {
            gate.closed.store(true, Ordering::Relaxed);
            Ok::<Result<_, ApiError>, Error>(api.create_address(&new_address("x", None), &permit).await)
        }
    });
    assert!(made.await.unwrap().is_ok(), "the cloud knows of no lease");
    assert_eq!(
        world.violations(),
        ["permit: \"cluster-1\" called create_address on \"x\" when the lease may have passed on"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_second_balancer_for_one_service_is_noted() {
    let (world, api) = start();
    let first = create_balancer(&api, new_balancer("x", &[], None)).await.unwrap().id;
    let second = create_balancer(&api, new_balancer("y", &[], None)).await.unwrap().id;
    assert_eq!(world.violations(), [format!("duplicate: {second} serves {UID}, as {first} does")]);
}

#[tokio::test(start_paused = true)]
async fn a_second_route_for_one_node_and_network_is_noted() {
    let (world, api) = start();
    for (node, network) in [("a", "10.244.1.0/24"), ("b", "10.244.1.0/24"), ("a", "10.244.2.0/24")] {
        let new = new_route(node, network);
        with_permit(Verb::Create, async |permit| api.create_route(&new, permit).await).await.unwrap();
    }
    assert_eq!(world.violations(), [""; 0]);
    let again = new_route("a", "10.244.1.0/24");
    with_permit(Verb::Create, async |permit| api.create_route(&again, permit).await).await.unwrap();
    assert_eq!(
        world.violations(),
        ["duplicate: route-000004 leads 10.244.1.0/24 to a, as route-000001 does"]
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_left_of_a_gone_service_or_made_for_it_later_is_a_leak() {
    let (world, api) = start();
    let left = create_address(&api, new_address("x", None)).await.unwrap();
    world.owner_gone("another");
    assert_eq!(world.leaks(), [""; 0]);
    world.owner_gone(UID);
    assert_eq!(world.leaks(), [left.as_str()]);
    let late = create_address(&api, new_address("y", None)).await.unwrap();
    assert_eq!(
        world.violations(),
        [
            format!("leak: {left} is left of {UID}, which is gone"),
            format!("leak: {late} was made for {UID}, which is gone"),
        ]
    );
    assert_eq!(new_address("x", None).tags[OWNER_TAG], UID);
}
