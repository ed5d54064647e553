//! Whose is it: nothing is touched that is not provably ours.

use std::collections::BTreeSet;

use cloud_provider::Decision;
use cloud_provider::load_balancer::Spec;

use crate::conformance::Stage;
use crate::conformance::check::{MustSucceed, Stop, Verdict, broken, checks, equal, promised};
use crate::conformance::objects::{SHOP, WEB, bare, shop, web};
use crate::conformance::play::addresses;
use crate::conformance::stage::{OURS, THEIRS};
use crate::conformance::stand_in::{Contents, Foreign, Instance};

checks! { Ownership,
    every_object_carries_our_tags =>
        "Every object that an ensure makes carries the cluster's identity and the Service's UID, where it \
         can carry tags.",
    a_foreign_balancer_of_our_name_is_refused =>
        "A balancer that has our name and another cluster's tag is refused as NotOwned, and not touched by \
         an ensure.",
    update_leaves_a_foreign_balancer_alone =>
        "An update of backends leaves a balancer with another cluster's tag untouched.",
    delete_leaves_a_foreign_balancer_alone =>
        "A delete leaves a balancer with another cluster's tag untouched.",
    get_does_not_take_a_foreign_balancer_for_ours =>
        "A get never tells another cluster's balancer as this Service's.",
    what_a_go_manager_left_is_taken_over =>
        "A balancer that a Go manager made for this Service keeps its ID and its address, and is tagged by \
         the first ensure.",
    what_a_go_manager_left_is_seen_before_it_is_taken_over =>
        "A get finds what a Go manager left, and writes nothing.",
    what_a_go_manager_left_can_be_deleted =>
        "A delete removes what a Go manager made for this Service, also when nothing was ever ensured.",
    two_clusters_of_one_name_do_not_see_each_other =>
        "Two clusters of the same name in one account neither see nor touch each other's balancers.",
    owned_objects_are_listed_completely =>
        "The list of owned objects has everything of this cluster, page after page.",
    only_owned_objects_are_listed =>
        "The list of owned objects has nothing of another cluster and nothing of nobody's.",
    a_listed_leftover_can_be_deleted =>
        "What the list of owned objects tells is enough to delete it once its Service is gone.",
    listing_changes_nothing => "Listing owned objects writes nothing to the cloud.",
}

async fn every_object_carries_our_tags(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    let before = stage.contents().await?;
    stage.ensured(&stage.spec(web(), &nodes)?).await?;
    let after = stage.contents().await?;
    let made = after.added_since(&before);
    promised(!made.is_empty(), || "an ensure made nothing that the stand-in shows".to_owned())?;
    for object in made.into_iter().filter(|object| object.tags.is_some()) {
        promised(object.cluster() == Some(OURS) && object.owner() == Some(WEB), || {
            format!("{} {} carries the tags {:?}", object.kind, object.id, object.tags)
        })?;
    }
    Ok(())
}

async fn a_foreign_balancer_of_our_name_is_refused(stage: &Stage) -> Verdict {
    let (spec, before) = beside_a_foreign_one(stage).await?;
    let ensured = stage.ensure(&spec).await;
    untouched(stage, &before).await?;
    match ensured {
        Ok(status) => broken(format!("an ensure succeeded with {:?}", addresses(&status))),
        Err(error) => equal("the decision", error.decision(), &Decision::NotOwned),
    }
}

async fn update_leaves_a_foreign_balancer_alone(stage: &Stage) -> Verdict {
    let (spec, before) = beside_a_foreign_one(stage).await?;
    let updated = stage.update_backends(&spec).await;
    untouched(stage, &before).await?;
    promised(updated.is_err(), || "an update of another cluster's balancer succeeded".to_owned())
}

async fn delete_leaves_a_foreign_balancer_alone(stage: &Stage) -> Verdict {
    let (spec, before) = beside_a_foreign_one(stage).await?;
    // Whether it says "not mine" or "nothing of mine is here" is its own choice.
    let _ = stage.delete(&spec.identity, Some(&spec.service)).await;
    untouched(stage, &before).await?;
    let _ = stage.delete(&spec.identity, None).await;
    untouched(stage, &before).await
}

async fn get_does_not_take_a_foreign_balancer_for_ours(stage: &Stage) -> Verdict {
    let (spec, before) = beside_a_foreign_one(stage).await?;
    match stage.balancers()?.get(&spec).await {
        Ok(Some(observed)) => broken(format!("get tells {observed:?}")),
        Ok(None) => untouched(stage, &before).await,
        Err(error) => {
            equal("the decision", error.decision(), &Decision::NotOwned)?;
            untouched(stage, &before).await
        }
    }
}

async fn what_a_go_manager_left_is_taken_over(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    let spec = stage.spec(web(), &nodes)?;
    let left = stage.stand_in.plant_go_made(&spec).await?;
    let before = stage.contents().await?;
    let status = stage.ensured(&spec).await?;
    let (object, balancer) = stage.the_balancer().await?;
    equal("the balancer's ID", &object.id, &left.id)?;
    equal("the addresses", &addresses(&status), &vec![left.address])?;
    equal("the backends", &balancer.backends, &names(&nodes))?;
    let after = stage.contents().await?;
    promised(after.objects.len() == before.objects.len(), || {
        format!("taking over made {} objects out of {}", after.objects.len(), before.objects.len())
    })?;
    for object in after.objects.iter().filter(|object| object.tags.is_some()) {
        promised(object.cluster() == Some(OURS) && object.owner() == Some(WEB), || {
            format!("once taken over, {} {} carries the tags {:?}", object.kind, object.id, object.tags)
        })?;
    }
    let writes = stage.calls().await.writes;
    stage.ensured(&spec).await?;
    equal("writes of the next ensure", &(stage.calls().await.writes - writes), &0)
}

async fn what_a_go_manager_left_is_seen_before_it_is_taken_over(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    let spec = stage.spec(web(), &nodes)?;
    let left = stage.stand_in.plant_go_made(&spec).await?;
    let before = stage.contents().await?;
    let Some(observed) = stage.balancers()?.get(&spec).await.must("getting what a Go manager left")? else {
        return broken("get tells None");
    };
    equal("the addresses", &addresses(&observed.status), &vec![left.address])?;
    untouched(stage, &before).await
}

async fn what_a_go_manager_left_can_be_deleted(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    let spec = stage.spec(web(), &nodes)?;
    stage.stand_in.plant_go_made(&spec).await?;
    stage.deleted(&spec).await?;
    equal("objects left in the cloud", &stage.contents().await?.objects.len(), &0)
}

async fn two_clusters_of_one_name_do_not_see_each_other(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    let theirs = stage.neighbour().await?;
    theirs.start_over(&nodes);
    // The same namespace and name; only the UID differs, as between any two clusters.
    let (our_spec, their_spec) = (stage.spec(web(), &nodes)?, theirs.spec(twin(), &nodes)?);
    let their_status = theirs.ensured(&their_spec).await?;
    let before = stage.contents().await?;
    let seen = stage.balancers()?.get(&our_spec).await.must("getting our balancer")?;
    promised(seen.is_none(), || format!("get tells the other cluster's balancer: {seen:?}"))?;
    let our_status = stage.ensured(&our_spec).await?;
    promised(addresses(&our_status) != addresses(&their_status), || {
        format!("both clusters answer at {:?}", addresses(&our_status))
    })?;
    stage.deleted(&our_spec).await?;
    untouched(stage, &before).await?;
    equal("what is left of ours", &stage.contents().await?.objects.len(), &before.objects.len())?;
    let listed = stage.balancers()?.list_owned(&stage.cluster).await.must("listing what is ours")?;
    promised(listed.is_empty(), || format!("ours is deleted, and listed are {listed:?}"))
}

async fn owned_objects_are_listed_completely(stage: &Stage) -> Verdict {
    stage.balancers()?;
    let services = stage.stand_in.page_size().map_or(3, |size| (size + 1).min(30));
    let mut expected = BTreeSet::new();
    for index in 0..services {
        let uid = format!("{index:08}-8a51-4d0e-9d3e-0a4b5c6d7e8f");
        stage
            .ensured(&stage.spec(bare(&format!("web-{index}"), &uid).port(80).on_node_port(30080), &[])?)
            .await?;
        expected.insert(uid);
    }
    equal("the UIDs that are listed", &owners(stage).await?, &expected)
}

async fn only_owned_objects_are_listed(stage: &Stage) -> Verdict {
    stage.balancers()?;
    let theirs = stage.neighbour().await?;
    theirs.ensured(&theirs.spec(twin(), &[])?).await?;
    stage.stand_in.plant(&Foreign::Balancer { name: "by-hand".to_owned(), cluster: None }).await?;
    stage
        .stand_in
        .plant(&Foreign::Balancer { name: "by-others".to_owned(), cluster: Some(THEIRS.to_owned()) })
        .await?;
    equal("the UIDs that are listed while nothing is ours", &owners(stage).await?, &BTreeSet::new())?;
    stage.ensured(&stage.spec(shop(), &[])?).await?;
    equal("the UIDs that are listed", &owners(stage).await?, &BTreeSet::from([SHOP.to_owned()]))
}

async fn a_listed_leftover_can_be_deleted(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    let before = stage.contents().await?;
    stage.ensured(&stage.spec(web(), &nodes)?).await?;
    let sweeper = stage.restarted().await?;
    let listed = sweeper.balancers()?.list_owned(&sweeper.cluster).await.must("listing what is ours")?;
    promised(!listed.is_empty(), || "a balancer is there, and nothing is listed".to_owned())?;
    for owned in listed {
        promised(!owned.objects.is_empty(), || {
            format!("{:?} is listed without a single object", owned.identity)
        })?;
        sweeper.delete(&owned.identity, None).await.must("deleting a leftover")?;
    }
    let left = sweeper.contents().await?.added_since(&before).len();
    equal("objects left in the cloud", &left, &0)
}

async fn listing_changes_nothing(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    stage.ensured(&stage.spec(web(), &nodes)?).await?;
    let writes = stage.calls().await.writes;
    owners(stage).await?;
    equal("writes of a list", &(stage.calls().await.writes - writes), &0)
}

async fn nodes(stage: &Stage) -> Result<Vec<Instance>, Stop> {
    stage.balancers()?;
    stage.start_all(&["node-a", "node-b"]).await
}

/// The Service of the same namespace and name in another cluster.
fn twin() -> crate::builders::ServiceBuilder {
    bare("web", "7b1d2c3e-4f50-4a61-8b72-9c83ad94be05").port(80).on_node_port(30080)
}

/// Our Service, in a cloud where another cluster has a balancer of its very name.
async fn beside_a_foreign_one(stage: &Stage) -> Result<(Spec, Contents), Stop> {
    let nodes = nodes(stage).await?;
    let spec = stage.spec(web(), &nodes)?;
    let name = stage.balancers()?.name(&spec.identity);
    stage.stand_in.plant(&Foreign::Balancer { name, cluster: Some(THEIRS.to_owned()) }).await?;
    Ok((spec, stage.contents().await?))
}

async fn untouched(stage: &Stage, before: &Contents) -> Verdict {
    let damage = stage.contents().await?.damage_since(before);
    promised(damage.is_empty(), || damage.join("; "))
}

async fn owners(stage: &Stage) -> Result<BTreeSet<String>, Stop> {
    let listed = stage.balancers()?.list_owned(&stage.cluster).await.must("listing what is ours")?;
    Ok(listed.into_iter().map(|owned| owned.identity.uid).collect())
}

fn names(nodes: &[Instance]) -> BTreeSet<String> {
    nodes.iter().map(|node| node.name.clone()).collect()
}
