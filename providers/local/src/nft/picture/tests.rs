//! A change by parts is the change of the whole.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::intent;

#[path = "../../../tests/rack/any.rs"]
mod any;

/// A step: what is wanted, and which of the nodes are healthy, by their last number.
fn any_step() -> impl Strategy<Value = (Intent, u8, bool)> {
    (any::any_intent(), any::<u8>(), any::<bool>())
}

fn then(before: &Picture, intent: &Intent, healthy: u8, verdicts: u64, guards: bool) -> Picture {
    let health = |_: &Balancer, _: PortKey, backend: &Backend| {
        let last: u32 = backend.node.trim_start_matches("node-").parse().unwrap();
        if healthy & (1 << last) == 0 { Health::Unknown } else { Health::Healthy }
    };
    let addresses = intent.balancers.values().flat_map(|balancer| &balancer.addresses);
    let guarded = if guards { addresses.copied().collect() } else { BTreeSet::new() };
    let scene = Scene { intent, health: &health, verdicts, networks: &Networks::new(), guarded: &guarded };
    before.then(&scene)
}

proptest! {
    /// Whatever came before: the next picture is the one that is made from nothing, and the script that leads there by the
    /// parts is to the letter the one that leads there from all of the tables.
    #[test]
    fn a_change_by_parts_is_the_change_of_the_whole(steps in vec(any_step(), 1..6)) {
        let mut now = Picture::default();
        for (number, (intent, healthy, guards)) in (1..).zip(&steps) {
            let next = then(&now, intent, *healthy, number, *guards);
            let fresh = then(&Picture::default(), intent, *healthy, number, *guards);
            prop_assert_eq!(next.whole(), fresh.whole());
            prop_assert_eq!(now.script(&next), plan(&now.whole(), &next.whole()));
            prop_assert_eq!(next.script(&fresh), "");
            let (were, are) = now.traffic(&next);
            let astray = next.all_traffic().astray_after(&now.all_traffic());
            prop_assert_eq!(are.astray_after(&were), astray);
            now = next;
        }
    }
}

#[test]
fn a_part_that_stays_is_not_made_again_unless_its_verdict_changes() {
    let backends = (1..3).map(|last| Backend {
        node: format!("node-{last}"),
        address: [10, 0, 0, last].into(),
        port: 30_080,
        weight: 1,
    });
    let port = intent::Port { backends: backends.collect(), ..intent::Port::default() };
    let balancer = |last: u8| Balancer {
        cluster: None,
        namespace: "shop".into(),
        name: "web".into(),
        addresses: [[192, 0, 2, last].into()].into(),
        ports: [(PortKey::tcp(80), port.clone())].into(),
        settings: intent::Settings::default(),
    };
    let balancers = (1..4).map(|last| (format!("uid-{last}"), Arc::new(balancer(last))));
    let mut intent = Intent { balancers: balancers.collect(), ..Intent::empty() };
    let first = then(&Picture::default(), &intent, 0b110, 0, false);
    intent.balancers.insert("uid-2".into(), Arc::new(balancer(9)));
    let second = then(&first, &intent, 0b110, 0, false);
    assert_eq!(first.differing(&second), ["uid-2".to_owned()].into());
    let same_verdicts = then(&second, &intent, 0b110, 1, false);
    assert_eq!(second.differing(&same_verdicts), BTreeSet::new());
    let one_fails = then(&second, &intent, 0b010, 1, false);
    assert_eq!(second.differing(&one_fails).len(), 3);
    assert!(second.script(&one_fails).contains("dnat ip to 10.0.0.1:30080"));
}
