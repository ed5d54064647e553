//! How much memory a cached Node takes: the growth of resident memory between 1,000 and 5,000 Nodes of real size, each
//! measured in a process of its own. Exits with 1 above the bound.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement prints, and stops where it stands"
)]

use std::convert::Infallible;
use std::process::Command;

use bytes::Bytes;
use controller_kit::cache::{Cache, Metrics, Scope, trim};
use controller_kit::lifecycle::Shutdown;
use controller_kit::random::Randomness;
use futures::StreamExt as _;
use futures::stream;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use k8s_openapi::api::core::v1::Node;
use kube::client::Body;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

/// Bytes per Node.
const BOUND: i64 = 8 * 1024;

const FEW: i64 = 1_000;
const MANY: i64 = 5_000;

fn main() {
    // Libtest's own flags may be passed along; a number is a child that measures.
    match std::env::args().nth(1).and_then(|count| count.parse().ok()) {
        Some(count) => println!("{}", measure(count)),
        None => compare(),
    }
}

fn compare() {
    let size = serde_json::to_vec(&real_node(0)).unwrap().len();
    let (few, many) = (in_child(FEW), in_child(MANY));
    let per_node = (many - few) / (MANY - FEW);
    println!("a Node of {size} bytes of JSON; resident: {FEW} nodes {few} B, {MANY} nodes {many} B");
    println!("growth per cached Node: {per_node} B (bound {BOUND} B)");
    if per_node > BOUND {
        std::process::exit(1);
    }
}

fn in_child(count: i64) -> i64 {
    let child = Command::new(std::env::current_exe().unwrap()).arg(count.to_string()).output().unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    String::from_utf8(child.stdout).unwrap().trim().parse().unwrap()
}

/// Fills a cache with `count` Nodes and tells the resident memory afterwards, in bytes.
fn measure(count: i64) -> i64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let client = kube::Client::new(
            tower::service_fn(move |request| std::future::ready(answer(&request, count))),
            "default",
        );
        let metrics = Metrics::register(&mut Registry::default());
        let keep = ["alpha.kubernetes.io/provided-node-ip"];
        let cache: Cache<Node> =
            Cache::new(client, Scope::default(), trim::node(keep), Randomness::seeded(1), &metrics);
        let stop = Shutdown::new();
        let running = tokio::spawn({
            let (cache, stop) = (cache.clone(), stop.clone());
            async move { cache.run(&stop).await }
        });
        cache.wait_synced().await;
        assert_eq!(i64::try_from(cache.len()).unwrap(), count);
        let resident = resident();
        stop.trigger();
        running.await.unwrap();
        resident
    })
}

fn resident() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<i64>().unwrap() * 1024
}

type StreamedBody = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

/// An API server that lists from its cache: everything in one answer, whatever the page size. It makes each Node when
/// it is sent, so that its own memory does not count.
#[expect(clippy::unnecessary_wraps, reason = "what a service answers is a result")]
fn answer(request: &Request<Body>, count: i64) -> Result<Response<StreamedBody>, Infallible> {
    let watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
    let body: StreamedBody = if watch {
        StreamBody::new(stream::pending()).boxed_unsync()
    } else {
        let head =
            r#"{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"100000"},"items":["#;
        let items = (0..count).map(|number| {
            let comma = if number == 0 { "" } else { "," };
            format!("{comma}{}", real_node(number))
        });
        let pieces = std::iter::once(head.to_owned()).chain(items).chain(["]}".to_owned()]);
        StreamBody::new(stream::iter(pieces).map(|piece| Ok(Frame::data(Bytes::from(piece))))).boxed_unsync()
    };
    Ok(Response::new(body))
}

/// A Node as a cloud's kubelet keeps it: 25 images, managed fields of three writers, annotations of the network and
/// storage plug-ins.
fn real_node(number: i64) -> Value {
    let name = format!(
        "ip-10-{}-{}-{}.eu-central-1.compute.internal",
        number / 65536,
        number / 256 % 256,
        number % 256
    );
    let quantities = json!({
        "cpu": "8", "ephemeral-storage": "83873772Ki", "hugepages-1Gi": "0", "hugepages-2Mi": "0",
        "memory": "32386544Ki", "pods": "58",
    });
    let images: Vec<Value> = (0..25).map(image_of).collect();
    json!({
        "metadata": {
            "name": name, "uid": format!("6f2d4c1e-8f0a-4a57-9c3b-{number:012}"),
            "resourceVersion": (number + 1000).to_string(), "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": labels(&name),
            "annotations": {
                "alpha.kubernetes.io/provided-node-ip": "10.0.12.34",
                "csi.volume.kubernetes.io/nodeid": format!(r#"{{"ebs.csi.aws.com":"i-0{number:016x}"}}"#),
                "node.alpha.kubernetes.io/ttl": "15",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
                "projectcalico.org/IPv4Address": "10.0.12.34/20",
                "projectcalico.org/IPv4VXLANTunnelAddr": "192.168.12.64",
            },
            "managedFields": managed_fields(),
        },
        "spec": {
            "podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24"],
            "providerID": format!("aws:///eu-central-1a/i-0{number:016x}"),
            "taints": [{"effect": "NoSchedule", "key": "node.kubernetes.io/unschedulable"}],
        },
        "status": {
            "addresses": [
                {"address": "10.0.12.34", "type": "InternalIP"}, {"address": "3.120.45.67", "type": "ExternalIP"},
                {"address": name, "type": "InternalDNS"}, {"address": name, "type": "Hostname"},
            ],
            "allocatable": quantities, "capacity": quantities,
            "conditions": conditions(), "images": images,
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "architecture": "amd64", "bootID": "c8c1b2c4-6ea7-4bb1-a5d0-2f8f1f0f7f11",
                "containerRuntimeVersion": "containerd://1.7.23", "kernelVersion": "6.1.112-122.189.amzn2023.x86_64",
                "kubeProxyVersion": "v1.34.1", "kubeletVersion": "v1.34.1",
                "machineID": "ec2d4c1e8f0a4a579c3b6f2d4c1e8f0a", "operatingSystem": "linux",
                "osImage": "Amazon Linux 2023.6.20241010", "systemUUID": "ec2d4c1e-8f0a-4a57-9c3b-6f2d4c1e8f0a",
            },
            "volumesAttached": [{"devicePath": "", "name": "kubernetes.io/csi/ebs.csi.aws.com^vol-0a1b2c3d4e5f60718"}],
            "volumesInUse": ["kubernetes.io/csi/ebs.csi.aws.com^vol-0a1b2c3d4e5f60718"],
        },
    })
}

fn image_of(number: u32) -> Value {
    let repository = format!("602401143452.dkr.ecr.eu-central-1.amazonaws.com/eks/component-{number:02}");
    let digest = format!("{number:02}7d1c0f5e6ab8d94c3f2e1a0b9c8d7e6f5a4b3c2d1e0f9a8b7c6d5e4f3a2b1c0d");
    json!({
        "names": [format!("{repository}@sha256:{digest}"), format!("{repository}:v1.34.1-eksbuild.{number}")],
        "sizeBytes": 60_000_000 + number,
    })
}

fn labels(name: &str) -> Value {
    json!({
        "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/instance-type": "m6i.2xlarge",
        "beta.kubernetes.io/os": "linux", "eks.amazonaws.com/capacityType": "ON_DEMAND",
        "eks.amazonaws.com/nodegroup": "general-purpose-a", "failure-domain.beta.kubernetes.io/region": "eu-central-1",
        "failure-domain.beta.kubernetes.io/zone": "eu-central-1a", "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "m6i.2xlarge", "topology.kubernetes.io/region": "eu-central-1",
        "topology.kubernetes.io/zone": "eu-central-1a", "topology.k8s.aws/zone-id": "euc1-az2",
    })
}

fn conditions() -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": "2026-11-15T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    json!([
        condition("NetworkUnavailable", "False", "RouteCreated", "NodeController create implicit route"),
        condition(
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available"
        ),
        condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ])
}

fn managed_fields() -> Value {
    let of = |manager: &str, fields: Value| {
        json!({
            "manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-11-15T00:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": fields,
        })
    };
    let heartbeat = json!({"f:lastHeartbeatTime": {}, "f:lastTransitionTime": {}, "f:message": {}, "f:reason": {}, "f:status": {}});
    json!([
        of(
            "cloud-controller-manager",
            json!({"f:metadata": {"f:labels": {
            "f:beta.kubernetes.io/instance-type": {}, "f:failure-domain.beta.kubernetes.io/region": {},
            "f:failure-domain.beta.kubernetes.io/zone": {}, "f:node.kubernetes.io/instance-type": {},
            "f:topology.kubernetes.io/region": {}, "f:topology.kubernetes.io/zone": {}}},
            "f:spec": {"f:providerID": {}}, "f:status": {"f:addresses": {"k:{\"type\":\"ExternalIP\"}": {".": {}, "f:address": {}, "f:type": {}}}}})
        ),
        of(
            "kube-controller-manager",
            json!({"f:metadata": {"f:annotations": {"f:node.alpha.kubernetes.io/ttl": {}}},
            "f:spec": {"f:podCIDR": {}, "f:podCIDRs": {".": {}, "v:\"10.244.1.0/24\"": {}}, "f:taints": {}},
            "f:status": {"f:volumesAttached": {}}})
        ),
        of(
            "kubelet",
            json!({"f:metadata": {
            "f:annotations": {".": {}, "f:alpha.kubernetes.io/provided-node-ip": {}, "f:csi.volume.kubernetes.io/nodeid": {},
                "f:volumes.kubernetes.io/controller-managed-attach-detach": {}},
            "f:labels": {".": {}, "f:beta.kubernetes.io/arch": {}, "f:beta.kubernetes.io/os": {}, "f:eks.amazonaws.com/nodegroup": {},
                "f:kubernetes.io/arch": {}, "f:kubernetes.io/hostname": {}, "f:kubernetes.io/os": {}}},
            "f:status": {"f:allocatable": {"f:cpu": {}, "f:ephemeral-storage": {}, "f:memory": {}},
                "f:capacity": {"f:cpu": {}, "f:ephemeral-storage": {}, "f:memory": {}},
                "f:conditions": {"k:{\"type\":\"DiskPressure\"}": heartbeat, "k:{\"type\":\"MemoryPressure\"}": heartbeat,
                    "k:{\"type\":\"PIDPressure\"}": heartbeat, "k:{\"type\":\"Ready\"}": heartbeat},
                "f:images": {}, "f:nodeInfo": {"f:bootID": {}, "f:kubeletVersion": {}}, "f:volumesInUse": {}}})
        ),
    ])
}
