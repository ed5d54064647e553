//! Load balancers, from nothing to what the Service asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use cloud_provider::Decision;
use cloud_provider::load_balancer::{Agreement, Identity, Protocol};
use cloud_provider::well_known::ip_modes;

use crate::conformance::check::{MustSucceed, Stop, Verdict, broken, checks, equal, promised, skip};
use crate::conformance::objects::{shop, web};
use crate::conformance::play::addresses;
use crate::conformance::stand_in::{Contents, Instance, Manners};
use crate::conformance::{Stage, Time};

checks! { Balancers,
    get_of_nothing_is_nothing =>
        "Asked for a balancer that does not exist, get answers None and changes nothing.",
    ensure_makes_what_the_service_asks_for =>
        "Ensure makes one balancer with exactly the Service's ports and nodes.",
    the_status_is_well_formed =>
        "A status has at least one address, each an IP or a host name, with an ipMode only beside an IP.",
    the_status_tells_the_addresses_that_the_cloud_gave =>
        "The addresses in the status are those of the balancer in the cloud.",
    ensure_twice_is_one_balancer =>
        "Ensure is idempotent: a second one makes nothing and changes nothing, the address least of all.",
    get_agrees_after_ensure => "After an ensure, get tells the same status, and does not call it different.",
    get_changes_nothing => "A get of what exists writes nothing to the cloud.",
    two_services_get_two_balancers => "Each Service has a balancer and an address of its own.",
    a_balancer_without_nodes_is_made =>
        "A Service without eligible nodes gets its balancer, with nobody behind it.",
    the_name_depends_on_the_service_alone =>
        "The name of a balancer is a pure function of the identity, and differs between UIDs.",
    pending_work_is_not_waited_for =>
        "While the cloud builds a balancer, ensure answers RetryAfter at once instead of waiting.",
    a_list_that_lags_makes_no_second_balancer =>
        "Where lists show new objects late, an ensure repeated at once makes no second balancer.",
    the_descriptions_are_complete =>
        "Every annotation that is described has a key, a default and a sentence.",
}

async fn get_of_nothing_is_nothing(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    let spec = stage.spec(web(), &nodes)?;
    let seen = stage.balancers()?.get(&spec).await.must("getting a balancer that does not exist")?;
    promised(seen.is_none(), || format!("there is nothing, and get tells {seen:?}"))?;
    equal("writes that reached the cloud", &stage.calls().await.writes, &0)
}

async fn ensure_makes_what_the_service_asks_for(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    stage.ensured(&stage.spec(web(), &nodes)?).await?;
    let (_, balancer) = stage.the_balancer().await?;
    equal(
        "the listeners",
        &ports(&balancer.listeners),
        &BTreeSet::from([(Protocol::Tcp, 80), (Protocol::Tcp, 443)]),
    )?;
    equal("the nodes behind it", &balancer.backends, &names(&nodes))?;
    let node_ports: BTreeSet<u16> =
        balancer.listeners.iter().filter_map(|(_, _, node_port)| *node_port).collect();
    promised(node_ports.is_empty() || node_ports == BTreeSet::from([30080, 30443]), || {
        format!("the listeners lead to the node ports {node_ports:?}")
    })
}

async fn the_status_is_well_formed(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    let status = stage.ensured(&stage.spec(web(), &nodes)?).await?;
    let ingress = status.ingress.unwrap_or_default();
    promised(!ingress.is_empty(), || "the status has no address".to_owned())?;
    for entry in ingress {
        let ip = entry.ip.filter(|ip| !ip.is_empty());
        let hostname = entry.hostname.filter(|name| !name.is_empty());
        let addressed = match (&ip, &hostname) {
            (Some(ip), _) => ip.parse::<IpAddr>().is_ok(),
            (None, hostname) => hostname.is_some(),
        };
        promised(addressed, || format!("an entry has the IP {ip:?} and the host name {hostname:?}"))?;
        let mode = entry.ip_mode;
        let allowed = match mode.as_deref() {
            None => true,
            Some(mode) => ip.is_some() && [ip_modes::VIP, ip_modes::PROXY].contains(&mode),
        };
        promised(allowed, || format!("an entry with the IP {ip:?} has the ipMode {mode:?}"))?;
    }
    Ok(())
}

async fn the_status_tells_the_addresses_that_the_cloud_gave(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    let status = stage.ensured(&stage.spec(web(), &nodes)?).await?;
    let (_, balancer) = stage.the_balancer().await?;
    let told: BTreeSet<String> = addresses(&status).into_iter().collect();
    equal("the addresses", &told, &balancer.addresses.into_iter().collect())
}

async fn ensure_twice_is_one_balancer(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    let spec = stage.spec(web(), &nodes)?;
    let first = stage.ensured(&spec).await?;
    let (made, _) = stage.the_balancer().await?;
    let (contents, writes) = (stage.contents().await?, stage.calls().await.writes);
    for _ in 0..2 {
        equal("the status of a repeated ensure", &stage.ensured(&spec).await?, &first)?;
    }
    let (same, _) = stage.the_balancer().await?;
    equal("the balancer's ID", &same.id, &made.id)?;
    equal("writes of a repeated ensure", &(stage.calls().await.writes - writes), &0)?;
    untouched(&stage.contents().await?, &contents)
}

async fn get_agrees_after_ensure(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    let spec = stage.spec(web(), &nodes)?;
    let status = stage.ensured(&spec).await?;
    let Some(observed) = stage.balancers()?.get(&spec).await.must("getting the balancer")? else {
        return broken("ensure succeeded, and get tells None");
    };
    equal("the addresses that get tells", &addresses(&observed.status), &addresses(&status))?;
    promised(!matches!(observed.agreement, Agreement::Different(_)), || {
        format!("right after an ensure, get says {:?}", observed.agreement)
    })
}

async fn get_changes_nothing(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    let spec = stage.spec(web(), &nodes)?;
    stage.ensured(&spec).await?;
    let (before, writes) = (stage.contents().await?, stage.calls().await.writes);
    let other = stage.spec(web().port(8443).on_node_port(31443), &nodes[..1])?;
    stage.balancers()?.get(&spec).await.must("getting the balancer")?;
    stage.balancers()?.get(&other).await.must("getting the balancer under another spec")?;
    equal("writes of a get", &(stage.calls().await.writes - writes), &0)?;
    untouched(&stage.contents().await?, &before)
}

async fn two_services_get_two_balancers(stage: &Stage) -> Verdict {
    let nodes = nodes(stage).await?;
    let web = stage.ensured(&stage.spec(web(), &nodes)?).await?;
    let shop = stage.ensured(&stage.spec(shop(), &nodes)?).await?;
    let contents = stage.contents().await?;
    equal("balancers in the cloud", &contents.balancers().count(), &2)?;
    let (web, shop) = (addresses(&web), addresses(&shop));
    promised(!web.iter().any(|address| shop.contains(address)), || {
        format!("one Service answers at {web:?}, the other at {shop:?}")
    })?;
    let ports: BTreeSet<_> = contents.balancers().map(|(_, balancer)| ports(&balancer.listeners)).collect();
    let expected = [
        BTreeSet::from([(Protocol::Tcp, 80), (Protocol::Tcp, 443)]),
        BTreeSet::from([(Protocol::Tcp, 8080)]),
    ];
    equal("the ports of both", &ports, &expected.into())
}

async fn a_balancer_without_nodes_is_made(stage: &Stage) -> Verdict {
    stage.balancers()?;
    let status = stage.ensured(&stage.spec(web(), &[])?).await?;
    promised(!addresses(&status).is_empty(), || "the status has no address".to_owned())?;
    let (_, balancer) = stage.the_balancer().await?;
    equal("the nodes behind it", &balancer.backends, &BTreeSet::new())
}

async fn the_name_depends_on_the_service_alone(stage: &Stage) -> Verdict {
    let balancers = stage.balancers()?;
    let web = stage.spec(web(), &[])?.identity;
    let renewed = Identity { uid: "00000000-8a51-4d0e-9d3e-0a4b5c6d7e8f".to_owned(), ..web.clone() };
    equal("the name asked for twice", &balancers.name(&web), &balancers.name(&web.clone()))?;
    let (old, new) = (balancers.name(&web), balancers.name(&renewed));
    promised(!old.is_empty() && old != new, || {
        format!("a Service that was deleted and made again has the names {old:?} and {new:?}")
    })?;
    equal("calls for a name", &stage.calls().await.writes, &0)
}

async fn pending_work_is_not_waited_for(stage: &Stage) -> Verdict {
    let (construction, bound) = match stage.stand_in.time() {
        Time::Virtual => (Duration::from_secs(120), Duration::from_secs(30)),
        Time::Real => (Duration::from_secs(3), Duration::from_secs(2)),
    };
    let stage = &stage.among(Manners { construction, ..Manners::default() }).await?;
    let nodes = nodes(stage).await?;
    let spec = stage.spec(web(), &nodes)?;
    let asked = tokio::time::timeout(bound, stage.balancers()?.ensure(&spec, &stage.gate.changes())).await;
    match asked {
        Err(_) => return broken(format!("ensure was still waiting after {bound:?}")),
        Ok(Ok(status)) => promised(!addresses(&status).is_empty(), || {
            "ensure succeeded on a pending balancer without an address".to_owned()
        })?,
        Ok(Err(error)) => promised(matches!(error.decision(), Decision::RetryAfter { .. }), || {
            format!("about a pending balancer: {error:?}")
        })?,
    }
    let status = stage.ensured(&spec).await?;
    promised(!addresses(&status).is_empty(), || "a finished balancer has no address".to_owned())?;
    let (_, balancer) = stage.the_balancer().await?;
    equal("the nodes behind it", &balancer.backends, &names(&nodes))
}

async fn a_list_that_lags_makes_no_second_balancer(stage: &Stage) -> Verdict {
    let spec = stage.spec(web(), &nodes(stage).await?)?;
    stage.ensured(&spec).await?;
    let undisturbed = owned(stage.contents().await?.shape());
    let lag = match stage.stand_in.time() {
        Time::Virtual => Duration::from_secs(60),
        Time::Real => Duration::from_secs(1),
    };
    let stage = &stage.among(Manners { lag, ..Manners::default() }).await?;
    let spec = stage.spec(web(), &nodes(stage).await?)?;
    for _ in 0..3 {
        // A provider may say that it cannot see its work yet; it may not do the work twice.
        let _ = stage.balancers()?.ensure(&spec, &stage.gate.changes()).await;
    }
    let made = owned(stage.contents().await?.shape());
    let surplus =
        made.iter().find(|(kind, count)| undisturbed.get(*kind).is_none_or(|enough| *count > enough));
    promised(surplus.is_none(), || {
        format!("an undisturbed ensure makes {undisturbed:?}, these made {made:?}")
    })?;
    tokio::time::sleep(lag).await;
    stage.ensured(&spec).await?;
    equal("objects in the cloud", &owned(stage.contents().await?.shape()), &undisturbed)
}

fn owned(shape: BTreeMap<&str, usize>) -> BTreeMap<String, usize> {
    shape.into_iter().map(|(kind, count)| (kind.to_owned(), count)).collect()
}

async fn the_descriptions_are_complete(stage: &Stage) -> Verdict {
    let description = stage.balancers()?.describe();
    let mut keys = BTreeSet::new();
    for annotation in description.annotations {
        promised(!annotation.key.is_empty() && !annotation.about.is_empty(), || {
            format!("an annotation is described as {annotation:?}")
        })?;
        promised(keys.insert(annotation.key), || format!("{} is described twice", annotation.key))?;
    }
    if let Ok((key, _)) = stage.stand_in.annotation() {
        promised(keys.contains(key.as_str()), || format!("{key} has an effect and no description"))?;
    }
    if keys.is_empty() { skip("the provider reads no annotation") } else { Ok(()) }
}

async fn nodes(stage: &Stage) -> Result<Vec<Instance>, Stop> {
    stage.balancers()?;
    stage.start_all(&["node-a", "node-b"]).await
}

fn names(nodes: &[Instance]) -> BTreeSet<String> {
    nodes.iter().map(|node| node.name.clone()).collect()
}

fn ports(listeners: &BTreeSet<(Protocol, u16, Option<u16>)>) -> BTreeSet<(Protocol, u16)> {
    listeners.iter().map(|(protocol, port, _)| (*protocol, *port)).collect()
}

fn untouched(now: &Contents, before: &Contents) -> Verdict {
    let mut changes = now.damage_since(before);
    changes
        .extend(now.added_since(before).iter().map(|object| format!("{} {} is new", object.kind, object.id)));
    promised(changes.is_empty(), || changes.join("; "))
}
