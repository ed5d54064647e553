//! Routes between pod networks.

use std::collections::BTreeSet;

use cloud_provider::{Error, Route};
use ipnet::IpNet;

use crate::conformance::Stage;
use crate::conformance::check::{MustSucceed, Stop, Verdict, broken, checks, equal, promised, skip};
use crate::conformance::objects::{addresses_of, node_uid};
use crate::conformance::stage::THEIRS;
use crate::conformance::stand_in::{Aim, Calls, Fault, Foreign, Instance};

checks! { Routes,
    a_created_route_is_listed => "A route that was made is listed, with its destination and its node.",
    creating_a_route_twice_is_one_route => "Making a route that exists is success, and makes no second one.",
    both_families_of_a_node_get_a_route => "Two routes of one node, made under the same hint, both exist.",
    a_deleted_route_is_gone =>
        "A route that is deleted exactly as it was listed is gone, and the others stay.",
    deleting_a_route_twice_is_success => "Deleting a route that is gone is success.",
    foreign_routes_are_not_listed =>
        "A route outside the pod networks, or with another cluster's tag, is not listed.",
    foreign_routes_are_not_deleted => "A delete of a route that is not provably ours leaves it as it is.",
    a_route_whose_target_is_gone_is_listed_as_a_black_hole =>
        "A route whose target is gone is still listed, as a black hole, and can be deleted.",
    routes_of_two_clusters_do_not_mix =>
        "Two clusters of the same name do not see each other's tagged routes.",
    all_pages_of_routes_are_listed => "A list of routes has every page.",
    a_list_of_routes_that_fails_is_an_error =>
        "A list of routes that fails or stops before its end is an error, never a short list.",
    a_lost_answer_makes_no_second_route =>
        "When the answer to a create is lost, a repeated create leaves exactly one route.",
}

async fn a_created_route_is_listed(stage: &Stage) -> Verdict {
    let [a, b] = &pair(stage).await?;
    create(stage, a, network(stage, 1)?).await?;
    create(stage, b, network(stage, 2)?).await?;
    let listed = list(stage).await?;
    equal(
        "the destinations",
        &destinations(&listed),
        &BTreeSet::from([network(stage, 1)?, network(stage, 2)?]),
    )?;
    for (route, node) in [(network(stage, 1)?, a), (network(stage, 2)?, b)] {
        let target =
            listed.iter().find(|each| each.destination == route).and_then(|each| each.target_node.clone());
        promised(target.as_deref().is_none_or(|target| target == node.name), || {
            format!("the route to {route} leads to {target:?} instead of {}", node.name)
        })?;
    }
    promised(listed.iter().all(|route| !route.blackhole), || {
        format!("a good route is a black hole: {listed:?}")
    })
}

async fn creating_a_route_twice_is_one_route(stage: &Stage) -> Verdict {
    let [a, _] = &pair(stage).await?;
    for _ in 0..3 {
        create(stage, a, network(stage, 1)?).await?;
    }
    equal("routes listed", &list(stage).await?.len(), &1)?;
    equal("routes in the cloud", &stage.contents().await?.routes().count(), &1)
}

async fn both_families_of_a_node_get_a_route(stage: &Stage) -> Verdict {
    let [a, _] = &pair(stage).await?;
    let networks = stage.stand_in.pod_networks();
    let destinations: BTreeSet<IpNet> = if networks.len() > 1 {
        networks.iter().map(|network| part(network, 1)).collect::<Result<_, _>>()?
    } else {
        BTreeSet::from([network(stage, 1)?, network(stage, 2)?])
    };
    for destination in &destinations {
        create(stage, a, *destination).await?;
    }
    equal("the destinations", &self::destinations(&list(stage).await?), &destinations)
}

async fn a_deleted_route_is_gone(stage: &Stage) -> Verdict {
    let [a, b] = &pair(stage).await?;
    create(stage, a, network(stage, 1)?).await?;
    create(stage, b, network(stage, 2)?).await?;
    let first = network(stage, 1)?;
    for route in list(stage).await?.iter().filter(|route| route.destination == first) {
        delete(stage, route).await.must("deleting a route as it was listed")?;
    }
    equal("the destinations", &destinations(&list(stage).await?), &BTreeSet::from([network(stage, 2)?]))?;
    equal("routes in the cloud", &stage.contents().await?.routes().count(), &1)
}

async fn deleting_a_route_twice_is_success(stage: &Stage) -> Verdict {
    let [a, _] = &pair(stage).await?;
    create(stage, a, network(stage, 1)?).await?;
    let listed = list(stage).await?;
    for _ in 0..2 {
        for route in &listed {
            delete(stage, route).await.must("deleting a route")?;
        }
    }
    equal("routes listed", &list(stage).await?.len(), &0)
}

async fn foreign_routes_are_not_listed(stage: &Stage) -> Verdict {
    let [a, _] = &pair(stage).await?;
    plant(stage).await?;
    create(stage, a, network(stage, 1)?).await?;
    equal("the destinations", &destinations(&list(stage).await?), &BTreeSet::from([network(stage, 1)?]))
}

async fn foreign_routes_are_not_deleted(stage: &Stage) -> Verdict {
    pair(stage).await?;
    let foreign = plant(stage).await?;
    let before = stage.contents().await?;
    for (id, destination) in &foreign {
        let route = Route::new(*destination).to_node("node-a", Vec::new());
        for route in [route.clone().named(id), route] {
            // Whether it says "not mine" or "nothing of mine is here" is its own choice.
            let _ = delete(stage, &route).await;
        }
    }
    let damage = stage.contents().await?.damage_since(&before);
    promised(damage.is_empty(), || damage.join("; "))
}

async fn a_route_whose_target_is_gone_is_listed_as_a_black_hole(stage: &Stage) -> Verdict {
    let [a, _] = &pair(stage).await?;
    let destination = network(stage, 1)?;
    create(stage, a, destination).await?;
    stage.stand_in.blackhole(destination).await?;
    let listed = list(stage).await?;
    let Some(route) = listed.iter().find(|route| route.destination == destination) else {
        return broken("a route whose target is gone is not listed any more");
    };
    promised(route.blackhole, || format!("its target is gone, and it is listed as {route:?}"))?;
    delete(stage, route).await.must("deleting a black hole")?;
    equal("routes in the cloud", &stage.contents().await?.routes().count(), &0)
}

async fn routes_of_two_clusters_do_not_mix(stage: &Stage) -> Verdict {
    let [a, _] = &pair(stage).await?;
    create(stage, a, network(stage, 1)?).await?;
    let made = stage.contents().await?;
    if made.routes().any(|(object, _)| object.tags.is_none()) {
        return skip("this cloud's routes cannot carry tags");
    }
    let theirs = stage.neighbour().await?;
    equal("routes that the other cluster sees", &list(&theirs).await?.len(), &0)
}

async fn all_pages_of_routes_are_listed(stage: &Stage) -> Verdict {
    let [a, _] = &pair(stage).await?;
    let size = stage.stand_in.page_size()?;
    let count = u8::try_from((2 * size + 1).min(40)).unwrap_or(40);
    let mut expected = BTreeSet::new();
    for index in 1..=count {
        create(stage, a, network(stage, index)?).await?;
        expected.insert(network(stage, index)?);
    }
    equal("the destinations", &destinations(&list(stage).await?), &expected)
}

async fn a_list_of_routes_that_fails_is_an_error(stage: &Stage) -> Verdict {
    let [a, _] = &pair(stage).await?;
    let size = stage.stand_in.page_size().unwrap_or(1);
    for index in 1..=u8::try_from((size + 1).min(40)).unwrap_or(40) {
        create(stage, a, network(stage, index)?).await?;
    }
    for fault in [Fault::Unavailable, Fault::Unauthorized, Fault::TruncatedList] {
        stage.stand_in.inject(fault, Aim::every(Calls::Reads)).await?;
        let listed = stage.routes()?.list(&stage.cluster).await;
        stage.stand_in.heal().await;
        promised(listed.is_err(), || format!("under {fault:?} the list is {listed:?}"))?;
    }
    Ok(())
}

async fn a_lost_answer_makes_no_second_route(stage: &Stage) -> Verdict {
    let [a, _] = &pair(stage).await?;
    stage.stand_in.inject(Fault::LostAnswer, Aim::one(Calls::Writes, 0)).await?;
    let destination = network(stage, 1)?;
    let _ = try_create(stage, a, destination).await;
    stage.stand_in.heal().await;
    create(stage, a, destination).await?;
    equal("routes in the cloud", &stage.contents().await?.routes().count(), &1)?;
    equal("routes listed", &list(stage).await?.len(), &1)
}

async fn pair(stage: &Stage) -> Result<[Instance; 2], Stop> {
    stage.routes()?;
    Ok([stage.start("node-a").await?, stage.start("node-b").await?])
}

/// Plants a route outside the pod networks and one inside them with another cluster's tag.
async fn plant(stage: &Stage) -> Result<Vec<(String, IpNet)>, Stop> {
    let outside: IpNet = "192.0.2.0/24".parse().or_else(|_| skip("no such network"))?;
    let inside = network(stage, 77)?;
    let theirs = Some(THEIRS.to_owned());
    let first = stage.stand_in.plant(&Foreign::Route { destination: outside, cluster: None }).await?;
    let second = stage.stand_in.plant(&Foreign::Route { destination: inside, cluster: theirs }).await?;
    Ok(vec![(first, outside), (second, inside)])
}

/// The network of the node of this number.
pub(super) fn network(stage: &Stage, number: u8) -> Result<IpNet, Stop> {
    match stage.stand_in.pod_networks().first() {
        Some(network) => part(network, number),
        None => skip("the stand-in names no pod network"),
    }
}

fn part(network: &IpNet, number: u8) -> Result<IpNet, Stop> {
    let length = if network.network().is_ipv4() { 24 } else { 64 };
    let parts = network.subnets(length.max(network.prefix_len()));
    match parts.ok().and_then(|mut parts| parts.nth(usize::from(number))) {
        Some(part) => Ok(part),
        None => skip(format!("{network} has no room for {number} nodes")),
    }
}

async fn try_create(stage: &Stage, node: &Instance, destination: IpNet) -> Result<(), Error> {
    let Ok(routes) = stage.routes() else { return Err(Error::not_implemented("creating a route")) };
    let route = Route::new(destination).to_node(&node.name, addresses_of(node));
    let hint = node_uid(&node.name);
    stage.persist(async || routes.create(&stage.cluster, &hint, &route, &stage.gate.changes()).await).await
}

pub(super) async fn create(stage: &Stage, node: &Instance, destination: IpNet) -> Verdict {
    try_create(stage, node, destination).await.must("creating a route")
}

pub(super) async fn delete(stage: &Stage, route: &Route) -> Result<(), Error> {
    let Ok(routes) = stage.routes() else { return Err(Error::not_implemented("deleting a route")) };
    stage.persist(async || routes.delete(&stage.cluster, route, &stage.gate.changes()).await).await
}

pub(super) async fn list(stage: &Stage) -> Result<Vec<Route>, Stop> {
    stage.routes()?.list(&stage.cluster).await.must("listing the routes")
}

fn destinations(routes: &[Route]) -> BTreeSet<IpNet> {
    routes.iter().map(|route| route.destination).collect()
}
