//! The pure parts: what news mean for the store, and how a listener's mail is merged.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use proptest::prelude::*;

use super::listener::{Change, Listener, Mailbox};
use super::store::{Delta, Listing, Store};
use super::*;

fn object(name: &str, uid: &str, version: u64) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    object.metadata.namespace = Some("ns".to_owned());
    object.metadata.uid = Some(uid.to_owned());
    object.metadata.resource_version = Some(version.to_string());
    object
}

fn words(object: &ConfigMap) -> String {
    format!("{}@{}", object.uid().unwrap(), object.resource_version().unwrap())
}

fn listing(version: u64, objects: &[ConfigMap]) -> Listing<ConfigMap> {
    let objects = objects.iter().map(|object| (Key::of(object), Arc::new(object.clone()))).collect();
    Listing { objects, resource_version: version.to_string() }
}

fn said(deltas: &[Delta<ConfigMap>]) -> Vec<String> {
    let tell = |delta: &Delta<ConfigMap>| match delta {
        Delta::Added(object) => format!("+{}", words(object)),
        Delta::Updated { old, new } => format!("{}>{}", words(old), words(new)),
        Delta::Deleted(object) => format!("-{}", words(object)),
    };
    deltas.iter().map(tell).collect()
}

#[test]
fn a_same_named_object_with_another_uid_is_an_end_and_a_beginning() {
    let mut store = Store::default();
    assert_eq!(said(&store.replace(listing(5, &[object("a", "A", 3)]))), ["+A@3"]);
    assert_eq!(said(&store.replace(listing(9, &[object("a", "B", 8)]))), ["-A@3", "+B@8"]);
    assert_eq!(said(&store.apply(object("a", "C", 12))), ["-B@8", "+C@12"]);
}

#[test]
fn a_list_ends_what_it_lacks_and_leaves_alone_what_did_not_change() {
    let mut store = Store::default();
    store.replace(listing(5, &[object("a", "A", 1), object("b", "B", 2), object("c", "C", 3)]));
    let deltas = store.replace(listing(7, &[object("a", "A", 1), object("c", "C", 6)]));
    assert_eq!(said(&deltas), ["-B@2", "C@3>C@6"]);
}

#[test]
fn older_news_than_the_store_change_nothing() {
    let mut store = Store::default();
    store.replace(listing(10, &[object("a", "A", 7)]));
    assert!(store.is_behind("9") && !store.is_behind("10") && !store.is_behind("abc"));
    assert_eq!(said(&store.apply(object("a", "A", 6))), [""; 0], "an older version of a known object");
    assert_eq!(said(&store.apply(object("a", "A", 7))), [""; 0], "the same version");
    assert_eq!(
        said(&store.apply(object("b", "B", 9))),
        [""; 0],
        "an object from before the list, deleted since"
    );
    assert_eq!(said(&store.apply(object("a", "Z", 9))), [""; 0], "an earlier holder of the name");
    assert_eq!(
        said(&store.delete(object("a", "Z", 11))),
        [""; 0],
        "the end of an earlier holder of the name"
    );
    assert_eq!(said(&store.apply(object("a", "A", 12))), ["A@7>A@12"]);
}

#[test]
fn a_bookmark_moves_the_present() {
    let mut store = Store::<ConfigMap>::default();
    store.reach("20");
    assert!(store.is_behind("19"));
}

#[test]
fn versions_that_are_no_numbers_are_taken_as_they_come() {
    let mut store = Store::default();
    let mut first = object("a", "A", 1);
    first.metadata.resource_version = Some("x9".into());
    let mut second = first.clone();
    second.metadata.resource_version = Some("x1".into());
    store.apply(first);
    assert_eq!(said(&store.apply(second)), ["A@x9>A@x1"]);
}

#[test]
fn a_rewound_storage_is_believed_as_a_whole() {
    let mut store = Store::default();
    store.replace(listing(50, &[object("a", "A", 40), object("b", "B", 45)]));
    let deltas = store.rewind(listing(30, &[object("a", "A", 20), object("c", "C", 25)]));
    assert_eq!(said(&deltas), ["-B@45", "A@40>A@20", "+C@25"]);
    assert_eq!(said(&store.apply(object("a", "A", 31))), ["A@20>A@31"]);
}

fn read_all(listener: &mut Listener<ConfigMap>) -> Vec<String> {
    std::iter::from_fn(|| listener.try_next())
        .map(|change| match change {
            Change::Added(object) => said(&[Delta::Added(object)]).remove(0),
            Change::Updated { old, new } => said(&[Delta::Updated { old, new }]).remove(0),
            Change::Deleted(object) => said(&[Delta::Deleted(object)]).remove(0),
            Change::Synced => "synced".to_owned(),
        })
        .collect()
}

fn mailbox() -> (Arc<Mailbox<ConfigMap>>, Listener<ConfigMap>) {
    let mailbox = Arc::new(Mailbox::default());
    (mailbox.clone(), Listener::new(mailbox))
}

/// Posts what the store makes of a life of one name: `Some` exists as (UID, version), `None` is gone.
fn live(mailbox: &Mailbox<ConfigMap>, store: &mut Store<ConfigMap>, version: u64, state: Option<&str>) {
    let objects: Vec<_> = state.map(|uid| object("a", uid, version)).into_iter().collect();
    for delta in store.replace(listing(version, &objects)) {
        mailbox.post(delta);
    }
}

#[test]
fn a_slow_listener_reads_merged_changes() {
    let (post, mut listener) = mailbox();
    let mut store = Store::default();
    let mut then = |version, state| live(&post, &mut store, version, state);
    then(1, Some("A"));
    then(2, Some("A"));
    assert_eq!(read_all(&mut listener), ["+A@2"]);
    then(3, Some("A"));
    then(4, Some("A"));
    assert_eq!(read_all(&mut listener), ["A@2>A@4"]);
    then(5, Some("A"));
    then(6, None);
    assert_eq!(read_all(&mut listener), ["-A@5"], "with the last version anybody saw");
    then(7, Some("B"));
    then(8, None);
    assert_eq!(read_all(&mut listener), [""; 0], "what came and went unseen never was");
    then(9, Some("C"));
    assert_eq!(read_all(&mut listener), ["+C@9"]);
    then(10, None);
    then(11, Some("D"));
    then(12, None);
    then(13, Some("E"));
    then(14, Some("E"));
    assert_eq!(read_all(&mut listener), ["-C@9", "+E@14"]);
}

#[test]
fn the_backlog_of_a_listener_that_never_reads_stays_bounded() {
    let (post, listener) = mailbox();
    let mut store = Store::default();
    for round in 0..10_000_u64 {
        let name = format!("n{round}");
        for delta in store.apply(object(&name, &name, 2 * round + 1)) {
            post.post(delta);
        }
        for delta in store.delete(object(&name, &name, 2 * round + 2)) {
            post.post(delta);
        }
    }
    assert_eq!(listener.backlog(), 0);
}

proptest! {
    /// Whatever happens to three names and whenever the listener reads: its picture follows by valid steps and ends
    /// as the store's.
    #[test]
    fn a_listener_never_sees_a_wrong_chain(
        steps in proptest::collection::vec((0_usize..3, 0_u8..4, 0_usize..4), 1..80),
    ) {
        let (post, mut listener) = mailbox();
        let mut store = Store::<ConfigMap>::default();
        let mut picture: BTreeMap<String, Arc<ConfigMap>> = BTreeMap::new();
        let mut version = 0;
        let mut uids = 0;
        let read = |listener: &mut Listener<ConfigMap>, picture: &mut BTreeMap<String, Arc<ConfigMap>>, most| {
            for _ in 0..most {
                match listener.try_next() {
                    None => break,
                    Some(Change::Synced) => {}
                    Some(Change::Added(new)) => {
                        prop_assert!(picture.insert(new.name_any(), new).is_none(), "added twice");
                    }
                    Some(Change::Updated { old, new }) => {
                        let known = picture.insert(new.name_any(), new.clone());
                        prop_assert_eq!(known.as_deref(), Some(old.as_ref()), "old is what was told last");
                        prop_assert_eq!(old.uid(), new.uid());
                    }
                    Some(Change::Deleted(last)) => {
                        let known = picture.remove(&last.name_any()).expect("deleted what was never told");
                        prop_assert_eq!(known.uid(), last.uid());
                    }
                }
            }
            Ok(())
        };
        for (name, what, reads) in steps {
            version += 1;
            let name = ["a", "b", "c"][name];
            let key = Key::namespaced("ns", name);
            let uid = store.get(&key).and_then(|object| object.uid());
            let deltas = match (what, uid) {
                (0, Some(uid)) => store.delete(object(name, &uid, version)),
                (1, _) | (_, None) => {
                    uids += 1;
                    store.apply(object(name, &format!("u{uids}"), version))
                }
                (_, Some(uid)) => store.apply(object(name, &uid, version)),
            };
            for delta in deltas {
                post.post(delta);
            }
            prop_assert!(listener.backlog() <= 6);
            read(&mut listener, &mut picture, reads)?;
        }
        read(&mut listener, &mut picture, usize::MAX)?;
        let told: Vec<_> = picture.values().cloned().collect();
        prop_assert_eq!(told, store.list());
    }
}
