use std::collections::BTreeSet;

use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn set(network: &str, mask: u8) -> CidrSet {
    CidrSet::new(network.parse().unwrap(), mask).unwrap()
}

fn take(set: &mut CidrSet) -> Option<String> {
    let block = set.next_free()?;
    assert!(set.take(block));
    Some(set.block(block).unwrap().to_string())
}

/// Proves: IPAM-21
#[rstest]
#[case("10.244.0.0/16", 24, 256)]
#[case("10.0.0.0/8", 24, 65_536)]
#[case("10.244.0.0/24", 24, 1)]
#[case("fd00::/48", 64, 65_536)]
fn a_network_has_two_to_the_difference_of_the_masks_blocks(
    #[case] network: &str,
    #[case] mask: u8,
    #[case] max: u32,
) {
    let mut set = set(network, mask);
    assert_eq!(set.max(), max);
    let taken: BTreeSet<String> = std::iter::from_fn(|| take(&mut set)).collect();
    assert_eq!((taken.len(), set.used()), (max as usize, max), "each once, and then none is left");
}

/// Proves: IPAM-7, IPAM-21
#[rstest]
#[case("10.244.0.0/25", 24, "invalid --cluster-cidr 10.244.0.0/25: its mask is longer than /24")]
#[case("fd00::/40", 64, "is too small for fd00::/40: that is more than 2^16 nodes")]
#[case("0.0.0.0/0", 28, "is too small for 0.0.0.0/0: that is more than 2^24 nodes")]
#[case("10.244.0.0/16", 64, "/64 is no mask of 10.244.0.0/16's family")]
fn what_cannot_be_cut_is_refused(#[case] network: &str, #[case] mask: u8, #[case] why: &str) {
    let refused = CidrSet::new(network.parse().unwrap(), mask).unwrap_err().to_string();
    assert!(refused.contains(why), "{refused}");
}

/// Proves: IPAM-22
#[test]
fn a_block_that_was_given_back_rests_until_all_others_had_their_turn() {
    let mut set = set("10.244.0.0/22", 24);
    assert_eq!(take(&mut set).unwrap(), "10.244.0.0/24");
    assert_eq!(take(&mut set).unwrap(), "10.244.1.0/24");
    assert!(set.release(0) && !set.release(0));
    assert_eq!(take(&mut set).unwrap(), "10.244.2.0/24");
    assert_eq!(take(&mut set).unwrap(), "10.244.3.0/24");
    assert_eq!(take(&mut set).unwrap(), "10.244.0.0/24");
    assert_eq!(take(&mut set), None);
}

/// Proves: IPAM-23
#[rstest]
#[case("10.0.0.0/8", 24, 258, "10.1.2.0/24")]
#[case("10.244.0.0/16", 26, 5, "10.244.1.64/26")]
#[case("fd00:1:2::/48", 64, 0xab, "fd00:1:2:ab::/64")]
#[case("fd00:1:2:3::/60", 72, 0xfff, "fd00:1:2:f:ff00::/72")]
#[case("fd00::/112", 120, 3, "fd00::300/120")]
fn a_block_has_its_number_in_its_address(
    #[case] network: &str,
    #[case] mask: u8,
    #[case] number: u32,
    #[case] block: &str,
) {
    let set = set(network, mask);
    let network: IpNet = block.parse().unwrap();
    assert_eq!(set.block(number), Some(network));
    assert_eq!(set.touched_by(&network), Some(number..=number));
}

/// Proves: IPAM-24
#[rstest]
#[case("10.244.3.0/24", Some(3..=3))]
#[case("10.244.3.128/25", Some(3..=3))]
#[case("10.244.4.0/22", Some(4..=7))]
#[case("10.0.0.0/8", Some(0..=255))]
#[case("0.0.0.0/0", Some(0..=255))]
#[case("10.245.0.0/24", None)]
#[case("fd00::/64", None)]
fn a_network_touches_blocks_whatever_its_size(
    #[case] network: &str,
    #[case] blocks: Option<RangeInclusive<u32>>,
) {
    assert_eq!(set("10.244.0.0/16", 24).touched_by(&network.parse().unwrap()), blocks);
}

/// The same set, the slow way.
fn model_next(used: &BTreeSet<u32>, next: u32, max: u32) -> Option<u32> {
    (next..max).chain(0..next).find(|block| !used.contains(block))
}

proptest! {
    #[test]
    fn it_agrees_with_a_plain_set_whatever_happens(
        bits in 0_u8..14,
        steps in prop::collection::vec((0_u8..4, any::<u32>()), 1..400),
    ) {
        let mut set = CidrSet::new("10.0.0.0/8".parse().unwrap(), 8 + bits).unwrap();
        let (mut used, mut next) = (BTreeSet::new(), 0);
        for (step, number) in steps {
            let block = number % set.max();
            match step {
                0 => {
                    prop_assert_eq!(set.next_free(), model_next(&used, next, set.max()));
                    if let Some(free) = set.next_free() {
                        prop_assert!(set.take(free) && used.insert(free));
                        next = (free + 1) % set.max();
                    }
                }
                1 => prop_assert_eq!(set.occupy(block), used.insert(block)),
                2 => prop_assert_eq!(set.release(block), used.remove(&block)),
                // A long run, so that whole words fill up.
                _ => for block in block..set.max().min(block.saturating_add(200)) {
                    prop_assert_eq!(set.occupy(block), used.insert(block));
                },
            }
            prop_assert_eq!(set.used() as usize, used.len());
            prop_assert_eq!(set.next_free(), model_next(&used, next, set.max()));
        }
    }
}
