use proptest::prelude::*;
use rstest::rstest;
use testkit::node;

use super::*;

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn networks() -> [IpNet; 2] {
    [net("10.244.0.0/16"), net("fd00:10::/48")]
}

fn wish(name: &str, cidrs: &[&str]) -> Wish {
    let node = cidrs.iter().fold(node(name).internal_ip("10.0.0.1"), |node, cidr| node.pod_cidr(cidr));
    Wish { uid: format!("uid-{name}"), ..Wish::of(&node.build()) }
}

/// A listed route to a node; `*` is nowhere.
fn route(name: &str, target: &str, cidr: &str) -> Route {
    let mut route = Route::new(net(cidr)).named(name);
    route.target_node = (target != "*").then(|| target.to_owned());
    route
}

fn blackhole(mut route: Route) -> Route {
    route.blackhole = true;
    route
}

fn shown(plan: &Plan) -> Vec<String> {
    let to =
        |route: &Route| format!("{} to {}", route.destination, route.target_node.as_deref().unwrap_or("*"));
    let created = plan.create.iter().map(|(_, route)| format!("create {}", to(route)));
    let removed =
        plan.remove.iter().map(|removal| format!("remove {} by {:?}", to(&removal.route), removal.claim));
    removed.chain(created).collect()
}

fn planned(wishes: &[Wish], routes: &[Route]) -> Vec<String> {
    shown(&plan(&networks(), wishes, routes, |name| name == "former"))
}

/// Proves: ROUTE-17, ROUTE-18, ROUTE-19, ROUTE-23
#[rstest]
#[case::nothing("", "", &[])]
#[case::missing("a 10.244.1.0/24", "", &["create 10.244.1.0/24 to a"])]
#[case::there("a 10.244.1.0/24", "a 10.244.1.0/24", &[])]
#[case::dual("a 10.244.1.0/24 fd00:10:0:1::/64", "a 10.244.1.0/24", &["create fd00:10:0:1::/64 to a"])]
#[case::another_cidr(
    "a 10.244.1.0/24",
    "a 10.244.2.0/24",
    &["remove 10.244.2.0/24 to a by Rule", "create 10.244.1.0/24 to a"]
)]
#[case::another_node(
    "a 10.244.1.0/24, b 10.244.2.0/24",
    "b 10.244.1.0/24, b 10.244.2.0/24",
    &["remove 10.244.1.0/24 to b by Rule", "create 10.244.1.0/24 to a"]
)]
#[case::without_cidrs("a", "a 10.244.1.0/24", &["remove 10.244.1.0/24 to a by Rule"])]
#[case::without_both("a", "", &[])]
fn a_table_is_compared_with_the_nodes(#[case] nodes: &str, #[case] table: &str, #[case] expected: &[&str]) {
    fn words(text: &str) -> impl Iterator<Item = Vec<&str>> {
        text.split(", ").filter(|part| !part.is_empty()).map(|part| part.split(' ').collect())
    }
    let wishes: Vec<Wish> = words(nodes).map(|words| wish(words[0], &words[1..])).collect();
    let routes: Vec<Route> = words(table).map(|words| route("r", words[0], words[1])).collect();
    assert_eq!(planned(&wishes, &routes), expected);
}

/// Proves: ROUTE-20, ROUTE-21
#[rstest]
#[case::former(route("r", "former", "10.244.7.0/24"), Some(Claim::Rule))]
#[case::stranger(route("r", "stranger", "10.244.7.0/24"), Some(Claim::Tag))]
#[case::nowhere(route("r", "*", "10.244.7.0/24"), Some(Claim::Tag))]
#[case::black_hole(blackhole(route("r", "*", "10.244.7.0/24")), Some(Claim::Rule))]
#[case::second_family(route("r", "former", "fd00:10:0:7::/64"), Some(Claim::Rule))]
#[case::outside(route("r", "former", "10.245.7.0/24"), None)]
#[case::black_hole_outside(blackhole(route("r", "*", "192.168.0.0/24")), None)]
#[case::super_net(route("r", "former", "10.0.0.0/8"), None)]
#[case::default_route(route("r", "former", "0.0.0.0/0"), None)]
#[case::same_start(route("r", "former", "10.244.0.0/15"), Some(Claim::Rule))]
fn a_route_that_no_node_wants_goes_if_it_may_be_ours(#[case] route: Route, #[case] claim: Option<Claim>) {
    let plan = plan(&networks(), &[wish("a", &[])], &[route], |name| name == "former");
    assert_eq!(plan.remove.iter().map(|removal| removal.claim).next(), claim);
    assert_eq!(plan.create, []);
}

/// Proves: ROUTE-18
#[test]
fn addresses_are_compared_where_the_provider_tells_them() {
    let a = wish("a", &["10.244.1.0/24"]);
    let with = |addresses: &[(&str, &str)]| {
        let address =
            |(kind, text): &(&str, &str)| NodeAddress { type_: (*kind).into(), address: (*text).into() };
        Route::new(net("10.244.1.0/24")).named("r").to_node("a", addresses.iter().map(address).collect())
    };
    assert_eq!(planned(std::slice::from_ref(&a), &[with(&[("InternalIP", "10.0.0.1")])]), [""; 0]);
    for other in [
        with(&[]),
        with(&[("ExternalIP", "10.0.0.1")]),
        with(&[("InternalIP", "10.0.0.2")]),
        with(&[("InternalIP", "10.0.0.1"), ("InternalIP", "10.0.0.1")]),
    ] {
        let expected = ["remove 10.244.1.0/24 to a by Rule", "create 10.244.1.0/24 to a"];
        assert_eq!(planned(std::slice::from_ref(&a), &[other]), expected);
    }
    let mut many = a;
    many.addresses.insert(0, NodeAddress { type_: "Hostname".into(), address: "a".into() });
    assert_eq!(
        planned(&[many], &[with(&[("InternalIP", "10.0.0.1"), ("Hostname", "a")])]),
        [""; 0],
        "as sets"
    );
}

/// Proves: ROUTE-22
#[test]
fn of_two_routes_to_the_same_place_one_stays_and_what_is_listed_twice_is_one() {
    let a = [wish("a", &["10.244.1.0/24"])];
    let one = route("one", "a", "10.244.1.0/24");
    let two = route("two", "a", "10.244.1.0/24");
    let plan = plan(&networks(), &a, &[one.clone(), two.clone()], |_| false);
    assert_eq!(plan.remove, [Removal { route: two, claim: Claim::Rule }]);
    assert_eq!(planned(&a, &[one.clone(), one]), [""; 0]);
    let nameless = route("", "a", "10.244.1.0/24");
    assert_eq!(planned(&a, &[nameless.clone(), nameless]), [""; 0]);
}

/// Proves: ROUTE-20
#[test]
fn a_black_hole_in_place_of_a_wanted_route_is_replaced() {
    let dead = blackhole(route("r", "a", "10.244.1.0/24"));
    let expected = ["remove 10.244.1.0/24 to a by Rule", "create 10.244.1.0/24 to a"];
    assert_eq!(planned(&[wish("a", &["10.244.1.0/24"])], &[dead]), expected);
}

/// Proves: ROUTE-26, IFACE-33
#[test]
fn a_route_is_made_with_the_nodes_name_addresses_and_uid() {
    let a = wish("a", &["10.244.1.0/24"]);
    let plan = plan(&networks(), std::slice::from_ref(&a), &[], |_| false);
    let (hint, route) = &plan.create[0];
    assert_eq!(hint, "uid-a");
    assert_eq!((route.name.as_str(), route.target_node.as_deref()), ("", Some("a")));
    assert_eq!(route.target_addresses, Some(a.addresses));
}

#[test]
fn pod_cidrs_are_read_once_and_as_networks() {
    let odd = node("a").pod_cidr("10.244.1.7/24").pod_cidr("10.244.1.0/24").pod_cidr("nonsense").build();
    let wish = Wish::of(&odd);
    assert_eq!((wish.cidrs, wish.garbled), (vec![net("10.244.1.0/24")], vec!["nonsense".to_owned()]));
}

/// What a cloud has after a plan was carried out.
fn apply(plan: &Plan, routes: &[Route]) -> Vec<Route> {
    let gone = |route: &Route| plan.remove.iter().any(|removal| removal.route == *route);
    let mut after: Vec<Route> = routes.iter().filter(|route| !gone(route)).cloned().collect();
    for (number, (_, route)) in plan.create.iter().enumerate() {
        after.push(route.clone().named(format!("new-{number}")));
    }
    after
}

fn any_wish() -> impl Strategy<Value = Wish> {
    (0_u8..6, prop::collection::btree_set(0_u8..8, 0..3), 0_u8..3).prop_map(|(name, blocks, ip)| {
        let cidrs: Vec<String> = blocks.iter().map(|block| format!("10.244.{block}.0/24")).collect();
        let mut wish = wish(&format!("n{name}"), &cidrs.iter().map(String::as_str).collect::<Vec<_>>());
        wish.addresses[0].address = format!("10.0.0.{ip}");
        wish
    })
}

fn any_route() -> impl Strategy<Value = Route> {
    let parts =
        (0_u8..4, prop::option::of(0_u8..8), 0_u8..8, prop::option::of(0_u8..3), 0_u8..6, any::<bool>());
    parts.prop_map(|(name, target, block, ip, blackhole, inside)| {
        let network = if inside { "10.244" } else { "172.16" };
        let mut route = Route::new(net(&format!("{network}.{block}.0/24"))).named(format!("r{name}"));
        route.target_node = target.map(|target| format!("n{target}"));
        let address = |ip| NodeAddress { type_: "InternalIP".into(), address: format!("10.0.0.{ip}") };
        route.target_addresses = ip.map(|ip| vec![address(ip)]);
        route.blackhole = blackhole == 0;
        route
    })
}

proptest! {
    #[test]
    fn applying_a_plan_leaves_nothing_to_plan(
        wishes in prop::collection::vec(any_wish(), 0..6),
        routes in prop::collection::vec(any_route(), 0..20),
    ) {
        let by_name: BTreeMap<String, Wish> = wishes.into_iter().map(|wish| (wish.node.clone(), wish)).collect();
        let wishes: Vec<Wish> = by_name.into_values().collect();
        // A route is known by its name and place.
        let identity = |route: &Route| (route.name.clone(), route.target_node.clone(), route.destination);
        let routes: BTreeMap<_, Route> = routes.into_iter().map(|route| (identity(&route), route)).collect();
        let routes: Vec<Route> = routes.into_values().collect();
        let first = plan(&networks(), &wishes, &routes, |name| name == "n7");
        let after = apply(&first, &routes);
        let second = plan(&networks(), &wishes, &after, |name| name == "n7");
        prop_assert!(second.is_empty(), "{:?} after {:?}", shown(&second), shown(&first));
        for wish in &wishes {
            for cidr in &wish.cidrs {
                prop_assert!(after.iter().any(|route| route.destination == *cidr && wish.is_met_by(route)));
            }
        }
        // Nothing outside the pod networks is ever touched.
        prop_assert!(first.remove.iter().all(|removal| net("10.244.0.0/16").contains(&removal.route.destination)));
    }
}
