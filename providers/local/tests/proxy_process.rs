//! The proxy as a process of its own: how it is fed, what survives whom, and what a wrong feeder cannot do.

#![allow(clippy::unwrap_used, reason = "what sets a test up stops it where it stands")]

#[path = "rack/load.rs"]
mod load;
#[path = "rack/parts.rs"]
mod parts;
#[path = "rack/servers.rs"]
mod servers;
#[path = "rack/wishes.rs"]
mod wishes;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use provider_local::intent::{Intent, PortKey, Settings, Store, VERSION};
use provider_local::proxy::{Client, FeedError, Keeper, Server as SocketServer, command};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio_util::sync::CancellationToken;

use load::Load;
use parts::{Place, Process};
use servers::*;
use wishes::*;

const PORT: u16 = 8080;

#[test]
#[ignore = "other tests start it as a process of its own"]
fn plays_a_part_that_another_test_starts() {
    parts::play();
}

fn place() -> (TempDir, Place) {
    let directory = tempfile::tempdir().unwrap();
    let place = Place(directory.path().to_owned());
    (directory, place)
}

/// An intent of one balancer in front of these servers.
fn wish(entrance: SocketAddr, servers: &[(&str, &Server)]) -> Intent {
    let backends = servers.iter().map(|(node, server)| (*node, server.address));
    let balancer = single(entrance.ip(), PortKey::tcp(PORT), backends, Settings::default());
    Intent { balancers: [("uid".to_owned(), balancer.into())].into(), ..Intent::empty() }
}

fn entrance() -> SocketAddr {
    SocketAddr::new(fresh_address(), PORT)
}

fn server(name: &str) -> Server {
    namer(name, SocketAddr::new(fresh_address(), 30_080))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feeder_that_is_killed_and_started_again_under_load_fails_no_connection() {
    let (_directory, place) = place();
    let (stable, flapping, entrance) = (server("stable"), server("flapping"), entrance());
    let wish = wish(entrance, &[("stable", &stable), ("flapping", &flapping)]);
    std::fs::write(place.wish(), serde_json::to_vec(&wish).unwrap()).unwrap();
    let _proxy = Process::start("proxy", &place, None);
    place.answers().await;
    place.client().apply(wish).await.unwrap();
    let mut held = Held::open(entrance).await.unwrap();
    let load = Load::start(entrance, 4);
    for _ in 0..4 {
        let before = place.client().intent().await.unwrap().revision;
        let feeder = Process::start("feeder", &place, None);
        eventually("it feeds", || async { place.client().intent().await.unwrap().revision > before + 10 })
            .await;
        feeder.kill();
        load.goes_on(100).await;
        held.echo().await.unwrap();
    }
    let outcome = load.end().await;
    assert!(outcome.failures.is_empty(), "{outcome:?}");
    assert!(outcome.shares["stable"] > 0 && outcome.shares["flapping"] > 0, "{outcome:?}");
    held.echo().await.unwrap();
}

#[tokio::test]
async fn a_proxy_that_is_killed_serves_again_from_disk_before_anybody_feeds_it() {
    let (_directory, place) = place();
    let (server, entrance) = (server("only"), entrance());
    let first = Process::start("proxy", &place, None);
    place.answers().await;
    let revision = place.client().apply(wish(entrance, &[("only", &server)])).await.unwrap();
    assert_eq!(ask(entrance).await.unwrap().name, "only");
    first.kill();
    assert_eq!(ask(entrance).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    let _second = Process::start("proxy", &place, None);
    place.answers().await;
    assert_eq!(ask(entrance).await.unwrap().name, "only");
    let status = place.client().status().await.unwrap();
    assert_eq!((status.revision, status.is_open("uid")), (revision, true));
}

#[tokio::test]
async fn a_proxy_that_is_asked_to_end_lets_connections_finish_and_takes_no_new_one() {
    let (_directory, place) = place();
    let (server, entrance) = (server("only"), entrance());
    let proxy = Process::start("proxy", &place, None);
    place.answers().await;
    place.client().apply(wish(entrance, &[("only", &server)])).await.unwrap();
    let mut held = Held::open(entrance).await.unwrap();
    proxy.terminate();
    eventually("new connections are refused", || async { ask(entrance).await.is_err() }).await;
    held.echo().await.unwrap();
    drop(held);
    assert!(proxy.ended().await.unwrap().success());
    assert!(!place.socket().exists(), "the socket file is left behind");
    assert!(place.state().exists(), "what was wanted is kept for the next process");
}

#[tokio::test]
async fn a_second_proxy_at_the_same_place_gives_way() {
    let (_directory, place) = place();
    let _first = Process::start("proxy", &place, None);
    place.answers().await;
    let error = command::run(place.arguments()).await.unwrap_err();
    assert!(
        matches!(&error, command::Error::Socket(_, why) if why.kind() == ErrorKind::AddrInUse),
        "{error:?}"
    );
    place.client().status().await.unwrap();
}

/// A keeper that is served at a socket within this process.
struct Fed {
    place: Place,
    stop: CancellationToken,
    _directory: TempDir,
}

impl Drop for Fed {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn fed() -> Fed {
    let (directory, place) = place();
    let keeper = Arc::new(Keeper::take_up(Store::at(place.state())).await.unwrap());
    let stop = CancellationToken::new();
    tokio::spawn(SocketServer::bind(&place.socket()).unwrap().serve(keeper, stop.clone()));
    Fed { place, stop, _directory: directory }
}

#[tokio::test]
async fn of_two_feeders_the_one_who_read_an_old_state_is_told_so() {
    let fed = fed().await;
    let (one, other) = (fed.place.client(), fed.place.client());
    let (server, first, second) = (server("only"), entrance(), entrance());
    let seen = other.intent().await.unwrap();
    assert_eq!(one.apply(wish(first, &[("only", &server)])).await.unwrap(), 1);
    let late = Intent { revision: seen.revision, ..wish(second, &[("only", &server)]) };
    let refusal = other.apply(late.clone()).await.unwrap_err();
    assert!(matches!(refusal, FeedError::Conflict { in_force: 1, made_from: 0 }), "{refusal}");
    assert!(ask(first).await.is_ok(), "what was in force is in force");
    assert_eq!(other.apply(Intent { revision: 1, ..late }).await.unwrap(), 2);
    assert!(ask(second).await.is_ok());
    assert_eq!(Store::at(fed.place.state()).read().unwrap(), Some(other.intent().await.unwrap()));
}

#[tokio::test]
async fn an_intent_without_a_difference_changes_no_revision() {
    let fed = fed().await;
    let (client, server) = (fed.place.client(), server("only"));
    let wish = wish(entrance(), &[("only", &server)]);
    assert_eq!(client.apply(wish.clone()).await.unwrap(), 1);
    assert_eq!(client.apply(Intent { revision: 1, ..wish }).await.unwrap(), 1);
}

#[tokio::test]
async fn an_unsound_intent_is_refused_whole_and_nothing_changes() {
    let fed = fed().await;
    let (client, server, entrance) = (fed.place.client(), server("only"), entrance());
    client.apply(wish(entrance, &[("only", &server)])).await.unwrap();
    let mut double = wish(entrance, &[("only", &server)]);
    double.revision = 1;
    double.balancers.insert("another".into(), double.balancers["uid"].clone());
    let newer = Intent { version: VERSION + 1, revision: 1, ..Intent::empty() };
    for unsound in [double, newer] {
        let refusal = client.apply(unsound).await.unwrap_err();
        assert!(matches!(refusal, FeedError::Refused(_)), "{refusal}");
    }
    assert!(ask(entrance).await.is_ok());
    assert_eq!(client.intent().await.unwrap().revision, 1);
}

#[tokio::test]
async fn an_intent_that_cannot_be_kept_is_not_put_in_force() {
    let fed = fed().await;
    let (client, server, entrance) = (fed.place.client(), server("only"), entrance());
    // A directory in the way of the file: the rename fails, for root too.
    std::fs::create_dir(fed.place.state()).unwrap();
    let failure = client.apply(wish(entrance, &[("only", &server)])).await.unwrap_err();
    assert!(matches!(&failure, FeedError::Failed(why) if why.contains("writing the intent")), "{failure}");
    assert!(ask(entrance).await.is_err());
    assert_eq!(client.intent().await.unwrap(), Intent::empty());
}

#[tokio::test]
async fn nonsense_and_half_a_question_at_the_socket_harm_nobody() {
    let fed = fed().await;
    let mut stream = UnixStream::connect(fed.place.socket()).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\n\"status\"\n").await.unwrap();
    let mut answers = String::new();
    while answers.lines().count() < 2 || !answers.ends_with('\n') {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).await.unwrap();
        answers.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    let lines: Vec<&str> = answers.lines().collect();
    assert!(lines[0].starts_with(r#"{"refused":"the question is not understood"#), "{answers}");
    assert_eq!(lines[1], r#"{"status":{"revision":0,"balancers":{}}}"#);
    stream.write_all(br#"{"apply":{"version":1,"revision":0,"balancers":{"#).await.unwrap();
    drop(stream);
    assert_eq!(fed.place.client().intent().await.unwrap(), Intent::empty());
}

#[tokio::test]
async fn only_its_owner_may_open_the_socket() {
    let fed = fed().await;
    let mode = std::fs::metadata(fed.place.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_socket_file_of_a_dead_process_is_replaced_and_any_other_file_is_not() {
    let (_directory, place) = place();
    drop(std::os::unix::net::UnixListener::bind(place.socket()).unwrap());
    assert!(place.socket().exists());
    drop(SocketServer::bind(&place.socket()).unwrap());
    std::fs::write(place.socket(), "precious").unwrap();
    assert_eq!(SocketServer::bind(&place.socket()).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read_to_string(place.socket()).unwrap(), "precious");
}

#[tokio::test]
async fn a_damaged_state_is_put_aside_and_the_proxy_starts() {
    let (_directory, place) = place();
    std::fs::write(place.state(), "{ torn").unwrap();
    let keeper = Keeper::take_up(Store::at(place.state())).await.unwrap();
    assert_eq!(*keeper.intent().await, Intent::empty());
    let aside = place.0.join("intent.json.unusable");
    assert_eq!(std::fs::read_to_string(aside).unwrap(), "{ torn");
}

#[tokio::test]
async fn nobody_at_the_socket_is_said_with_its_path() {
    let (_directory, place) = place();
    let error = Client::at(place.socket()).status().await.unwrap_err();
    assert_eq!(error.to_string(), format!("speaking to the proxy at {}", place.socket().display()));
}

#[tokio::test]
async fn metrics_and_health_are_served_over_http() {
    let (_directory, place) = place();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut arguments: Vec<String> = place.arguments();
    arguments.extend(["--metrics-address".into(), free.to_string(), "--grace".into(), "0".into()]);
    let arguments = <command::Arguments as clap::Parser>::try_parse_from(arguments).unwrap();
    let stop = CancellationToken::new();
    let proxy = tokio::spawn(command::serve(arguments, stop.clone().cancelled_owned()));
    place.answers().await;
    let server = server("only");
    place.client().apply(wish(entrance(), &[("only", &server)])).await.unwrap();
    let get = |path: &'static str| async move {
        let mut stream = TcpStream::connect(free).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    };
    let metrics = get("/metrics").await;
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
    assert!(metrics.contains(r#"nephos_local_connections{namespace="shop",service="web"} 0"#), "{metrics}");
    assert!(get("/healthz").await.ends_with("\r\n\r\nok"));
    assert!(get("/else").await.starts_with("HTTP/1.1 404 "));
    stop.cancel();
    tokio::time::timeout(Duration::from_secs(5), proxy).await.unwrap().unwrap().unwrap();
}
