//! What a Node's pod CIDRs ask for. It is pure.

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;

/// What a Node asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// It has pod CIDRs: they are taken note of.
    Has(Vec<IpNet>),
    /// It has pod CIDRs, of which these cannot be read.
    Garbled(Vec<String>),
    /// It has none, and needs some.
    Needs,
    /// It has none, and is on its way out.
    Leaving,
}

/// Looks at a Node.
pub fn wish(node: &Node) -> Wish {
    let cidrs = pod_cidrs(node);
    if cidrs.is_empty() {
        let leaving = node.metadata.deletion_timestamp.is_some();
        return if leaving { Wish::Leaving } else { Wish::Needs };
    }
    let (mut read, mut garbled) = (Vec::new(), Vec::new());
    for cidr in cidrs {
        match cidr.parse::<IpNet>() {
            Ok(cidr) => read.push(cidr.trunc()),
            Err(_) => garbled.push(cidr.clone()),
        }
    }
    if garbled.is_empty() { Wish::Has(read) } else { Wish::Garbled(garbled) }
}

/// A Node's pod CIDRs; the single-stack field counts where the list is empty.
fn pod_cidrs(node: &Node) -> &[String] {
    let Some(spec) = &node.spec else { return &[] };
    let single = || spec.pod_cidr.as_ref().filter(|cidr| !cidr.is_empty()).map(std::slice::from_ref);
    let list = spec.pod_cidrs.as_deref().filter(|list| !list.is_empty());
    list.or_else(single).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use testkit::node;

    use super::*;

    /// Proves: IPAM-15
    #[test]
    fn a_node_has_needs_or_leaves() {
        assert_eq!(wish(&node("a").build()), Wish::Needs);
        let dual = node("a").pod_cidr("10.244.1.0/24").pod_cidr("fd00:0:0:1::/64").build();
        assert_eq!(
            wish(&dual),
            Wish::Has(vec!["10.244.1.0/24".parse().unwrap(), "fd00:0:0:1::/64".parse().unwrap()])
        );
        let mut old = node("a").pod_cidr("10.244.1.0/24").build();
        old.spec.as_mut().unwrap().pod_cidrs = None;
        assert_eq!(wish(&old), Wish::Has(vec!["10.244.1.0/24".parse().unwrap()]));
        assert_eq!(wish(&node("a").pod_cidr("ten").build()), Wish::Garbled(vec!["ten".into()]));
        let mut leaving = node("a").build();
        leaving.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(testkit::EPOCH));
        assert_eq!(wish(&leaving), Wish::Leaving);
        leaving.spec = dual.spec;
        assert!(matches!(wish(&leaving), Wish::Has(_)), "it keeps its blocks until it is really gone");
    }
}
