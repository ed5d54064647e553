use rstest::rstest;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::*;

/// One who is asked, and remembers what was said of it.
struct Subject {
    socket: SocketAddr,
    health: std::sync::Mutex<Health>,
}

impl Patient for Subject {
    fn socket(&self) -> SocketAddr {
        self.socket
    }

    fn health(&self) -> Health {
        self.health.lock().unwrap().clone()
    }

    fn judge(&self, health: Health) {
        *self.health.lock().unwrap() = health;
    }

    fn doubted(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}

fn failure() -> io::Error {
    io::Error::other("refused")
}

fn unhealthy() -> Health {
    Health::Unhealthy { why: "refused".into() }
}

#[rstest]
#[case::the_first_answer_decides(Health::Unknown, "-", Some(unhealthy()))]
#[case::either_way(Health::Unknown, "+", Some(Health::Healthy))]
#[case::one_failure_is_no_failure(Health::Healthy, "-", None)]
#[case::two_are(Health::Healthy, "--", Some(unhealthy()))]
#[case::only_in_a_row(Health::Healthy, "-+-", None)]
#[case::back_after_so_many_good_answers(unhealthy(), "+++", Some(Health::Healthy))]
#[case::and_not_before(unhealthy(), "++", None)]
fn answers_in_a_row_decide(#[case] now: Health, #[case] answers: &str, #[case] last_verdict: Option<Health>) {
    let check = HealthCheck { healthy_after: 3, unhealthy_after: 2, ..HealthCheck::default() };
    let mut run = Run::default();
    let mut verdict = None;
    for answer in answers.chars() {
        let error = (answer == '-').then(failure);
        verdict = run.verdict(&now, &check, error.as_ref());
    }
    // A good answer to one that is healthy says it again; what matters here is what it becomes.
    assert_eq!(verdict.filter(|health| *health != now), last_verdict);
}

#[test]
fn an_answer_against_what_is_believed_is_confirmed_at_once() {
    let check = HealthCheck::default();
    let mut run = Run::default();
    run.verdict(&Health::Healthy, &check, None);
    assert!(!run.is_undecided(&Health::Healthy));
    run.verdict(&Health::Healthy, &check, Some(&failure()));
    assert!(run.is_undecided(&Health::Healthy));
    assert!(!run.is_undecided(&unhealthy()), "a dead backend is asked at the usual pace");
}

/// A server on loopback that answers each connection with these bytes, or with nothing.
async fn server(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 512];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(answer.as_bytes()).await;
                // Stays open: the status line alone must be enough.
                std::future::pending::<()>().await;
            });
        }
    });
    address
}

#[rstest]
#[case("HTTP/1.1 200 OK\r\n", None)]
#[case("HTTP/1.0 204 No Content\r\n", None)]
#[case("HTTP/1.1 503 Service Unavailable\r\n", Some("HTTP status 503"))]
#[case("HTTP/1.1 301 Moved\r\n", Some("HTTP status 301"))]
#[case("SSH-2.0-OpenSSH_9.2", Some("the answer is not HTTP"))]
#[tokio::test]
async fn only_a_2xx_answer_is_a_good_one(#[case] answer: &'static str, #[case] failure: Option<&str>) {
    let asked = answers(server(answer).await, "/healthz").await;
    assert_eq!(asked.err().map(|error| error.to_string()).as_deref(), failure);
}

fn settings(probe: Probe) -> watch::Sender<Arc<Settings>> {
    let pace = HealthCheck {
        interval: Duration::from_millis(50),
        timeout: Duration::from_millis(50),
        ..HealthCheck::of(probe)
    };
    watch::Sender::new(Arc::new(Settings { health_check: pace, ..Settings::default() }))
}

fn round(settings: &watch::Sender<Arc<Settings>>) -> Round {
    let questions = Arc::new(Semaphore::new(AT_ONCE));
    Round { settings: settings.subscribe(), end: CancellationToken::new(), questions }
}

fn subject(socket: SocketAddr) -> Arc<Subject> {
    Arc::new(Subject { socket, health: Health::Unknown.into() })
}

async fn becomes(backend: &Subject, wanted: impl Fn(&Health) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !wanted(&backend.health()) {
        assert!(Instant::now() < deadline, "still {:?}", backend.health());
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_backend_is_followed_down_and_up_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let socket = listener.local_addr().unwrap();
    let (backend, settings) = (subject(socket), settings(Probe::Tcp));
    let watching = tokio::spawn(watch(Arc::clone(&backend), Protocol::Tcp, round(&settings)));
    becomes(&backend, |health| *health == Health::Healthy).await;
    drop(listener);
    becomes(&backend, |health| matches!(health, Health::Unhealthy { why } if why.contains("refused"))).await;
    let _again = TcpListener::bind(socket).await.unwrap();
    becomes(&backend, |health| *health == Health::Healthy).await;
    watching.abort();
}

#[tokio::test]
async fn a_server_that_never_answers_is_unhealthy() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let (backend, settings) =
        (subject(silent.local_addr().unwrap()), settings(Probe::Http { port, path: "/healthz".into() }));
    let watching = tokio::spawn(watch(Arc::clone(&backend), Protocol::Udp, round(&settings)));
    becomes(&backend, |health| matches!(health, Health::Unhealthy { why } if why == "no answer in time"))
        .await;
    watching.abort();
}

#[tokio::test]
async fn other_settings_take_effect_without_a_restart() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let (backend, settings) = (subject(nobody), settings(Probe::Tcp));
    let watching = tokio::spawn(watch(Arc::clone(&backend), Protocol::Tcp, round(&settings)));
    becomes(&backend, |health| matches!(health, Health::Unhealthy { .. })).await;
    settings.send_replace(Arc::default());
    becomes(&backend, |health| *health == Health::Unchecked).await;
    watching.abort();
}

#[test]
fn a_udp_port_is_not_asked_for_tcp() {
    let tcp = HealthCheck::of(Probe::Tcp);
    assert_eq!(before_the_first_answer(Protocol::Udp, &tcp), Health::Unchecked);
    assert_eq!(before_the_first_answer(Protocol::Tcp, &tcp), Health::Unknown);
    let http = HealthCheck::of(Probe::Http { port: 1, path: "/".into() });
    assert_eq!(before_the_first_answer(Protocol::Udp, &http), Health::Unknown);
}
