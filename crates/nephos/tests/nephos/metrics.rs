//! What a scraper finds on the manager's port is what the reference page says, family by family and label by label.

use std::collections::{BTreeMap, BTreeSet};

use control_plane::ControlPlane;
use control_plane::kubelet::register_all;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::Api;
use kube::api::{ListParams, PostParams};
use provider_fake::Config;

use crate::PATIENCE;
use crate::nodes::{is_initialised, kubelets, page, port_client};
use crate::scene::{Scene, eventually, free_port};
use crate::services::balanced;

const PAGE: &str = include_str!("../../../../docs/reference/metrics.md");

/// Type and labels by name.
type Families = BTreeMap<String, (String, BTreeSet<String>)>;

/// What the reference page says.
fn documented() -> Families {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split(" | ").collect();
        let labels = cells[2].split(", ").map(|label| label.trim_matches('`').to_owned());
        let labels = labels.filter(|label| !label.is_empty()).collect();
        (cells[0].trim_matches('`').to_owned(), (cells[1].to_owned(), labels))
    })
    .collect()
}

/// What Prometheus text shows.
fn scraped(text: &str) -> Families {
    let mut families = Families::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some((name, type_)) = line.strip_prefix("# TYPE ").and_then(|typed| typed.split_once(' ')) {
            name.clone_into(&mut current);
            families.insert(current.clone(), (type_.to_owned(), BTreeSet::new()));
        } else if let Some((_, labels)) = line.split_once('{')
            && let Some((_, known)) = families.get_mut(&current)
        {
            let labels = labels.rsplit_once('}').map_or(labels, |(labels, _)| labels);
            let names = labels.split("\",").filter_map(|pair| pair.split_once("=\"")).map(|(name, _)| name);
            known.extend(names.filter(|name| *name != "le").map(str::to_owned));
        }
    }
    families
}

#[test]
fn the_reader_of_prometheus_text_sees_types_and_labels() {
    let text =
        "# HELP a A.\n# TYPE a histogram\na_bucket{le=\"1\",x=\"y,{z}\",w=\"\"} 1\n# TYPE b gauge\nb 1\n";
    let labels = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    let expected = [("a", ("histogram", labels(&["x", "w"]))), ("b", ("gauge", labels(&[])))];
    let expected = expected.map(|(name, (type_, labels))| (name.to_owned(), (type_.to_owned(), labels)));
    assert_eq!(scraped(text), Families::from(expected));
}

#[tokio::test]
async fn everything_that_is_scraped_stands_on_the_reference_page_as_it_is() {
    let scene = Scene::with(ControlPlane::builder(), Config::default()).await;
    scene.configure("zones: [first]\n");
    let port = free_port();
    let mut nephos = scene.nephos(&[
        &format!("--secure-port={port}"),
        "--bind-address=127.0.0.1",
        "--allocate-node-cidrs",
        "--cluster-cidr=10.244.0.0/16",
        "--cloud-config-reload-period=200ms",
        "--kube-api-qps=100",
        "--kube-api-burst=100",
    ]);
    nephos.wait_for("became leader", PATIENCE).await;
    let client = scene.client().await;
    let nodes: Api<Node> = Api::all(client.clone());
    register_all(&client, &kubelets(3), 3).await.expect("the nodes register");
    let services: Api<Service> = Api::default_namespaced(client.clone());
    services.create(&PostParams::default(), &balanced("web")).await.expect("creating a service");
    eventually("all is done", async || {
        let listed = nodes.list(&ListParams::default()).await.expect("listing nodes");
        let contents = scene.world.contents();
        let done = listed.items.iter().all(is_initialised) && contents.routes.len() == 3;
        (done && contents.balancers.len() == 1).then_some(())
    })
    .await;
    scene.configure("zones: [second]\n");
    nephos.wait_for("A new version of the cloud config is in force", PATIENCE).await;

    let own = port_client(&scene.kubeconfig, port).await;
    assert!(page(&own, "/readyz").await.contains("ok"), "the checks are asked once");
    let mut found = scraped(&page(&own, "/metrics").await);
    // A second look finds what the first one cost.
    found.append(&mut scraped(&page(&own, "/metrics").await));
    found.append(&mut scraped(&page(&own, "/metrics/slis").await));
    let documented = documented();
    let wrong: Vec<String> = (found.iter())
        .filter(|(name, family)| documented.get(*name) != Some(family))
        .map(|(name, family)| format!("{name} is {family:?}, the page says {:?}", documented.get(name)))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    println!("{} of the {} families of the page were seen", found.len(), documented.len());
    assert!(
        found.len() * 3 > documented.len() * 2,
        "a story that shows most of the page: {:?}",
        found.keys()
    );
    nephos.terminate();
    assert_eq!(nephos.exit_code(PATIENCE).await, Some(0));
    scene.end().await;
}

/// What a provider counts beside the manager is served with it.
#[tokio::test]
async fn a_providers_own_metric_is_scraped_with_the_others() {
    let scene = Scene::set().await;
    let files = tempfile::tempdir().expect("a temporary directory");
    let (config, machines) = (files.path().join("local.yaml"), files.path().join("machines.yaml"));
    std::fs::write(&config, "site: lab\ninventory: machines.yaml\n").expect("writing the config");
    let inventory = "machines: [{name: worker-00, addresses: [192.0.2.11]}]\n";
    std::fs::write(&machines, inventory).expect("writing the inventory");
    let port = free_port();
    let mut nephos = scene.nephos(&[
        "--cloud-provider=local",
        &format!("--cloud-config={}", config.display()),
        &format!("--secure-port={port}"),
        "--bind-address=127.0.0.1",
    ]);
    nephos.wait_for("became leader", PATIENCE).await;
    let own = port_client(&scene.kubeconfig, port).await;
    let stale = async |value: &str| {
        eventually(&format!("the inventory is shown as {value}"), async || {
            let line = format!("\nnephos_local_inventory_stale {value}\n");
            page(&own, "/metrics").await.contains(&line).then_some(())
        })
        .await;
    };
    stale("0.0").await;
    std::fs::write(&machines, "no inventory").expect("breaking the inventory");
    // Somebody has to ask, or nobody looks at the file.
    register_all(&scene.client().await, &kubelets(1), 1).await.expect("a node registers");
    stale("1.0").await;
    nephos.terminate();
    assert_eq!(nephos.exit_code(PATIENCE).await, Some(0));
    scene.end().await;
}
