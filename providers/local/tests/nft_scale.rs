//! The data plane `nft` at the size of a whole site, and that its changes by parts leave what a change of the whole would. As
//! root, in network namespaces; skipped with a notice without.

#![allow(clippy::unwrap_used, reason = "what sets a test up stops it where it stands")]

#[path = "rack/any.rs"]
mod any;
#[path = "rack/kernel.rs"]
mod kernel;
#[path = "rack/servers.rs"]
mod servers;
#[path = "rack/site.rs"]
mod site;
#[path = "rack/wishes.rs"]
mod wishes;
#[path = "rack/world.rs"]
mod world;

use std::time::Duration;

use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, TestRunner};
use provider_local::intent;
use serde_json::Value;

use kernel::Scene;
use site::{Kind, Site};

/// How many of the random intents follow each other.
const STEPS: usize = 40;

/// Proves that no change of one costs what all cost, on any machine; `make bench` has the figures.
#[tokio::test]
async fn one_change_among_a_thousand_balancers_of_fifty_nodes_costs_a_fraction_of_all() {
    let Some(site) = Site::build().await else { return };
    let programmed = site.program().await;
    for kind in Kind::ALL {
        let change = site.median(kind, 5).await;
        println!("1,000 balancers of 50 nodes were programmed in {programmed:?}, {kind:?} took {change:?}");
        assert!(change * 5 < programmed, "{kind:?}: {change:?} of {programmed:?}");
    }
    site.is_whole();
}

#[tokio::test]
#[ignore = "make bench"]
async fn bench_a_thousand_balancers_of_fifty_nodes_in_two_seconds_and_a_change_in_a_tenth() {
    let Some(site) = Site::build().await else { return };
    let programmed = site.program().await;
    println!("1,000 balancers of 50 nodes: {programmed:?}");
    assert!(programmed < Duration::from_secs(2), "{programmed:?}");
    for kind in Kind::ALL {
        let change = site.median(kind, 11).await;
        println!("{kind:?}: {change:?} (median of 11)");
        assert!(change < Duration::from_millis(100), "{kind:?}: {change:?}");
    }
    site.is_whole();
}

#[tokio::test]
async fn changes_by_parts_leave_the_tables_that_are_made_from_nothing() {
    let Some(mut scene) = Scene::build().await else { return };
    let mut runner = TestRunner::new(Config::default());
    let mut intents = Vec::new();
    for _ in 0..STEPS {
        intents.push(any::any_intent().new_tree(&mut runner).unwrap().current());
    }
    let (mut by_parts, mut from_nothing) = (Vec::new(), Vec::new());
    for intent in &intents {
        scene.put_named(named(intent)).await;
        by_parts.push(tables(&scene));
    }
    for intent in &intents {
        // Nobody is told of the tables, and nobody knows them.
        scene.forget().await;
        scene.put_named(named(intent)).await;
        from_nothing.push(tables(&scene));
    }
    for (number, (one, other)) in by_parts.iter().zip(&from_nothing).enumerate() {
        assert_eq!(one, other, "step {number}, {:#?}", &intents[number.saturating_sub(1)..=number]);
    }
    assert!(by_parts.iter().map(Vec::len).max() > Some(20), "the intents ask for nothing");
}

fn named(intent: &intent::Intent) -> Vec<(String, intent::Balancer)> {
    intent.balancers.iter().map(|(uid, balancer)| (uid.clone(), (**balancer).clone())).collect()
}

/// Everything in the kernel, in an order of its own: that in which things were made says nothing.
fn tables(scene: &Scene) -> Vec<String> {
    let listing = scene.world.balancer.program("nft --json --stateless list ruleset").unwrap();
    let listing: Value = serde_json::from_str(&listing).unwrap();
    let mut items: Vec<(String, String)> = Vec::new();
    for item in listing["nftables"].as_array().unwrap() {
        let mut item = item.clone();
        in_order(&mut item);
        // Rules stay in the order of their chain, because this sort is stable.
        let chain = item["rule"]["chain"].as_str().map(|chain| format!("{} {chain}", item["rule"]["family"]));
        let text = item.to_string();
        items.push((chain.unwrap_or_else(|| text.clone()), text));
    }
    items.sort_by(|one, other| one.0.cmp(&other.0));
    items.into_iter().map(|(_, text)| text).collect()
}

/// Takes the numbers out that the kernel gave, and puts elements in order.
fn in_order(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("handle");
            for (name, field) in fields.iter_mut() {
                in_order(field);
                if let (true, Value::Array(elements)) = (["elem", "set"].contains(&name.as_str()), field) {
                    elements.sort_by_key(Value::to_string);
                }
            }
        }
        Value::Array(parts) => parts.iter_mut().for_each(in_order),
        _ => {}
    }
}
