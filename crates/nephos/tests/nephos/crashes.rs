//! A leader that is killed at any moment of a story of nodes, Services and routes, again and again: what is there in the
//! end is what an undisturbed run leaves, field by field, in the cluster and in the cloud.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use control_plane::kubelet::register_all;
use control_plane::{ControlPlane, Kubelet};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use provider_fake::Config;
use provider_fake::objects::Machine;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use testkit::Awake;
use tokio::time::{Instant, sleep};

use crate::nodes::is_initialised;
use crate::picture::{Picture, differences, picture};
use crate::process::Nephos;
use crate::scene::{Scene, eventually};
use crate::services::balanced;
use crate::{LEADS, PATIENCE};

/// A lease that is over soon, so that many crashes take little time, but not in a moment that a shared machine stands still; and
/// nothing that waits for minutes.
const FLAGS: [&str; 7] = [
    "--leader-elect-lease-duration=5s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=500ms",
    "--node-deletion-grace-period=1s",
    "--node-monitor-period=1s",
    "--allocate-node-cidrs=true",
    "--cluster-cidr=10.244.0.0/16",
];

const NODES: usize = 12;

/// What the balancers do not send to.
const EXCLUDED: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// How long nothing may change any more before the story counts as over.
const QUIET: Duration = Duration::from_secs(4);

fn name(number: usize) -> String {
    format!("worker-{number:02}")
}

/// A cloud with all machines, whose writes take so long that a crash can fall into one.
async fn scene() -> Scene {
    let address = |number: usize| format!("10.8.0.{}", number + 1);
    let machine = |number| Machine::new(name(number)).with_address("InternalIP", address(number));
    let cloud = Config {
        adopt: false,
        instances: (0..NODES).map(machine).collect(),
        latencies: [("writes".to_owned(), Duration::from_millis(40))].into(),
        ..Config::default()
    };
    Scene::with(ControlPlane::builder(), cloud).await
}

/// A Service that asks for a balancer; what the API server would draw by lot is given.
fn web(number: u16, ports: &[u16]) -> Service {
    let ports: Vec<Value> = ports.iter().map(|port| port_of(number, *port)).collect();
    serde_json::from_value(json!({
        "metadata": {"name": format!("web-{number}")},
        "spec": {
            "type": "LoadBalancer", "selector": {"app": "web"}, "ports": ports,
            // Of those that the API server does not draw while there are others.
            "clusterIP": format!("10.96.0.{}", 20 + number),
        },
    }))
    .expect("a service")
}

fn port_of(service: u16, port: u16) -> Value {
    json!({"name": format!("p{port}"), "port": port, "nodePort": 30_000 + service * 100 + port % 100})
}

/// The steps of the story. Each can be taken again by somebody who does not know whether it was.
const STEPS: usize = 11;

async fn act(scene: &Scene, client: &Client, step: usize) {
    let services: Api<Service> = Api::default_namespaced(client.clone());
    let nodes: Api<Node> = Api::all(client.clone());
    let merge = |body: Value| Patch::Merge(body);
    match step {
        0..4 => {
            let joining: Vec<Kubelet> =
                (step * 3..step * 3 + 3).map(|number| Kubelet::new(name(number))).collect();
            register_all(client, &joining, 3).await.expect("nodes register");
            made(services.create(&PostParams::default(), &web(number(step), &[80])).await, 409);
        }
        4 => vanish(scene, client, &name(3)).await,
        5 => {
            let ports = json!({"spec": {"ports": [port_of(2, 80), port_of(2, 443)]}});
            services.patch("web-2", &PatchParams::default(), &merge(ports)).await.expect("another port");
        }
        6 => {
            let label = json!({"metadata": {"labels": {EXCLUDED: ""}}});
            nodes.patch(&name(6), &PatchParams::default(), &merge(label)).await.expect("a label");
        }
        7 => made(services.delete("web-1", &DeleteParams::default()).await, 404),
        8 => vanish(scene, client, &name(9)).await,
        9 => {
            let inside = json!({"spec": {"type": "ClusterIP"}});
            services.patch("web-3", &PatchParams::default(), &merge(inside)).await.expect("another type");
        }
        _ => made(services.create(&PostParams::default(), &web(4, &[80, 443])).await, 409),
    }
}

/// What happens beside the story in each life of the manager, so that every one of them has something to do: a Service
/// comes, the one before goes, and the balancers lose a node or get it back.
async fn stir(client: &Client, life: usize) {
    let services: Api<Service> = Api::default_namespaced(client.clone());
    let mut passing = balanced(&format!("passing-{life:03}"));
    let port = json!([{"port": 80, "nodePort": 31_000 + life % 1000}]);
    passing.spec.as_mut().expect("a spec").ports = serde_json::from_value(port).expect("a port");
    made(services.create(&PostParams::default(), &passing).await, 409);
    pass(client, &passing.name_any()).await;
    let label = if life.is_multiple_of(2) { json!("") } else { Value::Null };
    exclude(client, label).await;
}

/// The Services of lives before go, all but this one's.
async fn pass(client: &Client, stays: &str) {
    let services: Api<Service> = Api::default_namespaced(client.clone());
    let all = services.list(&ListParams::default()).await.expect("listing services");
    let names = all.items.iter().map(ResourceExt::name_any);
    for name in names.filter(|name| name.starts_with("passing") && name != stays) {
        made(services.delete(&name, &DeleteParams::default()).await, 404);
    }
}

/// The first node, which is there from the first step on, is taken from the balancers or given back.
async fn exclude(client: &Client, label: Value) {
    let nodes: Api<Node> = Api::all(client.clone());
    let patch = Patch::Merge(json!({"metadata": {"labels": {EXCLUDED: label}}}));
    nodes.patch(&name(0), &PatchParams::default(), &patch).await.expect("a label");
}

fn number(step: usize) -> u16 {
    u16::try_from(step).expect("a small number")
}

/// It was done, now or by somebody before.
fn made<T>(answer: Result<T, kube::Error>, already: u16) {
    match answer {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == already => {}
        Err(error) => panic!("{error:?}"),
    }
}

/// A machine goes, and its kubelet falls silent.
async fn vanish(scene: &Scene, client: &Client, name: &str) {
    let nodes: Api<Node> = Api::all(client.clone());
    let read = async || nodes.get_opt(name).await.expect("reading the node");
    // It can only vanish from under a node that had one.
    eventually("the node has its machine", async || {
        read().await.is_none_or(|node| is_initialised(&node)).then_some(())
    })
    .await;
    scene.world.remove_machine(name);
    eventually("its kubelet is silent", async || {
        let silent = Kubelet::new(name).ready(false).heartbeat(client).await.is_ok();
        (silent || read().await.is_none()).then_some(())
    })
    .await;
}

/// Whether everything that the story asks for is there: what a picture that is compared with must show.
fn is_over(scene: &Scene) -> bool {
    let contents = scene.world.contents();
    let backends: Vec<String> = (0..NODES).filter(|number| ![3, 6, 9].contains(number)).map(name).collect();
    let listeners = contents.balancers.iter().map(|each| each.settings.listeners.len()).sum::<usize>();
    contents.balancers.len() == 3
        && contents.addresses.len() == 3
        && listeners == 5
        && contents.balancers.iter().all(|each| each.backends.iter().eq(&backends))
        && contents.routes.len() == NODES - 2
        && contents.routes.iter().all(|route| !route.blackhole)
}

/// The picture once everything is there and nothing has changed for a while.
async fn settled(scene: &Scene, client: &Client) -> Picture {
    eventually("the story is over", async || is_over(scene).then_some(())).await;
    let mut last = (picture(scene, client).await, Instant::now());
    eventually("the picture settles", async || {
        let now = picture(scene, client).await;
        if now != last.0 {
            last = (now, Instant::now());
        }
        (last.1.elapsed() > QUIET).then(|| last.0.clone())
    })
    .await
}

/// The story without a crash.
async fn undisturbed() -> Picture {
    let scene = scene().await;
    let client = scene.client().await;
    let mut nephos = scene.nephos(&FLAGS);
    nephos.wait_for(LEADS, PATIENCE).await;
    for step in 0..STEPS {
        act(&scene, &client, step).await;
    }
    let picture = settled(&scene, &client).await;
    assert_eq!(scene.world.violations(), Vec::<String>::new());
    nephos.terminate();
    assert_eq!(nephos.exit_code(PATIENCE).await, Some(0));
    scene.end().await;
    picture
}

/// When a process is killed.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// So long after it was started, whether or not it leads by then.
    Started(Duration),
    /// So long after it began to lead.
    Led(Duration),
    /// With the arrival of its so-manieth write at the cloud, which carries it out and finds nobody to answer.
    Wrote(u64),
}

impl Moment {
    fn draw(random: &mut SmallRng) -> Self {
        match random.random_range(0..6) {
            0 => Self::Started(Duration::from_millis(random.random_range(0..8000))),
            1 | 2 => Self::Led(Duration::from_millis(random.random_range(0..1500))),
            _ => Self::Wrote(random.random_range(1..6)),
        }
    }

    /// Kills the process when its moment has come; one that does not write so often is killed soon after it leads.
    async fn strike(self, scene: &Scene, nephos: &mut Nephos) -> Struck {
        let written = Arc::new(AtomicU64::new(0));
        let (count, killer) = (Arc::clone(&written), nephos.killer());
        scene.world.on_call(move |call| {
            if call.operation.is_write() {
                let so_far = count.fetch_add(1, Ordering::SeqCst) + 1;
                if matches!(self, Self::Wrote(last) if so_far == last) {
                    killer();
                }
            }
        });
        match self {
            Self::Started(after) => sleep(after).await,
            Self::Led(after) => {
                nephos.wait_for(LEADS, PATIENCE).await;
                sleep(after).await;
            }
            Self::Wrote(_) => {
                nephos.wait_for(LEADS, PATIENCE).await;
                let leading = Awake::now();
                while nephos.is_running() && leading.elapsed() < Duration::from_millis(1500) {
                    sleep(Duration::from_millis(10)).await;
                }
            }
        }
        scene.world.on_call(|_| {});
        let leading = nephos.count(LEADS) > 0;
        let already = !nephos.is_running();
        if !already {
            nephos.kill();
        }
        let code = nephos.exit_code(PATIENCE).await;
        // On a machine that is too busy to renew in time, it may have ended by itself.
        let lost = nephos.count("leader election lost") > 0;
        assert!(code.is_none() || lost, "killed, not ended with {code:?}:\n{}", nephos.log());
        Struck { leading, at_a_write: already && code.is_none() }
    }
}

struct Struck {
    leading: bool,
    at_a_write: bool,
}

/// Tells the story with so many crashes, and says where they fell.
async fn crashed(times: usize, seed: u64) -> String {
    let expected = undisturbed().await;
    let scene = scene().await;
    let client = scene.client().await;
    let mut random = SmallRng::seed_from_u64(seed);
    let (mut step, mut leading, mut at_a_write) = (0, 0, 0);
    for crash in 0..times {
        let mut nephos = scene.nephos(&FLAGS);
        let due = ((crash + 1) * STEPS).div_ceil(times);
        let story = async {
            // The node that it takes away and gives back comes with the first step.
            if step > 0 {
                stir(&client, crash).await;
            }
            while step < due {
                act(&scene, &client, step).await;
                step += 1;
            }
            std::future::pending::<()>().await;
        };
        let struck = tokio::select! {
            () = story => unreachable!("the story waits for the crash"),
            struck = Moment::draw(&mut random).strike(&scene, &mut nephos) => struck,
        };
        leading += usize::from(struck.leading);
        at_a_write += usize::from(struck.at_a_write);
    }
    let told =
        format!("{times} crashes from seed {seed}: {leading} of a leader, {at_a_write} of them amid a write");
    assert!(leading * 2 >= times, "most crashes hit a leader: {leading} of {times} did");
    assert!(at_a_write * 4 >= times, "many crashes fall into a write: {at_a_write} of {times} did");

    let mut last = scene.nephos(&FLAGS);
    last.wait_for(LEADS, PATIENCE).await;
    pass(&client, "").await;
    exclude(&client, Value::Null).await;
    while step < STEPS {
        act(&scene, &client, step).await;
        step += 1;
    }
    let since = Instant::now();
    while !differences(&expected, &picture(&scene, &client).await).is_empty() && since.elapsed() < PATIENCE {
        sleep(Duration::from_millis(250)).await;
    }
    // It is as it should be, and stays so.
    sleep(QUIET).await;
    let different = differences(&expected, &picture(&scene, &client).await);
    assert!(different.is_empty(), "seed {seed}:\n{}\n{}", different.join("\n"), last.log());
    assert_eq!(scene.world.violations(), Vec::<String>::new(), "seed {seed}");
    last.terminate();
    assert_eq!(last.exit_code(PATIENCE).await, Some(0));
    scene.end().await;
    told
}

/// Proves: APP-30
#[tokio::test]
async fn ten_crashes_at_any_moment_leave_what_an_undisturbed_run_leaves() {
    println!("{}", crashed(10, 11).await);
}

#[tokio::test]
#[ignore = "takes ten minutes: make soak"]
async fn a_hundred_crashes_at_any_moment_leave_what_an_undisturbed_run_leaves_soak() {
    println!("{}", crashed(100, 2436).await);
}
