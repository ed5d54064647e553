use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn pool(name: &str, namespaces: &[&str], classes: &[&str]) -> Pool {
    Pool {
        name: name.to_owned(),
        ranges: Vec::new(),
        namespaces: namespaces.iter().map(ToString::to_string).collect(),
        classes: classes.iter().map(ToString::to_string).collect(),
        auto_assign: true,
        use_edges: false,
    }
}

#[rstest]
#[case("192.0.2.7", "192.0.2.7", 1)]
#[case("192.0.2.0/30", "192.0.2.0-192.0.2.3", 4)]
#[case("192.0.2.10 - 192.0.2.12", "192.0.2.10-192.0.2.12", 3)]
#[case("2001:db8::/126", "2001:db8::-2001:db8::3", 4)]
fn ranges_are_read_in_every_spelling(#[case] text: &str, #[case] shown: &str, #[case] size: usize) {
    let range: Range = text.parse().unwrap();
    assert_eq!(range.to_string(), shown);
    assert_eq!(range.addresses().count(), size);
}

#[rstest]
#[case("192.0.2", "no address, no network and no range")]
#[case("192.0.2.1-2001:db8::1", "ends in another")]
#[case("192.0.2.9-192.0.2.1", "ends before it begins")]
#[case("192.0.2.9/28", "did you mean 192.0.2.0/28?")]
#[case("224.0.0.1", "multicast")]
#[case("0.0.0.0/0", "no address of a machine")]
#[case("223.255.255.250-224.0.0.3", "224.0.0.0 is multicast")]
#[case("ff02::1", "multicast")]
fn what_is_no_range_is_refused_with_the_reason(#[case] text: &str, #[case] reason: &str) {
    let error = text.parse::<Range>().unwrap_err().to_string();
    assert!(error.contains(reason), "{error}");
}

#[test]
fn a_network_of_the_whole_ipv6_site_is_read_without_counting_it() {
    let range: Range = "2001:db8::/64".parse().unwrap();
    let second = range.addresses().nth(1).unwrap();
    assert_eq!(second.to_string(), "2001:db8::1");
    assert!(range.is_edge("2001:db8::".parse().unwrap()));
}

#[rstest]
#[case("team-a", None, &["team", "open"])]
#[case("other", None, &["open"])]
#[case("other", Some("wan"), &["outside"])]
#[case("other", Some("unheard-of"), &["open"])]
fn particular_pools_come_before_general_ones(
    #[case] namespace: &str,
    #[case] class: Option<&str>,
    #[case] expected: &[&str],
) {
    let pools =
        Pools(vec![pool("open", &[], &[]), pool("team", &["team-a"], &[]), pool("outside", &[], &["wan"])]);
    let names: Vec<&str> =
        pools.for_service(namespace, class).iter().map(|pool| pool.name.as_str()).collect();
    assert_eq!(names, expected);
}

proptest! {
    #[test]
    fn two_ranges_overlap_if_and_only_if_they_share_an_address(a in 0_u8..40, b in 0_u8..40, c in 0_u8..40, d in 0_u8..40) {
        let range = |x: u8, y: u8| -> Range { format!("192.0.2.{}-192.0.2.{}", x.min(y), x.max(y)).parse().unwrap() };
        let (one, other) = (range(a, b), range(c, d));
        let shared = one.addresses().any(|address| other.contains(address));
        prop_assert_eq!(one.overlaps(&other), shared);
        prop_assert_eq!(other.overlaps(&one), shared);
    }

    #[test]
    fn any_text_is_a_range_or_an_error(text in "[0-9a-f.:/ -]{0,40}") {
        if let Ok(range) = text.parse::<Range>() {
            prop_assert_eq!(range.to_string().parse::<Range>().unwrap(), range);
        }
    }
}
