//! The Lease object and the record of leadership in it.
//!
//! INVARIANT: the record is written as client-go writes it, so that a Go manager and this one can hand the same lease to
//! each other. Everything in the object that is not ours (labels, annotations, fields of later versions) is kept: an
//! update replaces the whole object, so it is held as JSON and not as a struct that would drop what it does not know.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// Who holds the lease, as the object says.
///
/// The times are text: they are carried on and compared for equality, never read. Whether a lease has expired is judged by
/// how long ago *we* saw it change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// The holder's identity; empty if it was released.
    pub holder: String,
    /// For how many seconds after a renewal others must wait.
    pub lease_seconds: i32,
    /// When the holder acquired it.
    pub acquired: Option<String>,
    /// When the holder last renewed it.
    pub renewed: Option<String>,
    /// How often the holder changed.
    pub transitions: i32,
}

impl Record {
    /// The record with which `me` acquires or renews the lease that `last` describes.
    pub fn claim(me: &str, lease_seconds: i32, last: Option<&Record>, now: Timestamp) -> Record {
        let stamp = stamp(now, last.and_then(|last| last.renewed.as_deref()));
        let (acquired, transitions) = match last {
            Some(last) if last.holder == me => (last.acquired.clone(), last.transitions),
            Some(last) => (Some(stamp.clone()), last.transitions.saturating_add(1)),
            None => (Some(stamp.clone()), 0),
        };
        Record { holder: me.to_owned(), lease_seconds, acquired, renewed: Some(stamp), transitions }
    }

    /// The record that gives the lease up: no holder, and a lease that ends at once.
    pub fn release(last: &Record, now: Timestamp) -> Record {
        let stamp = stamp(now, last.renewed.as_deref());
        Record {
            holder: String::new(),
            lease_seconds: 1,
            acquired: Some(stamp.clone()),
            renewed: Some(stamp),
            transitions: last.transitions,
        }
    }
}

/// The time of a write, as Kubernetes writes it. Never the one of the write before it, even if the wall clock stands still
/// or is set back a little: a renewal that changes nothing is no write to the API server, and others would not see that
/// we live.
fn stamp(now: Timestamp, last: Option<&str>) -> String {
    let Some(last) = last.and_then(|last| last.parse::<Timestamp>().ok()) else { return micro_time(now) };
    let ahead = last.duration_since(now);
    // A clock that was set back further is believed: no later stamp will meet an earlier one but by chance.
    if ahead <= -MICROSECOND || ahead > SignedDuration::from_secs(1) {
        return micro_time(now);
    }
    micro_time(last.saturating_add(MICROSECOND).unwrap_or(now))
}

const MICROSECOND: SignedDuration = SignedDuration::from_micros(1);

/// INVARIANT: exactly six digits after the second, as metav1.MicroTime.
fn micro_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// A Lease object, whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Lease(Value);

impl Lease {
    /// A Lease that does not exist yet.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": { "namespace": namespace, "name": name },
        }))
    }

    /// A Lease as the API server sent it.
    pub fn from_json(object: Value) -> Self {
        Self(object)
    }

    /// The object.
    pub fn as_json(&self) -> &Value {
        &self.0
    }

    /// The version it was read at, which guards its update.
    pub fn resource_version(&self) -> Option<&str> {
        self.0["metadata"]["resourceVersion"].as_str()
    }

    /// What it says about leadership. Absent or malformed fields read as zero, as in client-go.
    pub fn record(&self) -> Record {
        let spec = &self.0["spec"];
        let text = |field: &str| spec[field].as_str().map(str::to_owned);
        let number = |field: &str| spec[field].as_i64().and_then(|n| i32::try_from(n).ok()).unwrap_or(0);
        Record {
            holder: text("holderIdentity").unwrap_or_default(),
            lease_seconds: number("leaseDurationSeconds"),
            acquired: text("acquireTime"),
            renewed: text("renewTime"),
            transitions: number("leaseTransitions"),
        }
    }

    /// The same object with another record.
    #[must_use]
    pub fn with_record(&self, record: &Record) -> Self {
        let mut object = self.0.clone();
        if !object["spec"].is_object() {
            object["spec"] = json!({});
        }
        let spec = &mut object["spec"];
        spec["holderIdentity"] = json!(record.holder);
        spec["leaseDurationSeconds"] = json!(record.lease_seconds);
        spec["acquireTime"] = json!(record.acquired);
        spec["renewTime"] = json!(record.renewed);
        spec["leaseTransitions"] = json!(record.transitions);
        Self(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// A Lease as client-go 0.36 leaves it, with things in it that we know nothing of.
    fn from_go() -> Lease {
        Lease::from_json(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {
                "name": "cloud-controller-manager", "namespace": "kube-system", "resourceVersion": "812",
                "annotations": { "team": "infra" }, "labels": { "a": "b" },
            },
            "spec": {
                "holderIdentity": "cp-1_4b0c", "leaseDurationSeconds": 15, "leaseTransitions": 3,
                "acquireTime": "2026-11-15T09:00:00.000000Z", "renewTime": "2026-11-15T10:11:12.000340Z",
                "strategy": "OldestEmulationVersion", "preferredHolder": "cp-2", "fromTheFuture": { "x": 1 },
            },
        }))
    }

    /// Proves: APP-27
    #[test]
    fn taking_a_lease_over_counts_a_transition_and_keeps_what_is_not_ours() {
        let taken = Record::claim("me", 15, Some(&from_go().record()), at("2026-11-15T10:11:30.5Z"));
        let mut expected = from_go().as_json().clone();
        for (field, value) in [
            ("holderIdentity", json!("me")),
            ("leaseTransitions", json!(4)),
            ("acquireTime", json!("2026-11-15T10:11:30.500000Z")),
            ("renewTime", json!("2026-11-15T10:11:30.500000Z")),
        ] {
            expected["spec"][field] = value;
        }
        assert_eq!(from_go().with_record(&taken).as_json(), &expected);
    }

    /// Proves: APP-27
    #[test]
    fn renewing_changes_the_renew_time_alone() {
        let last = from_go().record();
        let renewed = Record::claim("cp-1_4b0c", 15, Some(&last), at("2026-11-15T10:11:14Z"));
        assert_eq!(renewed, Record { renewed: Some("2026-11-15T10:11:14.000000Z".into()), ..last });
    }

    #[test]
    fn a_first_lease_has_no_transitions_and_both_times_alike() {
        let first = Record::claim("me", 15, None, at("2026-11-15T10:00:00.123456789Z"));
        let stamp = Some("2026-11-15T10:00:00.123456Z".to_owned());
        assert_eq!((first.transitions, &first.acquired, &first.renewed), (0, &stamp, &stamp));
        let object = Lease::new("kube-system", "ccm").with_record(&first);
        assert_eq!(object.record(), first);
        assert_eq!(object.resource_version(), None);
    }

    #[test]
    fn a_release_names_nobody_for_one_second() {
        let released = Record::release(&from_go().record(), at("2026-11-15T10:12:00Z"));
        let stamp = Some("2026-11-15T10:12:00.000000Z".to_owned());
        let expected = Record {
            holder: String::new(),
            lease_seconds: 1,
            acquired: stamp.clone(),
            renewed: stamp,
            transitions: 3,
        };
        assert_eq!(released, expected);
        let spec = from_go().with_record(&released).as_json()["spec"].clone();
        assert_eq!((&spec["holderIdentity"], &spec["fromTheFuture"]["x"]), (&json!(""), &json!(1)));
    }

    #[test]
    fn two_renewals_are_never_alike_even_when_the_wall_clock_stands_still() {
        let now = at("2026-11-15T10:00:00Z");
        let first = Record::claim("me", 15, None, now);
        let second = Record::claim("me", 15, Some(&first), now);
        let third = Record::claim("me", 15, Some(&second), now);
        assert_eq!(second.renewed.as_deref(), Some("2026-11-15T10:00:00.000001Z"));
        assert_eq!(third.renewed.as_deref(), Some("2026-11-15T10:00:00.000002Z"));
        let set_back = Record::claim("me", 15, Some(&third), at("2026-11-15T09:00:00Z"));
        assert_eq!(set_back.renewed.as_deref(), Some("2026-11-15T09:00:00.000000Z"));
    }

    #[test]
    fn times_have_exactly_six_digits_on_either_side_of_the_epoch() {
        for (time, text) in [
            ("1969-12-31T23:59:59.25Z", "1969-12-31T23:59:59.250000Z"),
            ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000000Z"),
            ("2026-01-01T00:00:00.0000009Z", "2026-01-01T00:00:00.000000Z"),
        ] {
            assert_eq!(micro_time(at(time)), text);
        }
    }

    #[test]
    fn an_object_without_spec_has_an_empty_record() {
        assert_eq!(Lease::new("a", "b").record(), Record::default());
        let odd =
            Lease::from_json(json!({ "spec": { "leaseDurationSeconds": "15", "leaseTransitions": 1e30 } }));
        assert_eq!(odd.record(), Record::default());
    }
}
