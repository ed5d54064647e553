//! Load balancers, when the Service, its nodes or the cloud change.

use std::collections::BTreeSet;

use cloud_provider::Decision;
use cloud_provider::load_balancer::{Agreement, Feature, Protocol};

use crate::conformance::Stage;
use crate::conformance::check::{MustSucceed, Stop, Verdict, broken, checks, equal, promised, skip};
use crate::conformance::objects::{WEB, bare, web, with_affinity, with_families};
use crate::conformance::play::addresses;
use crate::conformance::stand_in::{Balancer, Instance};

checks! { Balancers,
    changed_ports_replace_the_old_ones =>
        "After an ensure with other ports the balancer has exactly those, at the same address.",
    changed_node_ports_are_followed => "After an ensure with another node port the balancer leads there.",
    udp_ports_are_served => "A UDP port becomes a UDP listener.",
    both_families_get_an_address =>
        "A dual-stack Service gets an address of each family, and keeps the first when it goes back to one.",
    source_ranges_are_set_changed_and_removed =>
        "Source ranges are exactly the Service's, and everybody may connect once they are removed.",
    affinity_is_set_and_removed => "Session affinity follows the Service, also when it is taken back.",
    a_removed_annotation_takes_its_setting_with_it =>
        "When an annotation is removed, what it had set in the cloud is as if it had never been.",
    ensure_replaces_the_backends_exactly =>
        "After an ensure the backends are exactly the nodes of the spec: none is left over, none is missing.",
    update_replaces_the_backends_exactly =>
        "After an update the backends are exactly the nodes of the spec: none is left over, none is missing.",
    update_changes_nothing_but_backends =>
        "An update of the backends leaves ports, address and settings alone, whatever the spec says of them.",
    update_to_the_same_backends_writes_nothing => "An update to the backends that are there writes nothing.",
    update_of_a_vanished_balancer_is_not_found =>
        "An update of a balancer that is gone is NotFound, and makes nothing.",
    a_vanished_balancer_is_noticed_and_made_again =>
        "A balancer that somebody deleted is None to get, or Different and without an address while parts \
         of it are left; ensure makes it again.",
    drift_is_seen_and_repaired =>
        "What somebody changed by hand is told by get where it can tell, and repaired by ensure at the same \
         address.",
}

async fn changed_ports_replace_the_old_ones(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    let first = stage.ensured(&stage.spec(web(), &nodes)?).await?;
    let changed = bare("web", WEB).port(443).on_node_port(30443).port(8443).on_node_port(31443);
    let second = stage.ensured(&stage.spec(changed, &nodes)?).await?;
    equal("the addresses", &addresses(&second), &addresses(&first))?;
    let (_, balancer) = stage.the_balancer().await?;
    let ports: BTreeSet<_> =
        balancer.listeners.iter().map(|(protocol, port, _)| (*protocol, *port)).collect();
    equal("the listeners", &ports, &BTreeSet::from([(Protocol::Tcp, 443), (Protocol::Tcp, 8443)]))
}

async fn changed_node_ports_are_followed(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    stage.ensured(&stage.spec(bare("web", WEB).port(80).on_node_port(30080), &nodes)?).await?;
    let (_, before) = stage.the_balancer().await?;
    if before.listeners.iter().all(|(_, _, node_port)| node_port.is_none()) {
        return skip("this cloud's balancers lead to no node port");
    }
    stage.ensured(&stage.spec(bare("web", WEB).port(80).on_node_port(32080), &nodes)?).await?;
    let (_, after) = stage.the_balancer().await?;
    equal("the listeners", &after.listeners, &BTreeSet::from([(Protocol::Tcp, 80, Some(32080))]))
}

async fn udp_ports_are_served(stage: &Stage) -> Verdict {
    stage.with_feature(Feature::Udp)?;
    let nodes = nodes(stage).await?;
    let dns = bare("web", WEB).port(53).protocol("UDP").on_node_port(30053);
    stage.ensured(&stage.spec(dns, &nodes)?).await?;
    let (_, balancer) = stage.the_balancer().await?;
    let ports: BTreeSet<_> =
        balancer.listeners.iter().map(|(protocol, port, _)| (*protocol, *port)).collect();
    equal("the listeners", &ports, &BTreeSet::from([(Protocol::Udp, 53)]))
}

async fn both_families_get_an_address(stage: &Stage) -> Verdict {
    stage.with_feature(Feature::DualStack)?;
    let nodes = nodes(stage).await?;
    let both =
        addresses(&stage.ensured(&stage.spec(with_families(web(), &["IPv4", "IPv6"]), &nodes)?).await?);
    let is_v4 = |address: &&String| address.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_ipv4());
    let (v4, v6): (Vec<&String>, Vec<&String>) = both.iter().partition(is_v4);
    promised(v4.len() == 1 && v6.len() == 1, || format!("a dual-stack Service answers at {both:?}"))?;
    let one = addresses(&stage.ensured(&stage.spec(with_families(web(), &["IPv4"]), &nodes)?).await?);
    equal("the addresses once it is single-stack again", &one.iter().collect(), &v4)
}

async fn source_ranges_are_set_changed_and_removed(stage: &Stage) -> Verdict {
    stage.with_feature(Feature::SourceRanges)?;
    let nodes = nodes(stage).await?;
    for ranges in [&["10.0.0.0/8", "192.168.7.0/24"][..], &["192.168.7.0/24", "172.16.0.0/12"], &[]] {
        let service = ranges.iter().fold(web(), |service, range| service.source_range(range));
        stage.ensured(&stage.spec(service, &nodes)?).await?;
        let (_, balancer) = stage.the_balancer().await?;
        let seen: BTreeSet<String> = balancer.source_ranges.iter().map(ToString::to_string).collect();
        equal("the source ranges", &seen, &ranges.iter().map(ToString::to_string).collect())?;
    }
    Ok(())
}

async fn affinity_is_set_and_removed(stage: &Stage) -> Verdict {
    stage.with_feature(Feature::ClientIpAffinity)?;
    let nodes = nodes(stage).await?;
    stage.ensured(&stage.spec(with_affinity(web(), 600), &nodes)?).await?;
    let (_, balancer) = stage.the_balancer().await?;
    promised(balancer.affinity.is_some(), || {
        "the Service asks for affinity, and the balancer has none".to_owned()
    })?;
    stage.ensured(&stage.spec(web(), &nodes)?).await?;
    let (_, balancer) = stage.the_balancer().await?;
    equal("the affinity once it is taken back", &balancer.affinity, &None)
}

async fn a_removed_annotation_takes_its_setting_with_it(stage: &Stage) -> Verdict {
    let (key, value) = stage.stand_in.annotation()?;
    let nodes = nodes(stage).await?;
    let plain = stage.spec(web(), &nodes)?;
    stage.ensured(&plain).await?;
    let (before, _) = stage.the_balancer().await?;
    stage.ensured(&stage.spec(web().annotation(&key, &value), &nodes)?).await?;
    let (with, _) = stage.the_balancer().await?;
    promised(with.bytes != before.bytes, || format!("{key}: {value} makes no difference in the cloud"))?;
    stage.ensured(&plain).await?;
    let (after, _) = stage.the_balancer().await?;
    equal(&format!("the balancer once {key} is removed"), &after.bytes, &before.bytes)
}

async fn ensure_replaces_the_backends_exactly(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    for set in [&nodes[..2], &nodes[1..], &nodes[..1], &[], &nodes[..]] {
        stage.ensured(&stage.spec(web(), set)?).await?;
        backends_are(&stage.the_balancer().await?.1, set)?;
    }
    Ok(())
}

async fn update_replaces_the_backends_exactly(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    stage.ensured(&stage.spec(web(), &nodes[..2])?).await?;
    for set in [&nodes[1..], &nodes[..1], &[], &nodes[..]] {
        stage.update_backends(&stage.spec(web(), set)?).await.must("updating the backends")?;
        backends_are(&stage.the_balancer().await?.1, set)?;
    }
    Ok(())
}

async fn update_changes_nothing_but_backends(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    stage.ensured(&stage.spec(web(), &nodes[..2])?).await?;
    let (object, before) = stage.the_balancer().await?;
    let other = bare("web", WEB).port(9090).on_node_port(31090).source_range("10.0.0.0/8");
    stage.update_backends(&stage.spec(other, &nodes[2..])?).await.must("updating the backends")?;
    let (same, after) = stage.the_balancer().await?;
    equal("the balancer's ID", &same.id, &object.id)?;
    backends_are(&after, &nodes[2..])?;
    equal("everything but the backends", &Balancer { backends: before.backends.clone(), ..after }, &before)
}

async fn update_to_the_same_backends_writes_nothing(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    let spec = stage.spec(web(), &nodes)?;
    stage.ensured(&spec).await?;
    let writes = stage.calls().await.writes;
    stage.update_backends(&spec).await.must("updating the backends")?;
    equal("writes", &(stage.calls().await.writes - writes), &0)
}

async fn update_of_a_vanished_balancer_is_not_found(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    let spec = stage.spec(web(), &nodes)?;
    not_found(stage.update_backends(&spec).await)?;
    stage.ensured(&spec).await?;
    let (object, _) = stage.the_balancer().await?;
    stage.stand_in.remove(&object.id).await?;
    not_found(stage.update_backends(&spec).await)?;
    equal("balancers in the cloud", &stage.contents().await?.balancers().count(), &0)
}

async fn a_vanished_balancer_is_noticed_and_made_again(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    let spec = stage.spec(web(), &nodes)?;
    stage.ensured(&spec).await?;
    let (object, _) = stage.the_balancer().await?;
    stage.stand_in.remove(&object.id).await?;
    let seen = stage.balancers()?.get(&spec).await.must("getting a balancer that is gone")?;
    let noticed = seen.as_ref().is_none_or(|seen| {
        addresses(&seen.status).is_empty() && matches!(seen.agreement, Agreement::Different(_))
    });
    promised(noticed, || format!("it is gone, and get tells {seen:?}"))?;
    let status = stage.ensured(&spec).await?;
    let (_, balancer) = stage.the_balancer().await?;
    equal("the addresses", &addresses(&status), &balancer.addresses)?;
    backends_are(&balancer, &nodes)
}

async fn drift_is_seen_and_repaired(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    let spec = stage.spec(web(), &nodes)?;
    let status = stage.ensured(&spec).await?;
    let (object, _) = stage.the_balancer().await?;
    stage.stand_in.tamper(&object.id).await?;
    let (tampered, _) = stage.the_balancer().await?;
    if tampered.bytes == object.bytes {
        return skip("the stand-in changed nothing that it shows");
    }
    let Some(observed) = stage.balancers()?.get(&spec).await.must("getting the balancer")? else {
        return broken("somebody changed the balancer, and get tells None");
    };
    promised(observed.agreement != Agreement::Same, || {
        "somebody changed the balancer, and get says Same".to_owned()
    })?;
    equal("the addresses after the repair", &addresses(&stage.ensured(&spec).await?), &addresses(&status))?;
    let (repaired, _) = stage.the_balancer().await?;
    equal("the repaired balancer", &repaired.bytes, &object.bytes)
}

async fn nodes(stage: &Stage) -> Result<Vec<Instance>, Stop> {
    stage.balancers()?;
    stage.start_all(&["node-a", "node-b", "node-c"]).await
}

fn backends_are(balancer: &Balancer, nodes: &[Instance]) -> Verdict {
    equal("the backends", &balancer.backends, &nodes.iter().map(|node| node.name.clone()).collect())
}

fn not_found(updated: Result<(), cloud_provider::Error>) -> Verdict {
    match updated {
        Ok(()) => broken("an update of a balancer that does not exist succeeded"),
        Err(error) => {
            equal("the decision about a balancer that does not exist", error.decision(), &Decision::NotFound)
        }
    }
}
