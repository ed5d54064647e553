use controller_kit::metrics::encode;
use prometheus_client::registry::Registry;
use tokio::time::sleep;

use super::super::budget;
use super::*;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

struct Bench {
    registry: Registry,
    calls: Calls,
}

impl Bench {
    fn new() -> Self {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let budget = Budget::new("fake", budget::Settings::default(), &metrics);
        Self { registry, calls: Calls::new("fake", budget, Deadlines::default(), &metrics) }
    }

    /// The value of the one line that begins like this.
    fn metric(&self, line: &str) -> String {
        let text = encode(&self.registry).unwrap();
        let found = text.lines().find_map(|each| each.strip_prefix(line)?.strip_prefix(' '));
        found.unwrap_or("0").to_owned()
    }

    fn counted(&self, operation: &str, result: &str) -> u64 {
        let labels = format!(r#"provider="fake",operation="{operation}",result="{result}""#);
        self.metric(&format!("nephos_cloud_calls_total{{{labels}}}")).parse().unwrap()
    }

    fn in_flight(&self) -> i64 {
        let line = r#"nephos_cloud_calls_in_flight{provider="fake",operation="list_routes"}"#;
        self.metric(line).parse().unwrap()
    }

    async fn list<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.calls.make(Operation::ListRoutes, Urgency::Refresh, call).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_timed_and_counted_by_what_it_ended_with() {
    let bench = Bench::new();
    let slow = async {
        sleep(secs(3)).await;
        Ok(())
    };
    bench.list(slow).await.unwrap();
    let failed: Result<(), _> = bench.list(async { Err(Error::quota_exceeded("making it")) }).await;
    assert_eq!(failed.unwrap_err().decision(), &Decision::QuotaExceeded);
    assert_eq!(bench.counted("list_routes", "ok"), 1);
    assert_eq!(bench.counted("list_routes", "quota_exceeded"), 1);
    let sum = r#"nephos_cloud_call_duration_seconds_sum{provider="fake",operation="list_routes"}"#;
    assert_eq!(bench.metric(sum), "3.0");
    assert_eq!(bench.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_is_given_up_at_its_deadline_and_its_slot_is_free() {
    let bench = Bench::new();
    let started = Instant::now();
    let hung: Result<(), _> = bench.list(std::future::pending()).await;
    assert_eq!(started.elapsed(), secs(60));
    let error = hung.unwrap_err();
    assert_eq!(error.decision(), &Decision::Other);
    assert_eq!(error.report(), "waiting for the cloud to answer list_routes: nothing came within 60s");
    assert_eq!((bench.counted("list_routes", "deadline"), bench.in_flight()), (1, 0));
    assert_eq!(bench.calls.budget().in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_provider_is_an_error_of_that_call_alone() {
    let bench = Bench::new();
    let result: Result<(), _> = bench.list(async { panic!("index out of range") }).await;
    assert_eq!(result.unwrap_err().report(), "the provider fake panicked in list_routes: index out of range");
    assert_eq!(bench.counted("list_routes", "panic"), 1);
    let panics = r#"nephos_cloud_call_panics_total{provider="fake",operation="list_routes"}"#;
    assert_eq!(bench.metric(panics), "1");
    assert_eq!(bench.calls.budget().in_flight(), 0);
    assert_eq!(bench.calls.budget().slots(), 16, "a defect of ours is no complaint of the cloud");
    bench.list(async { Ok(()) }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_is_counted_and_gives_its_slot_back() {
    let bench = Bench::new();
    let call = bench.list(std::future::pending::<Result<(), Error>>());
    assert!(timeout(secs(1), call).await.is_err());
    assert_eq!((bench.counted("list_routes", "cancelled"), bench.in_flight()), (1, 0));
    assert_eq!(bench.calls.budget().in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_worker_does_not_sit_out_a_long_pause() {
    let bench = Bench::new();
    let _: Result<(), _> = bench.list(async { Err(Error::throttled(Some(secs(240)), "listing")) }).await;
    let started = Instant::now();
    let refused = bench.list(async { Ok(()) }).await.unwrap_err();
    assert_eq!(refused.decision(), &Decision::Throttled { after: Some(secs(240)) });
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert_eq!(bench.counted("list_routes", "no_turn"), 1);
    sleep(secs(200)).await;
    bench.list(async { Ok(()) }).await.unwrap();
    assert_eq!(started.elapsed(), secs(240), "a short pause is sat out");
    assert_eq!(bench.counted("list_routes", "throttled"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_gets_no_turn_is_sent_back_and_never_made() {
    let bench = Bench::new();
    let hung: Vec<_> =
        (0..12).map(|_| Box::pin(bench.list(std::future::pending::<Result<(), Error>>()))).collect();
    let hung = futures::future::join_all(hung);
    let late = async {
        sleep(Duration::from_millis(1)).await;
        let calls = bench.calls.clone();
        let impatient = Calls(Arc::new(Inner {
            provider: "fake".into(),
            budget: calls.budget().clone(),
            deadlines: Deadlines { turn: secs(5), ..Deadlines::default() },
            metrics: calls.metrics().clone(),
        }));
        let call = async { unreachable!("it never had its turn") };
        let result: Result<(), _> = impatient.make(Operation::ListRoutes, Urgency::Refresh, call).await;
        assert_eq!(result.unwrap_err().decision(), &Decision::Throttled { after: None });
    };
    let ((), ended) = tokio::join!(late, hung);
    assert_eq!(ended.len(), 12);
    assert_eq!(bench.counted("list_routes", "no_turn"), 1);
    assert_eq!((bench.calls.budget().in_flight(), bench.calls.budget().waiting()), (0, 0));
}
