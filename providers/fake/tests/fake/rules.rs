//! The cloud's own rules: pages, lag, quotas, pending balancers, rate limits, addresses.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::Verb;
use futures::future::join_all;
use provider_fake::config::{Quotas, RateLimit};
use provider_fake::objects::{Balancer, Machine, NewAddress, NewBalancer, NewRoute, Settings, Tags};
use provider_fake::{Api, ApiError, Config, Filter, Operation};

use crate::support::{CLUSTER, UID, cluster, with_permit, world};

pub(crate) fn tags() -> Tags {
    Tags::from([("nephos-cluster".into(), CLUSTER.into()), ("nephos-owner".into(), UID.into())])
}

pub(crate) fn new_address(name: &str, token: Option<&str>) -> NewAddress {
    NewAddress { name: name.into(), ipv6: false, ip: None, tags: tags(), token: token.map(str::to_owned) }
}

pub(crate) fn new_balancer(name: &str, addresses: &[&str], token: Option<&str>) -> NewBalancer {
    NewBalancer {
        name: name.into(),
        tags: tags(),
        addresses: addresses.iter().map(ToString::to_string).collect(),
        settings: Settings::default(),
        backends: BTreeSet::new(),
        token: token.map(str::to_owned),
    }
}

pub(crate) fn new_route(node: &str, destination: &str) -> NewRoute {
    NewRoute {
        name: format!("{node}-{destination}"),
        destination: destination.parse().unwrap(),
        node: Some(node.into()),
        addresses: Vec::new(),
        tags: tags(),
        token: None,
    }
}

pub(crate) async fn create_balancer(api: &Arc<dyn Api>, new: NewBalancer) -> Result<Balancer, ApiError> {
    with_permit(Verb::Create, async |permit| api.create_load_balancer(&new, permit).await).await
}

pub(crate) async fn create_address(api: &Arc<dyn Api>, new: NewAddress) -> Result<String, ApiError> {
    let made = with_permit(Verb::Create, async |permit| api.create_address(&new, permit).await).await;
    made.map(|address| address.id)
}

async fn delete_balancer(api: &Arc<dyn Api>, id: &str) -> Result<(), ApiError> {
    with_permit(Verb::Delete, async |permit| api.delete_load_balancer(id, permit).await).await
}

#[tokio::test(start_paused = true)]
async fn a_list_comes_in_pages_that_together_show_everything_once() {
    let world = world(Config { page_size: 2, ..Config::default() });
    for name in ["e", "c", "a", "d", "b"] {
        world.add_machine(Machine::new(name));
    }
    let api = world.connect(&cluster(CLUSTER));
    let (mut names, mut sizes, mut token) = (Vec::new(), Vec::new(), None);
    loop {
        let page = api.list_instances(token.as_deref()).await.unwrap();
        sizes.push(page.items.len());
        names.extend(page.items.into_iter().map(|machine| machine.name));
        token = page.next;
        if token.is_none() {
            break;
        }
    }
    assert_eq!(names, ["a", "b", "c", "d", "e"]);
    assert_eq!(sizes, [2, 2, 1]);
    assert!(matches!(api.list_instances(Some("nonsense")).await, Err(ApiError::Invalid { .. })));
}

#[tokio::test(start_paused = true)]
async fn lists_lag_behind_and_gets_and_tokens_do_not() {
    let lag = Duration::from_secs(30);
    let world = world(Config { invisible_for: lag, visible_after_delete: lag, ..Config::default() });
    let api = world.connect(&cluster(CLUSTER));
    let listed = async |filter: Filter| api.list_load_balancers(&filter, None).await.unwrap().items.len();
    let id = create_balancer(&api, new_balancer("x", &[], Some("t"))).await.unwrap().id;

    let named = || Filter::Named("x".into());
    assert_eq!((listed(Filter::All).await, listed(named()).await), (0, 0), "too young for lists");
    assert_eq!(listed(Filter::Token("t".into())).await, 1);
    assert!(api.get_load_balancer(&id).await.is_ok());
    tokio::time::advance(lag).await;
    assert_eq!((listed(Filter::All).await, listed(named()).await), (1, 1));

    delete_balancer(&api, &id).await.unwrap();
    assert_eq!(listed(Filter::All).await, 1, "lists still show it");
    assert_eq!(listed(Filter::Token("t".into())).await, 0);
    assert!(matches!(api.get_load_balancer(&id).await, Err(ApiError::NotFound { .. })));
    tokio::time::advance(lag).await;
    assert_eq!(listed(Filter::All).await, 0);
}

#[tokio::test(start_paused = true)]
async fn the_same_token_makes_the_same_object_until_that_is_gone() {
    let world = world(Config::default());
    let api = world.connect(&cluster(CLUSTER));
    let first = create_balancer(&api, new_balancer("x", &[], Some("t"))).await.unwrap().id;
    assert_eq!(create_balancer(&api, new_balancer("x", &[], Some("t"))).await.unwrap().id, first);
    delete_balancer(&api, &first).await.unwrap();
    assert_ne!(create_balancer(&api, new_balancer("x", &[], Some("t"))).await.unwrap().id, first);
    assert_eq!(world.violations(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_full_account_takes_no_more_and_a_delete_makes_room() {
    let quotas = Quotas { load_balancers: Some(1), ..Quotas::default() };
    let world = world(Config { quotas, ..Config::default() });
    let api = world.connect(&cluster(CLUSTER));
    let id = create_balancer(&api, new_balancer("x", &[], None)).await.unwrap().id;
    let refused = create_balancer(&api, new_balancer("y", &[], None)).await;
    assert_eq!(refused, Err(ApiError::QuotaExceeded { kind: "load balancers".into() }));
    delete_balancer(&api, &id).await.unwrap();
    assert!(create_balancer(&api, new_balancer("y", &[], None)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_new_balancer_is_pending_and_takes_no_change_until_it_is_ready() {
    let wait = Duration::from_secs(60);
    let world = world(Config { balancer_ready_after: wait, ..Config::default() });
    let api = world.connect(&cluster(CLUSTER));
    let made = create_balancer(&api, new_balancer("x", &[], None)).await.unwrap();
    assert_eq!(made.pending_for, Some(wait));
    tokio::time::advance(Duration::from_secs(20)).await;
    let nobody = BTreeSet::new();
    let set = async || {
        let (api, id, nobody) = (&api, &made.id, &nobody);
        with_permit(Verb::Update, async |permit| api.set_backends(id, nobody, permit).await).await
    };
    assert_eq!(set().await, Err(ApiError::Pending { after: Duration::from_secs(40) }));
    tokio::time::advance(Duration::from_secs(40)).await;
    assert_eq!(set().await.unwrap().pending_for, None);
}

#[tokio::test(start_paused = true)]
async fn beyond_the_rate_callers_are_throttled_and_told_how_long_to_wait() {
    let rate_limit = Some(RateLimit { per_second: 1.0, burst: 2 });
    let world = world(Config { rate_limit, ..Config::default() });
    let api = world.connect(&cluster(CLUSTER));
    assert!(api.list_clusters().await.is_ok() && api.list_clusters().await.is_ok());
    let Err(ApiError::Throttled { after: Some(after) }) = api.list_clusters().await else {
        panic!("not throttled")
    };
    tokio::time::advance(after).await;
    assert!(api.list_clusters().await.is_ok());
    assert_eq!(world.counters().by_outcome["throttled"], 1);
}

#[tokio::test(start_paused = true)]
async fn calls_take_their_latency_and_the_most_at_once_are_counted() {
    let latencies = [("get_instance".to_owned(), Duration::from_secs(2))].into();
    let world = world(Config { latency: Duration::from_millis(20), latencies, ..Config::default() });
    world.add_machine(Machine::new("a"));
    let api = world.connect(&cluster(CLUSTER));
    api.list_instances(None).await.unwrap();
    assert_eq!(world.age(), Duration::from_millis(20));
    join_all((0..10).map(|_| api.get_instance("a"))).await;
    assert_eq!(world.age(), Duration::from_millis(2020), "ten at once take as long as one");
    let counters = world.counters();
    assert_eq!((counters.reads, counters.writes, counters.of(Operation::GetInstance)), (11, 0, 10));
    assert_eq!((counters.in_flight, counters.max_in_flight), (0, 10));
    world.reset_counters();
    assert_eq!(world.counters().total(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_address_in_use_is_neither_given_back_nor_shared() {
    let world = world(Config::default());
    let api = world.connect(&cluster(CLUSTER));
    let id = create_address(&api, new_address("x", None)).await.unwrap();
    let holder = create_balancer(&api, new_balancer("x", &[&id], None)).await.unwrap().id;
    let in_use = ApiError::InUse { by: holder.clone(), device: None };
    assert_eq!(create_balancer(&api, new_balancer("y", &[&id], None)).await, Err(in_use.clone()));
    let give_back = async || {
        let (api, id) = (&api, &id);
        with_permit(Verb::Delete, async |permit| api.delete_address(id, permit).await).await
    };
    assert_eq!(give_back().await, Err(in_use));
    delete_balancer(&api, &holder).await.unwrap();
    assert_eq!(give_back().await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn an_address_that_somebody_has_is_refused_and_one_of_the_wrong_family_too() {
    let world = world(Config::default());
    let api = world.connect(&cluster(CLUSTER));
    let asked = |ip: &str, ipv6| NewAddress { ip: Some(ip.parse().unwrap()), ipv6, ..new_address("x", None) };
    assert!(create_address(&api, asked("192.0.2.7", false)).await.is_ok());
    assert!(matches!(create_address(&api, asked("192.0.2.7", false)).await, Err(ApiError::Conflict { .. })));
    assert!(matches!(create_address(&api, asked("192.0.2.8", true)).await, Err(ApiError::Invalid { .. })));
}

#[tokio::test(start_paused = true)]
async fn names_are_unique_only_where_the_cloud_says_so() {
    for (unique_names, accepted) in [(false, true), (true, false)] {
        let world = world(Config { unique_names, ..Config::default() });
        let api = world.connect(&cluster(CLUSTER));
        create_address(&api, new_address("x", None)).await.unwrap();
        assert_eq!(create_address(&api, new_address("x", None)).await.is_ok(), accepted);
    }
}

#[tokio::test(start_paused = true)]
async fn a_route_to_a_removed_instance_becomes_a_black_hole() {
    let world = world(Config::default());
    world.add_machine(Machine::new("a").with_id("i-1"));
    let api = world.connect(&cluster(CLUSTER));
    for node in ["a", "b"] {
        let new = new_route(node, "10.244.1.0/24");
        with_permit(Verb::Create, async |permit| api.create_route(&new, permit).await).await.unwrap();
    }
    assert!(world.remove_machine("i-1"));
    let holes: Vec<bool> = world.contents().routes.iter().map(|route| route.blackhole).collect();
    assert_eq!(holes, [true, false]);
    assert!(!world.remove_machine("i-1"), "it is gone already");
}
