//! Each fault can be seen by whoever calls, and the same seed gives the same story.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cloud_provider::{Capability, Verb};
use provider_fake::objects::Machine;
use provider_fake::world::Call;
use provider_fake::{Api, ApiError, Config, Effect, Fault, Filter, Operation, World};
use rstest::rstest;

use crate::rules::{create_balancer, new_balancer, new_route};
use crate::support::{CLUSTER, cluster, fake, with_permit, world};

fn world_of(names: &[&str], page_size: usize) -> World {
    let world = world(Config { page_size, ..Config::default() });
    for name in names {
        world.add_machine(Machine::new(*name));
    }
    world
}

#[rstest]
#[case(Effect::Fail, "failed")]
#[case(Effect::Unauthorized, "unauthorized")]
#[case(Effect::Forbidden, "forbidden")]
#[case(Effect::Throttle, "throttled")]
#[case(Effect::Quota, "quota_exceeded")]
#[case(Effect::Conflict, "conflict")]
#[case(Effect::NotFound, "not_found")]
#[tokio::test(start_paused = true)]
async fn a_refusing_fault_is_the_answer_and_nothing_is_done(#[case] effect: Effect, #[case] code: &str) {
    let world = world_of(&[], 10);
    let api = world.connect(&cluster(CLUSTER));
    world.inject(Fault::once("create_load_balancer", effect)).unwrap();
    let refused = create_balancer(&api, new_balancer("x", &[], None)).await.unwrap_err();
    assert_eq!(refused.code(), code);
    assert_eq!(world.contents().balancers, []);
    assert!(create_balancer(&api, new_balancer("x", &[], None)).await.is_ok(), "once means once");
    let outcomes: Vec<Option<String>> = world.calls().into_iter().map(|call| call.outcome).collect();
    assert_eq!(outcomes, [Some(code.to_owned()), Some("ok".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn a_throttling_fault_names_its_wait() {
    let world = world_of(&[], 10);
    world.inject(Fault::new("*", Effect::Throttle).after(Duration::from_secs(7))).unwrap();
    let refused = world.session(CLUSTER).list_clusters().await;
    assert_eq!(refused, Err(ApiError::Throttled { after: Some(Duration::from_secs(7)) }));
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_hides_a_change_that_was_made() {
    let world = world_of(&[], 10);
    let api = world.connect(&cluster(CLUSTER));
    world.inject(Fault::once("create_load_balancer", Effect::LoseAnswer)).unwrap();
    assert_eq!(create_balancer(&api, new_balancer("x", &[], None)).await, Err(ApiError::Lost));
    assert_eq!(world.contents().balancers.len(), 1);
}

#[rstest]
#[case(Effect::Hang, 0)]
#[case(Effect::HangAfter, 1)]
#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_ends_only_when_its_caller_gives_up(#[case] effect: Effect, #[case] made: usize) {
    let world = world_of(&[], 10);
    let api = world.connect(&cluster(CLUSTER));
    world.inject(Fault::once("create_load_balancer", effect)).unwrap();
    let day = Duration::from_secs(86_400);
    let waited = tokio::time::timeout(day, create_balancer(&api, new_balancer("x", &[], None))).await;
    assert!(waited.is_err(), "it answered");
    assert_eq!(world.contents().balancers.len(), made);
    assert_eq!(world.calls()[0].outcome.as_deref(), Some("cancelled"));
    assert_eq!(world.counters().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn a_slow_call_is_late_and_right() {
    let world = world_of(&["a"], 10);
    world.inject(Fault::once("get_instance", Effect::Slow).after(Duration::from_secs(9))).unwrap();
    assert!(world.session(CLUSTER).get_instance("a").await.is_ok());
    assert_eq!(world.age(), Duration::from_secs(9));
}

#[tokio::test(start_paused = true)]
async fn a_foreign_credential_sees_nothing_or_strangers_and_no_error() {
    for (effect, seen) in [(Effect::Empty, vec![]), (Effect::Foreign, vec!["stranger-1"])] {
        let world = world_of(&["a", "b", "c"], 2);
        world.inject(Fault::new("reads", effect)).unwrap();
        let api = world.session(CLUSTER);
        let page = api.list_instances(None).await.unwrap();
        assert_eq!(page.items.iter().map(|machine| machine.name.as_str()).collect::<Vec<_>>(), seen);
        assert_eq!(page.next, None);
        assert!(matches!(api.get_instance("a").await, Err(ApiError::NotFound { .. })));
        assert_eq!(api.list_load_balancers(&Filter::All, None).await.unwrap().items, []);
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_fails_repeats_itself_or_shows_something_twice() {
    let world = world_of(&["a", "b", "c", "d"], 2);
    let api = world.session(CLUSTER);
    let second = api.list_instances(None).await.unwrap().next.unwrap();

    world.inject(Fault::once("list_instances", Effect::Fail).on_page(2)).unwrap();
    assert!(api.list_instances(None).await.is_ok(), "the first page is not meant");
    assert!(matches!(api.list_instances(Some(&second)).await, Err(ApiError::Failed { .. })));

    world.inject(Fault::once("list_instances", Effect::RepeatPage).on_page(2)).unwrap();
    assert_eq!(api.list_instances(Some(&second)).await.unwrap().next.as_deref(), Some(second.as_str()));

    world.inject(Fault::once("list_instances", Effect::Duplicate)).unwrap();
    let page = api.list_instances(None).await.unwrap();
    let names: Vec<&str> = page.items.iter().map(|machine| machine.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_window_opens_and_closes_with_the_age_of_the_world() {
    let world = world_of(&[], 10);
    let second = Duration::from_secs(1);
    world.inject(Fault::new("*", Effect::Fail).within(10 * second, 20 * second)).unwrap();
    let api = world.session(CLUSTER);
    for (advance, fine) in [(0, true), (10, false), (9, false), (1, true)] {
        tokio::time::advance(advance * second).await;
        assert_eq!(api.list_clusters().await.is_ok(), fine, "at {:?}", world.age());
    }
}

#[tokio::test(start_paused = true)]
async fn a_fault_that_could_never_strike_is_refused_and_all_can_be_disarmed() {
    let world = world_of(&[], 10);
    assert!(world.inject(Fault::new("destroy_everything", Effect::Fail)).is_err());
    world.inject(Fault::new("*", Effect::Fail)).unwrap();
    assert!(world.session(CLUSTER).list_clusters().await.is_err());
    world.clear_faults();
    assert!(world.session(CLUSTER).list_clusters().await.is_ok());
}

/// Proves: IFACE-48
#[tokio::test(start_paused = true)]
async fn one_double_plays_every_part_records_each_call_and_tells_a_test_of_it_as_it_comes() {
    let latencies = [("get_instance".to_owned(), Duration::from_secs(1))].into();
    let (world, cloud) = fake(Config { latencies, unique_names: true, ..Config::default() });
    for capability in Capability::ALL {
        assert!(cloud.can(capability), "{capability:?}");
    }
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (ear, door) = (Arc::clone(&heard), world.clone());
    world.on_call(move |call| {
        ear.lock().unwrap().push((call.operation, call.object.clone()));
        if call.operation == Operation::GetInstance {
            door.add_machine(Machine::new(call.object.clone()));
        }
    });
    let api = world.connect(&cluster(CLUSTER));
    assert!(api.get_instance("a").await.is_ok(), "the callback made it before the call was carried out");
    assert_eq!(world.age(), Duration::from_secs(1), "after its delay");
    let new = new_route("a", "10.244.1.0/24");
    let create =
        async || with_permit(Verb::Create, async |permit| api.create_route(&new, permit).await).await;
    assert!(create().await.is_ok());
    assert!(matches!(create().await, Err(ApiError::Conflict { .. })), "a name that is taken");
    let absent = with_permit(Verb::Delete, async |permit| api.delete_route("route-9", permit).await).await;
    assert!(matches!(absent, Err(ApiError::NotFound { .. })));

    let logged: Vec<(Operation, String)> =
        world.calls().into_iter().map(|call| (call.operation, call.object)).collect();
    assert_eq!(*heard.lock().unwrap(), logged);
    assert_eq!(logged.len(), 4);
}

/// Two hundred calls under chance, and the log they leave.
async fn story(seed: u64) -> (Vec<Call>, provider_fake::Contents) {
    let faults = vec![
        Fault::new("create_*", Effect::LoseAnswer).with_probability(0.2),
        Fault::new("writes", Effect::Fail).with_probability(0.2),
        Fault::new("reads", Effect::Slow).with_probability(0.3).after(Duration::from_secs(1)),
    ];
    let latency = Duration::from_millis(20);
    let world = world(Config { seed, faults, latency, ..Config::default() });
    let api = world.connect(&cluster(CLUSTER));
    for index in 0..100 {
        let new = new_route("a", &format!("10.244.{index}.0/24"));
        let _ = with_permit(Verb::Create, async |permit| api.create_route(&new, permit).await).await;
        let _ = api.list_routes(&Filter::All, None).await;
    }
    (world.calls(), world.contents())
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_log_and_another_seed_another() {
    let (calls, contents) = story(1).await;
    assert_eq!(calls.len(), 200);
    assert_eq!(story(1).await, (calls.clone(), contents));
    assert_ne!(story(2).await.0, calls);
}
