//! Each forbidden edge must be found, and what the plan allows must pass: a check that cannot fail checks
//! nothing.

use rstest::rstest;

use super::{Edge, Graph, Kind, Place, check};

const ROOMS: [&str; 10] = [
    "cloud-provider",
    "cloud-http",
    "controller-kit",
    "cloud-controllers",
    "cloud-controller-manager",
    "nephos",
    "testkit",
    "control-plane",
    "demo",
    "xtask",
];

fn graph(edges: &[(&str, &str, Kind)]) -> Graph {
    let rooms = ROOMS.map(|name| (name.to_owned(), Place::Room));
    let providers =
        ["provider-fake", "provider-aws", "provider-local"].map(|name| (name.to_owned(), Place::Provider));
    Graph {
        ours: rooms.into_iter().chain(providers).collect(),
        edges: edges
            .iter()
            .map(|(from, to, kind)| Edge { from: (*from).to_owned(), to: (*to).to_owned(), kind: *kind })
            .collect(),
        kubernetes_choices: Vec::new(),
    }
}

fn sentences(graph: &Graph) -> Vec<String> {
    check(graph).iter().map(ToString::to_string).collect()
}

#[rstest]
#[case::contract_knows_the_kit("cloud-provider", "controller-kit", Kind::Normal)]
#[case::contract_knows_its_http_client("cloud-provider", "cloud-http", Kind::Normal)]
#[case::http_client_knows_the_kit("cloud-http", "controller-kit", Kind::Normal)]
#[case::kit_knows_the_contract("controller-kit", "cloud-provider", Kind::Normal)]
#[case::kit_tests_know_the_contract("controller-kit", "cloud-provider", Kind::Dev)]
#[case::controllers_know_a_provider("cloud-controllers", "provider-fake", Kind::Normal)]
#[case::controllers_know_the_manager("cloud-controllers", "cloud-controller-manager", Kind::Normal)]
#[case::manager_knows_a_provider("cloud-controller-manager", "provider-fake", Kind::Normal)]
#[case::manager_tests_know_a_real_cloud("cloud-controller-manager", "provider-aws", Kind::Dev)]
#[case::binary_reaches_into_the_kit("nephos", "controller-kit", Kind::Normal)]
#[case::provider_knows_the_kit("provider-fake", "controller-kit", Kind::Normal)]
#[case::provider_knows_a_provider("provider-local", "provider-fake", Kind::Normal)]
#[case::provider_tests_know_a_provider("provider-local", "provider-fake", Kind::Dev)]
#[case::provider_knows_the_binary("provider-local", "nephos", Kind::Normal)]
#[case::testkit_is_linked("cloud-controllers", "testkit", Kind::Normal)]
#[case::testkit_runs_while_building("cloud-controllers", "testkit", Kind::Build)]
#[case::control_plane_is_linked("nephos", "control-plane", Kind::Normal)]
#[case::testkit_links_the_control_plane("testkit", "control-plane", Kind::Normal)]
#[case::testkit_knows_a_real_cloud("testkit", "provider-aws", Kind::Normal)]
#[case::control_plane_knows_testkit("control-plane", "testkit", Kind::Normal)]
#[case::chores_know_a_room("xtask", "cloud-provider", Kind::Normal)]
#[case::a_room_knows_the_chores("testkit", "xtask", Kind::Dev)]
fn a_forbidden_edge_is_named_with_its_rule_and_a_remedy(
    #[case] from: &str,
    #[case] to: &str,
    #[case] kind: Kind,
) {
    let found = sentences(&graph(&[(from, to, kind)]));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with(&format!("`{from}` imports `{to}` as ")), "{}", found[0]);
    assert!(found[0].contains("Rule: ") && found[0].contains("it may import "), "{}", found[0]);
    assert!(found[0].contains(&format!("of `{from}`")) && found[0].contains("Remedy: "), "{}", found[0]);
}

#[test]
fn a_test_tool_in_the_wrong_table_is_told_to_move() {
    let found = sentences(&graph(&[("cloud-controllers", "testkit", Kind::Normal)]));
    assert!(found[0].contains("move `testkit` from [dependencies] to [dev-dependencies]"), "{}", found[0]);
}

#[test]
fn the_planned_edges_pass() {
    let normal = [
        ("cloud-http", "cloud-provider"),
        ("cloud-controllers", "cloud-provider"),
        ("cloud-controllers", "controller-kit"),
        ("cloud-controller-manager", "cloud-provider"),
        ("cloud-controller-manager", "controller-kit"),
        ("cloud-controller-manager", "cloud-controllers"),
        ("nephos", "cloud-controller-manager"),
        ("nephos", "provider-fake"),
        ("nephos", "provider-aws"),
        ("provider-aws", "cloud-provider"),
        ("provider-aws", "cloud-http"),
        ("provider-aws", "cloud-controller-manager"),
        ("testkit", "cloud-provider"),
        ("testkit", "provider-fake"),
        ("demo", "testkit"),
        ("demo", "control-plane"),
        ("demo", "nephos"),
    ]
    .map(|(from, to)| (from, to, Kind::Normal));
    let dev = [
        ("cloud-provider", "testkit"),
        ("controller-kit", "testkit"),
        ("controller-kit", "control-plane"),
        ("cloud-controllers", "provider-fake"),
        ("provider-local", "testkit"),
        ("testkit", "control-plane"),
        ("testkit", "testkit"),
    ]
    .map(|(from, to)| (from, to, Kind::Dev));
    let edges: Vec<_> = normal.into_iter().chain(dev).collect();
    assert_eq!(sentences(&graph(&edges)), [""; 0]);
}

#[test]
fn a_package_without_a_rule_is_told_where_to_write_one() {
    let mut graph = graph(&[]);
    graph.ours.insert("cloud-utils".to_owned(), Place::Room);
    let found = sentences(&graph);
    assert_eq!(found.len(), 1);
    assert!(
        found[0].contains("`cloud-utils`") && found[0].contains("xtask/src/rooms/rules.rs"),
        "{}",
        found[0]
    );
}

#[test]
fn a_new_provider_needs_no_rule_of_its_own() {
    let mut graph = graph(&[("provider-hcloud", "cloud-provider", Kind::Normal)]);
    graph.ours.insert("provider-hcloud".to_owned(), Place::Provider);
    assert_eq!(sentences(&graph), [""; 0]);
}

#[rstest]
#[case("kube")]
#[case("kube-client")]
#[case("kube-core")]
#[case("kube-runtime")]
#[case("tokio")]
#[case("hyper")]
fn the_contract_must_not_reach_a_client_or_a_runtime_through_others(#[case] banned: &str) {
    let edges = [("cloud-provider", "innocent", Kind::Normal), ("innocent", banned, Kind::Normal)];
    let found = sentences(&graph(&edges));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains(&format!("cloud-provider -> innocent -> {banned}")), "{}", found[0]);
    assert!(found[0].contains("Remedy: "), "{}", found[0]);
}

#[test]
fn the_contract_may_use_a_runtime_in_its_tests() {
    let edges = [
        ("cloud-provider", "tokio", Kind::Dev),
        ("cloud-provider", "innocent", Kind::Normal),
        ("innocent", "tokio", Kind::Dev),
        ("controller-kit", "tokio", Kind::Normal),
    ];
    assert_eq!(sentences(&graph(&edges)), [""; 0]);
}

#[rstest]
#[case("aws-lc-rs")]
#[case("aws-lc-sys")]
#[case("openssl-sys")]
#[case("native-tls")]
fn a_second_cryptography_is_refused_wherever_it_comes_from(#[case] banned: &str) {
    for root in ["controller-kit", "provider-local", "nephos"] {
        for kind in [Kind::Normal, Kind::Build] {
            let found = sentences(&graph(&[(root, "some-http", Kind::Normal), ("some-http", banned, kind)]));
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains(&format!("{root} -> some-http -> {banned}")), "{}", found[0]);
        }
    }
}

#[test]
fn the_vendors_sdk_may_bring_its_own_cryptography_and_the_binary_may_list_it() {
    let edges = [("nephos", "provider-aws", Kind::Normal), ("provider-aws", "aws-lc-rs", Kind::Normal)];
    assert_eq!(sentences(&graph(&edges)), [""; 0]);
}

#[test]
fn only_a_binary_may_choose_a_kubernetes_version() {
    let mut graph = graph(&[]);
    graph.kubernetes_choices.push(("nephos".to_owned(), "v1_34".to_owned()));
    assert_eq!(sentences(&graph), [""; 0]);
    graph.kubernetes_choices.push(("testkit".to_owned(), "v1_34".to_owned()));
    let found = sentences(&graph);
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("`testkit`") && found[0].contains("`v1_34`"), "{}", found[0]);
}
