//! What happens, step by step. Each step waits for what it promises, and a promise that is not kept ends the story.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use provider_local::proxy::Client as ProxyClient;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::machine::curl;
use crate::picture::{address_of, is_initialised, zone_of};
use crate::stage::Stage;
use crate::view::View;

/// How long a step may take. Generous: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(90);
/// How long a dead backend may still be chosen.
const FAIL_OVER: Duration = Duration::from_secs(3);
/// The machine that dies.
const VICTIM: &str = "edsger";
/// The port of the Service: one that needs no root.
const PORT: u16 = 8080;

/// Tells the whole story; without `once` it then goes on until somebody ends it.
pub(crate) async fn tell(stage: &mut Stage, view: &View, once: bool) -> anyhow::Result<()> {
    machines_join(stage, view).await?;
    let place = a_service_is_made(stage, view).await?;
    let answers = ask(place, 12).await?;
    view.say(&format!("curl http://{place}, 12 times: {}", counted(&answers)));
    ensure!(answers.len() == 3, "not every machine answered: {answers:?}");
    a_machine_dies(stage, view, place).await?;
    the_machine_is_scrapped(stage, view, place).await?;
    if once {
        return the_service_goes(stage, view, place).await;
    }
    view.say("All of it stays up until Ctrl-C. To try:");
    for hint in stage.hints(&format!("http://{place}")) {
        view.say(&format!("  {hint}"));
    }
    std::future::pending().await
}

async fn machines_join(stage: &mut Stage, view: &View) -> anyhow::Result<()> {
    let names: Vec<String> = stage.machines.iter().map(|machine| machine.name.clone()).collect();
    view.say(&format!(
        "The machines {} join. No cloud has looked at them yet: each carries a taint.",
        names.join(", ")
    ));
    for machine in &mut stage.machines {
        machine.join(&stage.client).await?;
    }
    let joined = Instant::now();
    let nodes: Api<Node> = Api::all(stage.client.clone());
    for name in names {
        let node = eventually(&format!("node {name} is initialised"), async || {
            let node = nodes.get(&name).await?;
            Ok(is_initialised(&node).then_some(node))
        })
        .await?;
        let id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone()).unwrap_or_default();
        let zone = zone_of(&node);
        ensure!(id == format!("local://demo/m-{name}"), "node {name} has the provider ID {id}");
        let took = joined.elapsed().as_secs_f32();
        view.say(&format!(
            "  {name} is a Node of the cluster after {took:.1} s: {id}, zone {zone}, no taint"
        ));
    }
    Ok(())
}

async fn a_service_is_made(stage: &mut Stage, view: &View) -> anyhow::Result<SocketAddr> {
    view.say("A Service of type LoadBalancer is made.");
    let services: Api<Service> = Api::default_namespaced(stage.client.clone());
    let service = serde_json::from_value(json!({
        "metadata": { "name": "web" },
        "spec": {
            "type": "LoadBalancer",
            "selector": { "app": "web" },
            "ports": [{ "port": PORT, "targetPort": 80 }],
        },
    }))?;
    let asked = Instant::now();
    let made = services.create(&PostParams::default(), &service).await.context("making the Service")?;
    let ports = made.spec.and_then(|spec| spec.ports).unwrap_or_default();
    let node_port = ports.first().and_then(|port| port.node_port).context("the Service has no node port")?;
    for machine in &mut stage.machines {
        machine.serve(u16::try_from(node_port)?).await?;
    }
    let address =
        eventually("the Service has an address", async || Ok(address_of(&services.get("web").await?)))
            .await?;
    view.say(&format!("  it has the address {address} after {:.1} s", asked.elapsed().as_secs_f32()));
    let place: SocketAddr = format!("{address}:{PORT}").parse()?;
    eventually("the address answers", async || Ok(curl(place).await.ok())).await?;
    Ok(place)
}

async fn a_machine_dies(stage: &mut Stage, view: &View, place: SocketAddr) -> anyhow::Result<()> {
    view.say(&format!("{VICTIM} dies: the plug is pulled."));
    for machine in stage.machines.iter_mut().filter(|machine| machine.name == VICTIM) {
        machine.kill();
    }
    sleep(FAIL_OVER).await;
    let answers = ask(place, 30).await.context("asking after a machine died")?;
    view.say(&format!("  {FAIL_OVER:?} later, 30 times curl: {}", counted(&answers)));
    ensure!(answers.len() == 2 && !answers.contains_key(&greeting(VICTIM)), "who answered: {answers:?}");
    Ok(())
}

async fn the_machine_is_scrapped(stage: &mut Stage, view: &View, place: SocketAddr) -> anyhow::Result<()> {
    view.say(&format!("{VICTIM} is silent and taken out of the inventory: it is gone for good."));
    let victim = stage.machines.iter().find(|machine| machine.name == VICTIM).context("it was there")?;
    victim.be_declared_not_ready(&stage.client).await?;
    stage.scrap(VICTIM)?;
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let scrapped = Instant::now();
    eventually("its Node is deleted", async || Ok(nodes.get_opt(VICTIM).await?.is_none().then_some(())))
        .await?;
    view.say(&format!("  its Node is deleted after {:.1} s", scrapped.elapsed().as_secs_f32()));
    let proxy = ProxyClient::at(&stage.socket);
    let left = eventually("it leaves the balancer", async || {
        let intent = proxy.intent().await?;
        let backends = intent.balancers.values().flat_map(|balancer| balancer.ports.values());
        let names: Vec<String> =
            backends.flat_map(|port| &port.backends).map(|each| each.node.clone()).collect();
        Ok((!names.is_empty() && !names.iter().any(|name| name == VICTIM)).then_some(names))
    })
    .await?;
    view.say(&format!(
        "  behind the balancer are now {}; {}",
        left.join(" and "),
        counted(&ask(place, 10).await?)
    ));
    Ok(())
}

async fn the_service_goes(stage: &mut Stage, view: &View, place: SocketAddr) -> anyhow::Result<()> {
    view.say("The Service is deleted.");
    let services: Api<Service> = Api::default_namespaced(stage.client.clone());
    services.delete("web", &DeleteParams::default()).await.context("deleting the Service")?;
    eventually("the Service is gone", async || Ok(services.get_opt("web").await?.is_none().then_some(())))
        .await?;
    let open = tokio::net::TcpStream::connect(place).await.is_ok();
    ensure!(!open, "somebody still answers at {place}");
    view.say(&format!("  it is gone, and nobody answers at {place} any more. All promises were kept."));
    Ok(())
}

fn greeting(name: &str) -> String {
    format!("hello from {name}")
}

/// Asks so many times, one after another, and counts the answers. An unanswered question is an error.
async fn ask(place: SocketAddr, times: usize) -> anyhow::Result<BTreeMap<String, usize>> {
    let mut answers = BTreeMap::new();
    for _ in 0..times {
        *answers.entry(curl(place).await.with_context(|| format!("curl http://{place}"))?).or_default() += 1;
    }
    Ok(answers)
}

fn counted(answers: &BTreeMap<String, usize>) -> String {
    let each: Vec<String> = answers.iter().map(|(answer, times)| format!("{times} x {answer:?}")).collect();
    each.join(", ")
}

/// Asks again and again until there is an answer. What fails meanwhile is told only if it never stops failing.
async fn eventually<T>(
    what: &str,
    mut look: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let mut trouble = None;
    let looking = async {
        loop {
            match look().await {
                Ok(Some(found)) => return found,
                Ok(None) => trouble = None,
                Err(error) => trouble = Some(error),
            }
            sleep(Duration::from_millis(100)).await;
        }
    };
    let found = timeout(PATIENCE, looking).await;
    found.map_err(|_| {
        let late = anyhow::anyhow!("waited {PATIENCE:?} in vain until {what}");
        match trouble {
            Some(error) => error.context(late),
            None => late,
        }
    })
}
