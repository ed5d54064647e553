//! Looking up in bulk, and what is told of an instance.

use std::collections::BTreeSet;

use cloud_provider::well_known::address_types;

use crate::conformance::Stage;
use crate::conformance::check::{Stop, Verdict, broken, checks, equal, promised};
use crate::conformance::objects::{by_id, by_name};
use crate::conformance::play::Answer;
use crate::conformance::stand_in::Instance;

checks! { Instances,
    the_number_of_calls_grows_with_pages_and_not_with_nodes =>
        "Looking up many nodes costs as many calls as there are pages, not as there are nodes.",
    every_page_is_read => "An instance on the last page of a list is Found like one on the first.",
    the_facts_are_those_of_the_cloud => "Addresses, zone, region and type are what the cloud itself shows.",
    addresses_are_of_known_types_and_not_empty =>
        "Every address has a text and one of the types that a Node may have.",
    the_facts_are_the_same_each_time =>
        "Two look-ups of an unchanged instance give the same answer, order included.",
    a_found_provider_id_leads_back =>
        "The provider ID of a found instance has our scheme and finds the same instance again.",
    by_name_and_by_id_tell_the_same =>
        "An instance found by name is told exactly as when it is found by provider ID.",
}

async fn the_number_of_calls_grows_with_pages_and_not_with_nodes(stage: &Stage) -> Verdict {
    let page = stage.stand_in.page_size()?;
    let few = cost(stage, page).await?;
    let many = cost(&stage.afresh().await?, 4 * page).await?;
    promised(many <= few.max(1) * 4 + 1 && many < 4 * page as u64, || {
        format!("{page} nodes cost {few} calls, {} nodes cost {many}", 4 * page)
    })
}

/// How many reads it takes to look up this many nodes.
async fn cost(stage: &Stage, nodes: usize) -> Result<u64, Stop> {
    stage.instances()?;
    let asked = fleet(stage, nodes).await?;
    let questions: Vec<_> = asked.iter().map(by_id).collect();
    let before = stage.calls().await.reads;
    stage.look_up(&questions).await?;
    Ok(stage.calls().await.reads - before)
}

async fn every_page_is_read(stage: &Stage) -> Verdict {
    stage.instances()?;
    let page = stage.stand_in.page_size()?;
    let fleet = fleet(stage, 2 * page + 1).await?;
    for questions in
        [fleet.iter().map(by_id).collect::<Vec<_>>(), fleet.iter().map(|each| by_name(&each.name)).collect()]
    {
        for (answer, instance) in stage.look_up(&questions).await?.iter().zip(&fleet) {
            promised(answer.found_id() == Some(&instance.provider_id), || {
                format!("of {} instances on pages of {page}, {} got {answer:?}", fleet.len(), instance.name)
            })?;
        }
    }
    Ok(())
}

async fn the_facts_are_those_of_the_cloud(stage: &Stage) -> Verdict {
    let (shown, told) = one(stage).await?;
    equal("the zone", &told.zone.unwrap_or_default(), &shown.zone)?;
    equal("the region", &told.region.unwrap_or_default(), &shown.region)?;
    equal("the instance type", &told.instance_type.unwrap_or_default(), &shown.instance_type)?;
    let told: BTreeSet<(String, String)> =
        told.addresses.into_iter().map(|address| (address.type_, address.address)).collect();
    let missing: Vec<_> = shown.addresses.iter().filter(|address| !told.contains(*address)).collect();
    promised(missing.is_empty(), || format!("the cloud shows {missing:?}, and the answer has only {told:?}"))
}

async fn addresses_are_of_known_types_and_not_empty(stage: &Stage) -> Verdict {
    let known = [
        address_types::INTERNAL_IP,
        address_types::EXTERNAL_IP,
        address_types::INTERNAL_DNS,
        address_types::EXTERNAL_DNS,
        address_types::HOSTNAME,
    ];
    let (_, told) = one(stage).await?;
    promised(!told.addresses.is_empty(), || "a running instance has no address".to_owned())?;
    for address in told.addresses {
        let is_ip = address.address.parse::<std::net::IpAddr>().is_ok();
        let wants_ip = address.type_.ends_with("IP");
        promised(
            known.contains(&address.type_.as_str()) && !address.address.is_empty() && (is_ip || !wants_ip),
            || format!("an address of type {:?} is {:?}", address.type_, address.address),
        )?;
    }
    Ok(())
}

async fn the_facts_are_the_same_each_time(stage: &Stage) -> Verdict {
    let (shown, first) = one(stage).await?;
    for _ in 0..3 {
        let Answer::Found(again) = stage.look_up_one(by_id(&shown)).await? else {
            return broken("an instance was found once and not again");
        };
        equal("what is told of the instance", &*again, &first)?;
    }
    Ok(())
}

async fn a_found_provider_id_leads_back(stage: &Stage) -> Verdict {
    let (_, told) = one(stage).await?;
    let Some(id) = told.provider_id else { return broken("a found instance has no provider ID") };
    equal("the scheme", &id.scheme(), &stage.stand_in.provider())?;
    let question = crate::conformance::objects::asking("whatever", id.as_str());
    let answer = stage.look_up_one(question).await?;
    promised(answer.found_id() == Some(id.as_str()), || format!("{id} leads to {answer:?}"))
}

async fn by_name_and_by_id_tell_the_same(stage: &Stage) -> Verdict {
    let (shown, by_its_id) = one(stage).await?;
    match stage.look_up_one(by_name(&shown.name)).await? {
        Answer::Found(told) => equal("what is told by name", &*told, &by_its_id),
        other => broken(format!("by name: {other:?}")),
    }
}

/// One instance, as the cloud shows it and as the provider tells of it.
async fn one(stage: &Stage) -> Result<(Instance, cloud_provider::Instance), Stop> {
    stage.instances()?;
    let shown = stage.start("node-a").await?;
    match stage.look_up_one(by_id(&shown)).await? {
        Answer::Found(told) => Ok((shown, *told)),
        other => broken(format!("a running instance: {other:?}")),
    }
}

async fn fleet(stage: &Stage, size: usize) -> Result<Vec<Instance>, Stop> {
    let mut fleet = Vec::new();
    for index in 0..size {
        fleet.push(stage.start(&format!("node-{index:04}")).await?);
    }
    Ok(fleet)
}
