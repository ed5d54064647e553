//! The equivalence test: every story is told on the server in virtual time and on a real kube-apiserver, and the
//! normalised records must be equal, errors included. Where they differ, the real server is right.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::needless_pass_by_value,
    reason = "all of this is test code, also outside functions that are tests"
)]

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use control_plane::ControlPlane;
use futures::FutureExt;
use futures::future::BoxFuture;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use testkit::ApiServer;
use testkit::story::{Story, difference};

mod finalizers;
mod lists;
mod metadata;
mod objects;
mod patches;
mod services;
mod status;
mod storage;
mod strategic;
mod watches;

/// A story, and the sentence that is its name.
type Telling = (&'static str, for<'a> fn(&'a mut Story) -> BoxFuture<'a, ()>);

/// Makes the table of a module's stories from their names.
macro_rules! stories {
    ($($story:ident),* $(,)?) => {
        pub(crate) const STORIES: &[crate::Telling] =
            &[$((stringify!($story), |story| Box::pin($story(story)))),*];
    };
}
pub(crate) use stories;

fn all() -> Vec<Telling> {
    [
        objects::STORIES,
        metadata::STORIES,
        patches::STORIES,
        strategic::STORIES,
        status::STORIES,
        finalizers::STORIES,
        services::STORIES,
        storage::STORIES,
        lists::STORIES,
        watches::STORIES,
    ]
    .concat()
    .into_iter()
    .filter(|(sentence, _)| chosen(sentence))
    .collect()
}

/// `STORY=taint` tells only the stories with this word in their sentence.
fn chosen(sentence: &str) -> bool {
    std::env::var("STORY").map_or(true, |word| sentence.contains(&word))
}

type Record = Vec<(String, serde_json::Value)>;

/// Tells every story through the client; a story that breaks its own expectations is recorded as such.
async fn tell(client: kube::Client) -> BTreeMap<&'static str, Record> {
    let mut records = BTreeMap::new();
    for (index, (sentence, telling)) in all().into_iter().enumerate() {
        let mut story = Story::begin(client.clone(), &format!("story-{index}")).await;
        let started = tokio::time::Instant::now();
        let told = AssertUnwindSafe(telling(&mut story)).catch_unwind().await;
        if started.elapsed() > Duration::from_secs(2) {
            println!("{sentence} took {:.1?}", started.elapsed());
        }
        let mut record = story.record().to_vec();
        if let Err(panic) = told {
            let why = panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "panicked".to_owned());
            record.push(("the story's own expectation".to_owned(), why.into()));
        }
        records.insert(sentence, record);
    }
    records
}

fn tell_in_virtual_time() -> BTreeMap<&'static str, Record> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async { tell(ApiServer::new(1).client()).await })
}

/// A client that repeats nothing: a story wants to see the errors.
async fn plain_client(cluster: &ControlPlane) -> kube::Client {
    let kubeconfig = Kubeconfig::read_from(cluster.admin_kubeconfig()).expect("reading the kubeconfig");
    let options = KubeConfigOptions::default();
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("understanding the kubeconfig");
    config.default_retry = false;
    config.proxy_url = None;
    kube::Client::try_from(config).expect("connecting to the real server")
}

async fn tell_on_the_real_server() -> BTreeMap<&'static str, Record> {
    // Compaction every two seconds lets continue tokens expire while a story waits for it.
    let builder = ControlPlane::builder().api_server_arg("--etcd-compaction-interval=2s");
    let cluster = builder.start().await.expect("starting a real control plane");
    // A restart lets the caches forget where history began.
    cluster.api_server().stop().await.expect("stopping the API server");
    cluster.api_server().start().await.expect("starting the API server again");
    let records = tell(plain_client(&cluster).await).await;
    cluster.stop().await.expect("stopping the real control plane");
    records
}

fn broken_expectations(records: &BTreeMap<&'static str, Record>) -> Vec<String> {
    let broken =
        |record: &Record| record.last().filter(|(what, _)| what == "the story's own expectation").cloned();
    records.iter().filter_map(|(story, record)| Some(format!("{story}: {}", broken(record)?.1))).collect()
}

/// The expectations inside the stories hold, without the real server.
#[test]
fn every_story_holds_in_virtual_time() {
    let broken = broken_expectations(&tell_in_virtual_time());
    assert!(broken.is_empty(), "{} stories fail:\n{}", broken.len(), broken.join("\n"));
}

#[test]
fn every_story_ends_alike_on_both_servers() {
    let virtual_records = tell_in_virtual_time();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let real_records = runtime.block_on(tell_on_the_real_server());
    let mut differing = Vec::new();
    for (story, in_virtual_time) in &virtual_records {
        let lines = difference(in_virtual_time, &real_records[story]);
        if !lines.is_empty() {
            differing.push(format!("{story}\n  {}", lines.join("\n  ")));
        }
    }
    let told = virtual_records.len();
    assert!(
        differing.is_empty(),
        "{} of {told} stories differ (left: virtual, right: real):\n\n{}",
        differing.len(),
        differing.join("\n\n")
    );
    assert_eq!(broken_expectations(&real_records), Vec::<String>::new());
    println!("{told} stories end alike on both servers");
}
