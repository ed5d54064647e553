//! For clouds that list all their instances: from one list to one answer per node, with the four-valued rules of
//! [`Existence`] built in.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use super::{Doubt, Evidence, Existence, Instance, NodeRef};
use crate::provider_id::ProviderId;

/// What one listing of a cloud's instances saw.
#[derive(Debug, Clone)]
pub struct Snapshot {
    scheme: String,
    by_id: BTreeMap<ProviderId, Instance>,
    by_name: BTreeMap<String, Vec<ProviderId>>,
    incomplete: Option<String>,
}

impl Snapshot {
    /// An empty snapshot of the cloud whose provider IDs begin with `scheme`.
    pub fn new(scheme: impl Into<String>) -> Self {
        Self { scheme: scheme.into(), by_id: BTreeMap::new(), by_name: BTreeMap::new(), incomplete: None }
    }

    /// Adds an instance under the names by which a Node without a provider ID may be recognised. The same instance
    /// seen twice (on two pages of a list that moved) counts once; the later sight wins.
    pub fn insert(&mut self, instance: Instance, names: impl IntoIterator<Item = String>) {
        let Some(id) = instance.provider_id.clone() else { return };
        for name in names {
            let known = self.by_name.entry(name).or_default();
            if !known.contains(&id) {
                known.push(id.clone());
            }
        }
        self.by_id.insert(id, instance);
    }

    /// Says that the listing stopped before its end: what was seen exists, what was not seen is unknown.
    pub fn mark_incomplete(&mut self, why: impl Into<String>) {
        self.incomplete = Some(why.into());
    }

    /// How many instances were seen.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether none was seen.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The answer for one node.
    pub fn answer(&self, node: &NodeRef) -> Existence {
        match node.provider_id.as_deref() {
            Some(text) => self.by_provider_id(text),
            None => self.by_node_name(&node.name),
        }
    }

    /// One answer per node, in the order asked.
    pub fn answers(&self, nodes: &[NodeRef]) -> Vec<Existence> {
        nodes.iter().map(|node| self.answer(node)).collect()
    }

    fn by_provider_id(&self, text: &str) -> Existence {
        let ours = text.strip_prefix(&self.scheme).is_some_and(|rest| rest.starts_with("://"));
        if !ours {
            return Existence::NotMine;
        }
        match text.parse::<ProviderId>() {
            Ok(id) => self
                .by_id
                .get(&id)
                .map_or_else(|| self.unseen(), |instance| Existence::Found(Box::new(instance.clone()))),
            Err(error) => Existence::Unknown(Doubt::BadProviderId(error.to_string())),
        }
    }

    fn by_node_name(&self, name: &str) -> Existence {
        let ids = self.by_name.get(name).map_or(&[][..], Vec::as_slice);
        match ids {
            [] => self.unseen(),
            [id] => self.by_provider_id(id.as_str()),
            several => {
                Existence::Unknown(Doubt::Ambiguous(several.iter().map(ToString::to_string).collect()))
            }
        }
    }

    fn unseen(&self) -> Existence {
        if let Some(why) = &self.incomplete {
            return Existence::Unknown(Doubt::Incomplete(why.clone()));
        }
        match NonZeroUsize::new(self.by_id.len()) {
            Some(listed) => Existence::Absent(Evidence::NotListed { listed }),
            None => Existence::Unknown(Doubt::EmptyInventory),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, provider_id: Option<&str>) -> NodeRef {
        NodeRef { name: name.into(), provider_id: provider_id.map(str::to_owned), ..NodeRef::default() }
    }

    fn snapshot(ids: &[(&str, &str)]) -> Snapshot {
        let mut snapshot = Snapshot::new("fake");
        for (id, name) in ids {
            snapshot.insert(Instance::new(id.parse().unwrap()), [(*name).to_owned()]);
        }
        snapshot
    }

    #[test]
    fn a_listed_instance_is_found_by_provider_id_and_without_one_by_name() {
        let seen = snapshot(&[("fake://1", "a"), ("fake://2", "b")]);
        for asked in [node("renamed", Some("fake://1")), node("a", None)] {
            let Existence::Found(instance) = seen.answer(&asked) else { panic!("not found: {asked:?}") };
            assert_eq!(instance.provider_id.unwrap().as_str(), "fake://1");
        }
    }

    #[test]
    fn absence_needs_a_complete_and_non_empty_list() {
        let asked = node("gone", Some("fake://9"));
        let complete = snapshot(&[("fake://1", "a")]);
        assert!(
            matches!(complete.answer(&asked), Existence::Absent(Evidence::NotListed { listed }) if listed.get() == 1)
        );

        let mut short = snapshot(&[("fake://1", "a")]);
        short.mark_incomplete("page 2 failed");
        assert!(matches!(short.answer(&asked), Existence::Unknown(Doubt::Incomplete(_))));
        assert!(
            matches!(short.answer(&node("a", Some("fake://1"))), Existence::Found(_)),
            "presence stays usable"
        );

        assert!(matches!(snapshot(&[]).answer(&asked), Existence::Unknown(Doubt::EmptyInventory)));
    }

    #[test]
    fn a_foreign_scheme_is_not_ours_and_a_broken_id_of_ours_is_unknown() {
        let seen = snapshot(&[("fake://1", "a")]);
        assert!(matches!(seen.answer(&node("a", Some("aws:///z/i-1"))), Existence::NotMine));
        assert!(matches!(seen.answer(&node("a", Some("fakery://1"))), Existence::NotMine));
        assert!(matches!(
            seen.answer(&node("a", Some("fake://"))),
            Existence::Unknown(Doubt::BadProviderId(_))
        ));
    }

    #[test]
    fn two_instances_of_one_name_are_ambiguous_and_one_seen_twice_is_not() {
        let twice = snapshot(&[("fake://1", "a"), ("fake://1", "a")]);
        assert!(matches!(twice.answer(&node("a", None)), Existence::Found(_)));
        let clones = snapshot(&[("fake://1", "a"), ("fake://2", "a")]);
        let Existence::Unknown(doubt) = clones.answer(&node("a", None)) else { panic!("not ambiguous") };
        assert_eq!(doubt.to_string(), "2 instances match this node: fake://1, fake://2");
    }
}
