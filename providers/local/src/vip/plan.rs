//! What to put on the machine and what to take off. It is pure, and applying it leaves nothing to plan.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::netlink::Address;

#[derive(Debug, PartialEq, Eq, Default)]
pub(super) struct Plan {
    pub(super) add: BTreeSet<IpAddr>,
    pub(super) remove: Vec<Address>,
    pub(super) theirs: BTreeSet<IpAddr>,
}

pub(super) fn plan(here: &[Address], wanted: &BTreeSet<IpAddr>) -> Plan {
    let mut plan = Plan::default();
    let mut ours = BTreeSet::new();
    for address in here.iter().filter(|address| address.is_ours()) {
        // A second one on another interface is left from a config that named another.
        if !wanted.contains(&address.ip) || !ours.insert(address.ip) {
            plan.remove.push(address.clone());
        }
    }
    for ip in wanted.difference(&ours) {
        let taken = here.iter().any(|address| address.ip == *ip);
        if taken { &mut plan.theirs } else { &mut plan.add }.insert(*ip);
    }
    plan
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::netlink::PROTOCOL;

    fn address(last: u8, ours: bool, link: u32) -> Address {
        let protocol = ours.then_some(PROTOCOL);
        Address { ip: [192, 0, 2, last].into(), length: 32, link, protocol }
    }

    fn applied(here: &[Address], plan: &Plan) -> Vec<Address> {
        let stay = here.iter().filter(|address| !plan.remove.contains(address)).cloned();
        let new = plan.add.iter().map(|ip| Address { ip: *ip, ..address(0, true, 1) });
        stay.chain(new).collect()
    }

    proptest! {
        #[test]
        fn applying_leaves_nothing_to_plan_and_touches_nobody_elses(
            here in proptest::collection::btree_map((0_u8..8, 1_u32..3), any::<bool>(), 0..12),
            wanted in proptest::collection::btree_set(0_u8..8, 0..8),
        ) {
            let here: Vec<_> = here.into_iter().map(|((last, link), ours)| address(last, ours, link)).collect();
            let wanted: BTreeSet<IpAddr> = wanted.into_iter().map(|last| address(last, true, 1).ip).collect();
            let first = plan(&here, &wanted);
            prop_assert!(first.remove.iter().all(Address::is_ours));
            let after = applied(&here, &first);
            let again = plan(&after, &wanted);
            prop_assert_eq!(&again, &Plan { theirs: again.theirs.clone(), ..Plan::default() });
            let there: BTreeSet<IpAddr> = after.iter().map(|address| address.ip).collect();
            prop_assert!(wanted.is_subset(&there));
            prop_assert!(after.iter().filter(|address| address.is_ours()).all(|each| wanted.contains(&each.ip)));
        }
    }
}
