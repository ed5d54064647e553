//! Volumes: by name once, attached to one node at a time, never taken from another cluster.

use cloud_provider::volumes::PLACEHOLDER_NAME;
use cloud_provider::{Decision, VolumeRequest, Volumes};
use k8s_openapi::api::core::v1::PersistentVolume;
use provider_fake::objects::Disk;
use provider_fake::provider::DRIVER;
use provider_fake::{Config, Effect, Fault};
use serde_json::json;
use std::sync::Arc;

use crate::support::{fake, node_ref, open_gate};

fn volumes(config: Config) -> (provider_fake::World, Arc<dyn Volumes>) {
    let (world, cloud) = fake(config);
    (world, cloud.volumes.unwrap())
}

fn request(bytes: u64) -> VolumeRequest {
    VolumeRequest { name: "pvc-1".into(), bytes, ..VolumeRequest::default() }
}

fn pv(driver: &str, handle: &str) -> PersistentVolume {
    let csi = json!({ "driver": driver, "volumeHandle": handle });
    serde_json::from_value(json!({ "metadata": { "name": "pv" }, "spec": { "csi": csi } })).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_made_once_by_name_and_must_fit_the_request() {
    let (world, volumes) = volumes(Config::default());
    world.inject(Fault::once("create_volume", Effect::LoseAnswer)).unwrap();
    volumes.create(&request(10), &open_gate()).await.unwrap_err();
    let made = volumes.create(&request(10), &open_gate()).await.unwrap();
    assert_eq!(volumes.create(&request(5), &open_gate()).await.unwrap(), made);
    let refused = volumes.create(&request(11), &open_gate()).await.unwrap_err();
    assert_eq!(refused.decision(), &Decision::InvalidConfig);
    assert_eq!(volumes.list().await.unwrap(), [made]);
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_held_by_one_node_and_cannot_be_deleted_meanwhile() {
    let (_, volumes) = volumes(Config::default());
    let id = volumes.create(&request(10), &open_gate()).await.unwrap().id;
    let device = volumes.attach(&id, &node_ref("a"), &open_gate()).await.unwrap();
    assert_eq!(volumes.attach(&id, &node_ref("a"), &open_gate()).await.unwrap(), device);
    let held = Decision::InUse { by: Some("a".into()), device: Some(device.clone()) };
    let elsewhere = volumes.attach(&id, &node_ref("b"), &open_gate()).await.unwrap_err();
    assert_eq!(elsewhere.decision(), &held);
    assert_eq!(volumes.delete(&id, &open_gate()).await.unwrap_err().decision(), &held);
    assert_eq!(volumes.get(&id).await.unwrap().attachments, [("a".to_owned(), device)].into());

    volumes.detach(&id, &node_ref("b"), &open_gate()).await.unwrap();
    assert!(!volumes.get(&id).await.unwrap().attachments.is_empty(), "b did not hold it");
    for _ in 0..2 {
        volumes.detach(&id, &node_ref("a"), &open_gate()).await.unwrap();
        volumes.delete(&id, &open_gate()).await.unwrap();
    }
    assert_eq!(volumes.get(&id).await.unwrap_err().decision(), &Decision::NotFound);
}

#[tokio::test(start_paused = true)]
async fn a_volume_grows_and_never_shrinks() {
    let (_, volumes) = volumes(Config::default());
    let id = volumes.create(&request(10), &open_gate()).await.unwrap().id;
    assert_eq!(volumes.resize(&id, 20, &open_gate()).await.unwrap(), 20);
    assert_eq!(volumes.resize(&id, 5, &open_gate()).await.unwrap(), 20);
}

#[tokio::test(start_paused = true)]
async fn another_clusters_volume_is_read_and_not_touched() {
    let (world, volumes) = volumes(Config::default());
    let theirs = Disk {
        id: "theirs".into(),
        name: "x".into(),
        bytes: 1,
        zone: "z".into(),
        region: "r".into(),
        attached: None,
        tags: [("nephos-cluster".to_owned(), "cluster-2".to_owned())].into(),
    };
    world.plant_disk(theirs, Some("cluster-2"));
    assert!(volumes.get("theirs").await.is_ok());
    assert_eq!(volumes.list().await.unwrap(), []);
    let refused = volumes.delete("theirs", &open_gate()).await.unwrap_err();
    assert_eq!(refused.decision(), &Decision::NotOwned);
    assert_eq!(world.counters().writes, 0);
}

#[tokio::test(start_paused = true)]
async fn a_volume_of_ours_gets_the_labels_of_its_zone() {
    let (_, volumes) = volumes(Config::default());
    let id = volumes.create(&request(10), &open_gate()).await.unwrap().id;
    let labels = volumes.labels_for(&pv(DRIVER, &id)).await.unwrap().unwrap();
    assert_eq!(labels["topology.kubernetes.io/zone"], "fake-1a");
    assert_eq!(labels["topology.kubernetes.io/region"], "fake-1");
    assert_eq!(volumes.labels_for(&pv("ebs.csi.aws.com", &id)).await.unwrap(), None);
    assert_eq!(volumes.labels_for(&pv(DRIVER, PLACEHOLDER_NAME)).await.unwrap(), Some([].into()));
    let missing = volumes.labels_for(&pv(DRIVER, "volume-9")).await.unwrap_err();
    assert_eq!(missing.decision(), &Decision::NotFound);
}
