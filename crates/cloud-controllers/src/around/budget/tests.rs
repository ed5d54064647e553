use std::sync::Mutex;
use std::time::Duration;

use controller_kit::random::Randomness;
use tokio::task::{JoinHandle, JoinSet, yield_now};
use tokio::time::{advance, sleep, timeout};

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn settings(slots: usize, kept_for_creates: usize) -> Settings {
    Settings { slots: NonZeroUsize::new(slots).unwrap(), kept_for_creates, ..Settings::default() }
}

fn budget(slots: usize, kept: usize) -> Budget {
    Budget::new("test", settings(slots, kept), &Metrics::unregistered())
}

fn throttled(after: Option<Duration>) -> Result<(), Error> {
    Err(Error::throttled(after, "listing servers"))
}

/// Takes as many slots as there are at once.
async fn take_all(budget: &Budget, urgency: Urgency) -> Vec<Slot> {
    let mut slots = Vec::new();
    while let Ok(slot) = timeout(Duration::from_millis(1), budget.enter(urgency)).await {
        slots.push(slot);
    }
    slots
}

/// Spawns a call that writes its name down when it has its slot, and holds it for a second.
fn call(budget: &Budget, urgency: Urgency, name: String, order: &Arc<Mutex<Vec<String>>>) -> JoinHandle<()> {
    let (budget, order) = (budget.clone(), Arc::clone(order));
    tokio::spawn(async move {
        let slot = budget.enter(urgency).await;
        order.lock().unwrap().push(name);
        sleep(secs(1)).await;
        slot.finished(&Ok(()));
    })
}

#[tokio::test(start_paused = true)]
async fn creates_go_first_while_a_thousand_refreshes_wait() {
    let (budget, order) = (budget(4, 0), Arc::default());
    let refreshes: Vec<_> =
        (0..1000).map(|i| call(&budget, Urgency::Refresh, format!("refresh {i}"), &order)).collect();
    sleep(Duration::from_millis(10)).await;
    assert_eq!((budget.in_flight(), budget.waiting()), (4, 996));
    let others = [
        call(&budget, Urgency::Drift, "drift".into(), &order),
        call(&budget, Urgency::Initialise, "initialise".into(), &order),
        call(&budget, Urgency::Create, "create 0".into(), &order),
        call(&budget, Urgency::Create, "create 1".into(), &order),
    ];
    futures::future::join_all(refreshes.into_iter().chain(others)).await;
    let order = order.lock().unwrap();
    assert_eq!(order[4..7], ["create 0", "create 1", "initialise"]);
    assert_eq!(order[1003], "drift");
    let refreshes: Vec<&String> = order.iter().filter(|name| name.starts_with("refresh")).collect();
    assert!(refreshes.iter().enumerate().all(|(i, name)| **name == format!("refresh {i}")), "in order");
}

#[tokio::test(start_paused = true)]
async fn slots_are_kept_free_for_creates_even_when_all_others_hang() {
    let budget = budget(16, 4);
    let hung = take_all(&budget, Urgency::Initialise).await;
    assert_eq!(hung.len(), 12);
    let creates = take_all(&budget, Urgency::Create).await;
    assert_eq!(creates.len(), 4);
    // Creates may take every slot; then the others wait.
    drop((hung, creates));
    assert_eq!(take_all(&budget, Urgency::Create).await.len(), 16);
    assert_eq!(budget.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_budget_of_one_serves_everybody_in_turn() {
    let budget = budget(1, 4);
    let slot = budget.enter(Urgency::Drift).await;
    assert!(timeout(HOUR, budget.enter(Urgency::Create)).await.is_err());
    slot.finished(&throttled(None));
    assert_eq!(budget.slots(), 1);
    timeout(HOUR, budget.enter(Urgency::Drift)).await.unwrap().finished(&Ok(()));
}

#[tokio::test(start_paused = true)]
async fn one_throttling_halves_the_slots_however_many_calls_it_hits() {
    let budget = budget(16, 4);
    let slots = take_all(&budget, Urgency::Create).await;
    for slot in slots {
        slot.finished(&throttled(None));
    }
    assert_eq!(budget.slots(), 8, "sixteen refusals of one moment are one piece of news");
    sleep(secs(1)).await;
    budget.enter(Urgency::Create).await.finished(&throttled(None));
    assert_eq!(budget.slots(), 4, "a refusal of what was sent afterwards is another");
    for _ in 0..10 {
        timeout(HOUR, budget.enter(Urgency::Create)).await.unwrap().finished(&throttled(None));
    }
    assert!(budget.slots() >= 2, "one for creates and one for the others are always left");
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_pauses_the_others_to_the_instant_and_lets_creates_go() {
    let budget = budget(16, 4);
    let started = Instant::now();
    budget.enter(Urgency::Refresh).await.finished(&throttled(Some(secs(40))));
    budget.enter(Urgency::Create).await.finished(&Ok(()));
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert_eq!(budget.paused_until(Urgency::Create), None);
    for urgency in [Urgency::Initialise, Urgency::Refresh, Urgency::Drift] {
        assert_eq!(budget.paused_until(urgency), Some(started + secs(40)));
    }
    budget.enter(Urgency::Initialise).await.finished(&Ok(()));
    assert_eq!(started.elapsed(), secs(40));
    assert_eq!(budget.paused_until(Urgency::Initialise), None);
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_begins_while_others_wait_ends_for_them_too() {
    let budget = budget(1, 0);
    let slot = budget.enter(Urgency::Refresh).await;
    let waiting = tokio::spawn({
        let budget = budget.clone();
        async move { budget.enter(Urgency::Refresh).await }
    });
    sleep(secs(5)).await;
    let refused = Instant::now();
    slot.finished(&throttled(Some(secs(7))));
    drop(timeout(HOUR, waiting).await.unwrap());
    assert_eq!(refused.elapsed(), secs(7));
}

#[tokio::test(start_paused = true)]
async fn a_refused_create_pauses_creates_as_well() {
    let budget = budget(16, 4);
    let started = Instant::now();
    budget.enter(Urgency::Create).await.finished(&throttled(Some(secs(3))));
    assert_eq!(
        budget.paused_until(Urgency::Initialise),
        Some(started + secs(4)),
        "creates have a head start"
    );
    budget.enter(Urgency::Create).await.finished(&throttled(Some(Duration::from_millis(200))));
    assert_eq!(started.elapsed(), secs(3));
    budget.enter(Urgency::Create).await.finished(&Ok(()));
    assert_eq!(started.elapsed(), secs(5), "refused again: longer than the cloud asks for");
}

#[tokio::test(start_paused = true)]
async fn without_a_retry_after_the_pause_doubles_up_to_a_window() {
    let budget = budget(16, 4);
    let mut pauses = Vec::new();
    for _ in 0..7 {
        let slot = budget.enter(Urgency::Refresh).await;
        slot.finished(&throttled(None));
        pauses.push((budget.paused_until(Urgency::Refresh).unwrap() - Instant::now()).as_secs());
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
    budget.enter(Urgency::Refresh).await.finished(&Ok(()));
    budget.enter(Urgency::Refresh).await.finished(&throttled(None));
    assert_eq!(budget.paused_until(Urgency::Refresh).unwrap() - Instant::now(), secs(1), "starts over");
}

#[tokio::test(start_paused = true)]
async fn an_absurd_retry_after_is_cut() {
    let budget = budget(16, 4);
    budget.enter(Urgency::Refresh).await.finished(&throttled(Some(secs(86_400))));
    assert_eq!(budget.paused_until(Urgency::Refresh), Some(Instant::now() + secs(300)));
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_of_nothing_is_still_a_pause() {
    let (budget, started) = (budget(16, 4), Instant::now());
    for _ in 0..10 {
        budget.enter(Urgency::Refresh).await.finished(&throttled(Some(Duration::ZERO)));
    }
    assert_eq!(started.elapsed(), Duration::from_millis(900));
}

#[tokio::test(start_paused = true)]
async fn all_slots_are_back_two_windows_after_the_pause_and_not_at_once() {
    let budget = budget(16, 4);
    for _ in 0..4 {
        budget.enter(Urgency::Refresh).await.finished(&throttled(Some(secs(10))));
    }
    assert_eq!(budget.slots(), 2);
    advance(secs(10)).await;
    let mut seen = vec![budget.slots()];
    for _ in 0..4 {
        advance(secs(15)).await;
        seen.push(budget.slots());
    }
    assert_eq!(seen, [2, 6, 10, 14, 16]);
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_get_the_slots_that_come_back() {
    let budget = budget(8, 0);
    for _ in 0..3 {
        budget.enter(Urgency::Refresh).await.finished(&throttled(Some(secs(1))));
    }
    // Calls that never end: only recovered slots can serve the others.
    let mut calls = JoinSet::new();
    for _ in 0..8 {
        let budget = budget.clone();
        calls.spawn(async move { budget.enter(Urgency::Refresh).await });
    }
    sleep(secs(2)).await;
    assert_eq!((budget.in_flight(), budget.waiting()), (2, 6));
    let slots = timeout(secs(60), calls.join_all()).await.expect("served within two windows");
    assert_eq!(slots.len(), 8);
}

#[tokio::test(start_paused = true)]
async fn what_never_reached_the_cloud_and_work_in_progress_are_no_throttling() {
    let results: [Result<(), Error>; 4] = [
        Err(Error::retry_after(secs(9), "building a load balancer")),
        Err(Error::new(Decision::Fenced, "did not create it")),
        Err(Error::quota_exceeded("creating it")),
        Ok(()),
    ];
    let budget = budget(16, 4);
    for result in &results {
        budget.enter(Urgency::Create).await.finished(result);
        assert_eq!((budget.slots(), budget.paused_until(Urgency::Drift)), (16, None));
    }
}

/// A cloud that takes two calls a second and refuses the rest with a Retry-After, then is itself again.
#[tokio::test(start_paused = true)]
async fn a_storm_of_refusals_stays_small_and_ends_with_the_storm() {
    let (budget, started) = (budget(16, 4), Instant::now());
    let storm = secs(120);
    let (refused, done) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(Vec::new())));
    let mut calls = JoinSet::new();
    for _ in 0..2000 {
        let (budget, refused, done) = (budget.clone(), Arc::clone(&refused), Arc::clone(&done));
        calls.spawn(async move {
            loop {
                let slot = budget.enter(Urgency::Refresh).await;
                sleep(Duration::from_millis(50)).await;
                if started.elapsed() >= storm {
                    slot.finished(&Ok(()));
                    done.lock().unwrap().push(started.elapsed());
                    return;
                }
                *refused.lock().unwrap() += 1;
                slot.finished(&throttled(Some(secs(5))));
            }
        });
    }
    calls.join_all().await;
    let refused = *refused.lock().unwrap();
    assert!(refused <= 12 + 8 + 4 * 24, "{refused} refused calls in two minutes");
    let done = done.lock().unwrap();
    assert!(done[0] < storm + secs(6), "begins again with the end of the pause: {:?}", done[0]);
    // 2000 calls of 50 ms on all twelve slots take 8.4 s.
    assert!(done[1999] < storm + secs(60), "over after {:?}", done[1999]);
}

/// What a random life of many callers must never do.
#[tokio::test(start_paused = true)]
async fn cancelled_callers_cost_nothing_whenever_they_leave() {
    for seed in 0..150 {
        let random = Randomness::seeded(seed);
        let pick = |below: u32| u32::try_from(random.uuid().as_u128() % u128::from(below)).unwrap();
        let budget = Budget::new(
            "test",
            Settings {
                window: secs(2),
                pause: Duration::from_millis(100),
                ..settings(1 + pick(6) as usize, 2)
            },
            &Metrics::unregistered(),
        );
        let served = Arc::new(Mutex::new(0));
        let (mut staying, mut leaving) = (JoinSet::new(), JoinSet::new());
        for _ in 0..60 {
            let urgency = Urgency::ALL[pick(4) as usize];
            let (delay, hold, patience) = (pick(300), pick(200), pick(400));
            let (end, stays) = (pick(10), pick(2) == 0);
            let (budget, most, served) = (budget.clone(), budget.slots(), Arc::clone(&served));
            let call = async move {
                sleep(Duration::from_millis(delay.into())).await;
                let slot = budget.enter(urgency).await;
                assert!(budget.in_flight() <= most, "never more than {most}");
                sleep(Duration::from_millis(hold.into())).await;
                match end {
                    0 => slot.finished(&throttled(Some(Duration::from_millis(hold.into())))),
                    1 => drop(slot),
                    _ => slot.finished(&Ok(())),
                }
                if stays {
                    *served.lock().unwrap() += 1;
                }
            };
            if stays {
                staying.spawn(call);
            } else {
                leaving.spawn(timeout(Duration::from_millis(patience.into()), call));
            }
        }
        let patient = staying.len();
        timeout(HOUR, staying.join_all()).await.unwrap_or_else(|_| panic!("seed {seed}: somebody starves"));
        leaving.join_all().await;
        yield_now().await;
        assert_eq!(*served.lock().unwrap(), patient, "seed {seed}");
        assert_eq!((budget.in_flight(), budget.waiting()), (0, 0), "seed {seed}");
    }
}
