//! Pins every well-known name. A change here is a change in other people's clusters.

use cloud_provider::well_known as names;
use std::fmt::Write;

/// Proves: IFACE-47
#[test]
fn the_golden_table_of_well_known_names_holds() {
    let table = include_str!("../src/well_known.rs");
    let mut found = String::new();
    let mut kind = "";
    for line in table.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("pub mod ") {
            kind = name.trim_end_matches(" {");
        }
        if let Some((name, rest)) = line.strip_prefix("pub const ").and_then(|rest| rest.split_once(':')) {
            let value = rest.split_once("= ").unwrap().1.trim_end_matches(';').trim_matches('"');
            writeln!(found, "{kind} {name} {value}").unwrap();
        }
    }
    let golden = include_str!("testdata/well_known_names.txt");
    assert_eq!(found, golden, "a well-known name changed");
}

#[test]
fn the_names_that_cost_most_when_wrong_are_what_code_uses() {
    assert_eq!(names::taints::UNINITIALIZED, "node.cloudprovider.kubernetes.io/uninitialized");
    assert_eq!(names::finalizers::LOAD_BALANCER_CLEANUP, "service.kubernetes.io/load-balancer-cleanup");
    assert_eq!(names::leases::MANAGER, "cloud-controller-manager");
    assert_eq!((names::ports::SECURE, names::ports::WEBHOOK), (10258, 10260));
}
