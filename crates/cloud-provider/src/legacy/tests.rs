use std::sync::Mutex;

use futures::executor::block_on;

use super::*;
use crate::well_known::address_types;

/// An old cloud whose every method can be told what to answer.
struct OldCloud {
    id: fn() -> Result<String, Error>,
    exists: fn() -> Result<bool, Error>,
    shutdown: fn() -> Result<bool, Error>,
    by_id: fn() -> Result<(), Error>,
    by_name: fn() -> Result<(), Error>,
    calls: Mutex<Vec<String>>,
}

impl Default for OldCloud {
    fn default() -> Self {
        Self {
            id: || Ok("7".into()),
            exists: || Ok(true),
            shutdown: || Ok(false),
            by_id: || Ok(()),
            by_name: || Ok(()),
            calls: Mutex::default(),
        }
    }
}

impl OldCloud {
    fn called(&self, name: &str, with: &str) {
        self.calls.lock().unwrap().push(format!("{name} {with}"));
    }
}

#[async_trait]
impl LegacyInstances for OldCloud {
    async fn node_addresses(&self, node: &str) -> Result<Vec<NodeAddress>, Error> {
        self.called("addresses", node);
        (self.by_name)()?;
        Ok(vec![NodeAddress { type_: address_types::INTERNAL_IP.into(), address: "10.0.0.2".into() }])
    }

    async fn node_addresses_by_provider_id(&self, id: &str) -> Result<Vec<NodeAddress>, Error> {
        self.called("addresses", id);
        (self.by_id)()?;
        Ok(vec![NodeAddress { type_: address_types::INTERNAL_IP.into(), address: "10.0.0.1".into() }])
    }

    async fn instance_id(&self, node: &str) -> Result<String, Error> {
        self.called("id", node);
        (self.id)()
    }

    async fn instance_type(&self, node: &str) -> Result<String, Error> {
        self.called("type", node);
        (self.by_name)()?;
        Ok("small".into())
    }

    async fn instance_type_by_provider_id(&self, id: &str) -> Result<String, Error> {
        self.called("type", id);
        (self.by_id)()?;
        Ok("small".into())
    }

    async fn instance_exists_by_provider_id(&self, id: &str) -> Result<bool, Error> {
        self.called("exists", id);
        (self.exists)()
    }

    async fn instance_shutdown_by_provider_id(&self, id: &str) -> Result<bool, Error> {
        self.called("shutdown", id);
        (self.shutdown)()
    }
}

#[async_trait]
impl LegacyZones for OldCloud {
    async fn zone_by_provider_id(&self, id: &str) -> Result<Zone, Error> {
        self.called("zone", id);
        (self.by_id)()?;
        Ok(Zone { failure_domain: "z1".into(), region: "r1".into() })
    }

    async fn zone_by_node_name(&self, node: &str) -> Result<Zone, Error> {
        self.called("zone", node);
        (self.by_name)()?;
        Ok(Zone { failure_domain: "z2".into(), region: "r2".into() })
    }
}

fn node(provider_id: Option<&str>) -> NodeRef {
    NodeRef { name: "a".into(), provider_id: provider_id.map(str::to_owned), ..NodeRef::default() }
}

fn ask(cloud: OldCloud, provider_id: Option<&str>) -> (Existence, Vec<String>) {
    let cloud = Arc::new(cloud);
    let legacy = Legacy::new("old", Arc::clone(&cloud) as _).with_zones(Arc::clone(&cloud) as _);
    let mut answers = block_on(legacy.lookup(&[node(provider_id)], Freshness::Now)).unwrap();
    let calls = cloud.calls.lock().unwrap().clone();
    (answers.remove(0), calls)
}

fn found(existence: Existence) -> Instance {
    match existence {
        Existence::Found(instance) => *instance,
        other => panic!("expected an instance, got {other:?}"),
    }
}

/// Proves: IFACE-20, IFACE-22, IFACE-26, IFACE-27, NODE-39
#[test]
fn a_node_without_a_provider_id_is_found_by_name_and_then_asked_for_by_id() {
    let (answer, calls) = ask(OldCloud::default(), None);
    let instance = found(answer);
    assert_eq!(instance.provider_id.unwrap().as_str(), "old://7");
    assert_eq!((instance.zone.as_deref(), instance.region.as_deref()), (Some("z1"), Some("r1")));
    assert_eq!((instance.instance_type.as_deref(), instance.power), (Some("small"), Power::On));
    assert_eq!(
        calls,
        ["id a", "exists old://7", "shutdown old://7", "addresses old://7", "type old://7", "zone old://7"]
    );
}

/// Proves: IFACE-21, IFACE-24
#[test]
fn only_a_plain_no_is_absence() {
    let gone = OldCloud { exists: || Ok(false), ..OldCloud::default() };
    assert!(matches!(ask(gone, Some("old://7")).0, Existence::Absent(Evidence::NotFound { .. })));
    let unknown_name = OldCloud { id: || Err(Error::not_found("looking for a")), ..OldCloud::default() };
    assert!(matches!(ask(unknown_name, None).0, Existence::Absent(_)));

    let failing: [fn() -> Result<bool, Error>; 4] = [
        || Err(Error::other("timeout")),
        || Err(Error::unauthorized("401")),
        || Err(Error::throttled(None, "429")),
        || Err(Error::invalid_config("no region")),
    ];
    for exists in failing {
        let answer = ask(OldCloud { exists, ..OldCloud::default() }, Some("old://7")).0;
        assert!(matches!(answer, Existence::Unknown(Doubt::Failed(_))), "{answer:?}");
    }
    let unauthorised = OldCloud { id: || Err(Error::unauthorized("401")), ..OldCloud::default() };
    assert!(matches!(ask(unauthorised, None).0, Existence::Unknown(_)));
}

/// Proves: IFACE-24, IFACE-25
#[test]
fn a_stopped_instance_exists_and_a_cloud_that_cannot_tell_counts_as_running() {
    let stopped = OldCloud { shutdown: || Ok(true), ..OldCloud::default() };
    assert_eq!(found(ask(stopped, Some("old://7")).0).power, Power::Off);
    let mute = OldCloud { shutdown: || Err(Error::not_implemented("shutdown")), ..OldCloud::default() };
    assert_eq!(found(ask(mute, Some("old://7")).0).power, Power::Untold);
    let broken = OldCloud { shutdown: || Err(Error::other("timeout")), ..OldCloud::default() };
    assert!(matches!(ask(broken, Some("old://7")).0, Existence::Unknown(_)));
}

/// Proves: NODE-38
#[test]
fn what_fails_by_id_is_asked_for_by_name_and_two_failures_name_both() {
    let by_name = OldCloud { by_id: || Err(Error::other("no such call")), ..OldCloud::default() };
    let instance = found(ask(by_name, Some("old://7")).0);
    assert_eq!((instance.addresses[0].address.as_str(), instance.zone.as_deref()), ("10.0.0.2", Some("z2")));

    let neither = OldCloud {
        by_id: || Err(Error::not_found("by id")),
        by_name: || Err(Error::not_found("by name")),
        ..OldCloud::default()
    };
    let Existence::Unknown(Doubt::Failed(error)) = ask(neither, Some("old://7")).0 else {
        panic!("not unknown")
    };
    assert_eq!(error.report(), "getting the addresses of node a by provider ID (by id) and by name: by name");
}

/// Proves: IFACE-23, NODE-37
#[test]
fn a_cloud_without_instance_ids_still_answers_by_name() {
    let nameless = OldCloud { id: || Err(Error::not_implemented("instance ID")), ..OldCloud::default() };
    let (answer, calls) = ask(nameless, None);
    let instance = found(answer);
    assert_eq!(instance.provider_id, None);
    assert_eq!(instance.addresses[0].address, "10.0.0.2");
    assert_eq!(calls, ["id a", "addresses a", "type a", "zone a"]);
}

#[test]
fn a_foreign_node_is_not_asked_for_at_all() {
    let (answer, calls) = ask(OldCloud::default(), Some("aws:///z/i-1"));
    assert!(matches!(answer, Existence::NotMine));
    assert!(calls.is_empty());
}

#[test]
fn one_broken_node_leaves_the_others_their_answers_in_order() {
    let legacy = Legacy::new("old", Arc::new(OldCloud::default()));
    let asked: Vec<NodeRef> =
        [Some("old://1"), Some("aws://x"), Some("old://"), Some("old://2")].map(node).into();
    let answers = block_on(legacy.lookup(&asked, Freshness::Recent)).unwrap();
    assert!(matches!(answers[0], Existence::Found(_)));
    assert!(matches!(answers[1], Existence::NotMine));
    assert!(matches!(answers[2], Existence::Unknown(_)));
    assert!(matches!(answers[3], Existence::Found(_)));
}
