//! The control plane as a whole, on the real programs: it starts, it can be broken on purpose, and it goes.
//! Whoever has not built the programs yet waits for that first.

use std::net::{Ipv4Addr, TcpStream};

use control_plane::ControlPlane;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;

#[tokio::test]
async fn a_control_plane_starts_serves_and_leaves_nothing_behind() {
    let began = tokio::time::Instant::now();
    let cluster = ControlPlane::builder().start().await.unwrap();
    println!("started in {:?}", began.elapsed());
    let client = cluster.admin().await.unwrap();
    let version = client.apiserver_version().await.unwrap();
    assert_eq!(
        version.git_version,
        format!("v{}", control_plane::Environment::of_process().version().unwrap())
    );
    Api::<Namespace>::all(client).get("default").await.unwrap();
    let (directory, port) = (cluster.directory().to_owned(), cluster.port());
    let began = tokio::time::Instant::now();
    cluster.stop().await.unwrap();
    println!("stopped in {:?}", began.elapsed());
    assert!(!directory.exists());
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap_err();
}
