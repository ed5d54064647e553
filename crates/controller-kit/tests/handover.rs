//! Two processes, one Lease, a real API server, and a leader that is told to stop, killed, frozen past its lease, or
//! cut off from the API server: at no moment do two of them believe that they may write.
//!
//! Each contender is this very test program, started again with [`ROLE`] set. While it leads it asks the fence every
//! two milliseconds and, on a yes, writes down the machine's monotonic clock as it was *before* it asked: the start of
//! a write. The verdict is over that record alone.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test that cannot go on says so by panicking, and shows its figures"
)]

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use control_plane::ControlPlane;
use controller_kit::clock::SystemClock;
use controller_kit::leader::{
    self, Config, Elector, Ended, KubeLease, Leadership, Metrics, Surroundings, Timing,
};
use controller_kit::lifecycle::Shutdown;
use controller_kit::random::Randomness;
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

/// Set in a contender: where its record goes.
const ROLE: &str = "NEPHOS_CONTENDER_RECORD";

/// Short, so that many hand-overs fit into a test; but nobody loses it to a moment in which a shared machine stands still.
const TIMING: Timing = Timing {
    lease_duration: Duration::from_secs(4),
    renew_deadline: Duration::from_secs(3),
    retry_period: Duration::from_millis(300),
};

const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy)]
enum Blow {
    Terminate,
    Kill,
    Freeze,
    RestartApiServer,
}

/// Proves: APP-28, APP-29
#[tokio::test]
async fn twenty_forced_hand_overs_never_make_two_leaders() {
    hand_over(20).await;
}

#[tokio::test]
#[ignore = "ten minutes: part of make soak"]
async fn soak_two_hundred_forced_hand_overs_never_make_two_leaders() {
    hand_over(200).await;
}

async fn hand_over(rounds: usize) {
    let cluster = ControlPlane::builder().start().await.unwrap();
    let files = tempfile::tempdir().unwrap();
    let record = files.path().join("record");
    std::fs::write(&record, "").unwrap();
    let mut contenders = Vec::new();
    for round in 0..rounds {
        while contenders.len() < 2 {
            contenders.push(Contender::start(cluster.admin_kubeconfig(), &record));
        }
        let blow = [Blow::Terminate, Blow::Kill, Blow::Freeze, Blow::RestartApiServer][round % 4];
        let leader = wait_for_leader(&record, &contenders).await;
        let led = contenders.swap_remove(leader);
        strike(blow, led, &cluster, &record).await;
        retain_running(&mut contenders);
    }
    drop(contenders);
    cluster.stop().await.unwrap();
    let writes = std::fs::read_to_string(&record).unwrap();
    let terms = verdict(&writes).unwrap_or_else(|two| panic!("{two}"));
    println!("{rounds} blows, {terms} terms, {} writes, never two leaders", writes.lines().count());
    assert!(terms >= rounds * 3 / 4, "only {terms} terms in {rounds} rounds");
}

/// Hits the leader and waits until another writes.
async fn strike(blow: Blow, mut leader: Contender, cluster: &ControlPlane, record: &Path) {
    let id = leader.id();
    match blow {
        Blow::Terminate => {
            leader.signal(Signal::TERM);
            assert_eq!(leader.ended().await, Some(0), "a planned end is a clean end");
        }
        Blow::Kill => {
            leader.signal(Signal::KILL);
            leader.ended().await;
        }
        Blow::Freeze => {
            leader.signal(Signal::STOP);
            wait_for_write_of_another(record, id).await;
            leader.signal(Signal::CONT);
            assert_eq!(leader.ended().await, Some(1), "a leader that wakes after its lease ends as lost");
        }
        Blow::RestartApiServer => {
            cluster.api_server().stop().await.unwrap();
            assert_eq!(leader.ended().await, Some(1), "a leader that cannot renew ends as lost");
            cluster.api_server().start().await.unwrap();
        }
    }
    wait_for_write_of_another(record, id).await;
}

struct Contender(Child);

impl Contender {
    fn start(kubeconfig: &Path, record: &Path) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "contend_when_told_to", "--nocapture"])
            .env(ROLE, record)
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self(child)
    }

    fn id(&self) -> u32 {
        self.0.id().expect("it still runs")
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    async fn ended(&mut self) -> Option<i32> {
        tokio::time::timeout(PATIENCE, self.0.wait()).await.expect("it ends").unwrap().code()
    }
}

fn retain_running(contenders: &mut Vec<Contender>) {
    contenders.retain_mut(|contender| contender.0.try_wait().unwrap().is_none());
}

/// The index of the contender that wrote last, once that one is among those that run.
async fn wait_for_leader(record: &Path, contenders: &[Contender]) -> usize {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let last = last_writer(record);
        if let Some(leader) = contenders.iter().position(|contender| last == Some(contender.id())) {
            return leader;
        }
        assert!(Instant::now() < deadline, "nobody leads; the last to write was {last:?}");
        sleep(Duration::from_millis(10)).await;
    }
}

async fn wait_for_write_of_another(record: &Path, id: u32) {
    let deadline = Instant::now() + PATIENCE;
    while last_writer(record).is_none_or(|last| last == id) {
        assert!(Instant::now() < deadline, "nobody followed contender {id}");
        sleep(Duration::from_millis(10)).await;
    }
}

fn last_writer(record: &Path) -> Option<u32> {
    let text = std::fs::read_to_string(record).unwrap();
    let last = text.lines().next_back()?;
    last.split_once(' ')?.1.parse().ok()
}

/// The number of terms, if no two contenders' writes interleave: each process leads once at most, in one block.
fn verdict(writes: &str) -> Result<usize, String> {
    let mut writes: Vec<(u128, u32)> = writes
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(at, id)| (at.parse().unwrap(), id.parse().unwrap()))
        .collect();
    writes.sort_unstable();
    let mut terms: Vec<u32> = Vec::new();
    for (at, id) in writes {
        if terms.last() == Some(&id) {
            continue;
        }
        if terms.contains(&id) {
            let mut story = format!("contender {id} wrote again at {at} after another had led; terms:");
            for term in &terms {
                let _ = write!(story, " {term}");
            }
            return Err(story);
        }
        terms.push(id);
    }
    Ok(terms.len())
}

#[test]
fn the_verdict_sees_a_second_leader() {
    assert_eq!(verdict("1 7\n2 7\n3 8\n4 8\n"), Ok(2));
    assert!(verdict("1 7\n3 8\n2 7\n4 7\n").is_err());
}

/// Not a test but a contender, unless it was started as a test.
#[tokio::test]
async fn contend_when_told_to() {
    let Some(record) = std::env::var_os(ROLE).map(PathBuf::from) else { return };
    let stop = Shutdown::new();
    stop.trigger_on_signals().unwrap();
    let client = kube::Client::try_from(kube::Config::infer().await.unwrap()).unwrap();
    let random = Randomness::from_os();
    let config = Config {
        namespace: "kube-system".to_owned(),
        name: "contest".to_owned(),
        identity: leader::identity("contender", &random),
        timing: TIMING,
    };
    let surroundings = Surroundings {
        store: Arc::new(KubeLease::new(client, &config.namespace, &config.name)),
        clock: Arc::new(SystemClock),
        random,
        metrics: Metrics::unregistered(),
        listener: Arc::new(|_| {}),
    };
    let elector = Elector::new(config, surroundings).unwrap();
    let ended = elector.run(stop.token(), |leadership| write_down(leadership, record, stop.clone())).await;
    std::process::exit(i32::from(ended == Ended::Lost));
}

async fn write_down(leadership: Leadership, record: PathBuf, stop: Shutdown) {
    let mut file = OpenOptions::new().append(true).open(record).unwrap();
    let id = std::process::id();
    while !stop.is_triggered() {
        let before = clock_gettime(ClockId::Monotonic);
        if leadership.may_write() {
            let at = u128::try_from(before.tv_sec).unwrap() * 1_000_000_000
                + u128::try_from(before.tv_nsec).unwrap();
            // One write call, so that lines of two processes never mix.
            file.write_all(format!("{at} {id}\n").as_bytes()).unwrap();
        }
        sleep(Duration::from_millis(2)).await;
    }
}
