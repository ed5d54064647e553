//! The decision at the heart of leader election, without clocks and calls: client-go's algorithm.

use std::time::Duration;

use tokio::time::Instant;

use super::record::Record;

/// What a candidate knows of the lease: what it last said and since when it says so.
///
/// Expiry counts from the moment this process saw the record change, on its own monotonic clock. The times in the record
/// play no part, so clocks of machines may differ and jump.
#[derive(Debug, Clone)]
pub struct View {
    record: Option<Record>,
    exists: bool,
    since: Instant,
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// There is no Lease: create it with us as the holder.
    Create,
    /// Nobody holds it or its holder let it expire: write ourselves in.
    Take,
    /// It is ours: renew it.
    Renew,
    /// It is another's until then, unless it changes.
    Wait {
        /// When it will have expired if nothing changes.
        until: Instant,
    },
}

impl View {
    /// Nothing was seen yet.
    pub fn new(now: Instant) -> Self {
        Self { record: None, exists: false, since: now }
    }

    /// The lease was read and says `record`. Returns whether that is news; only news prolongs the holder's time.
    pub fn see(&mut self, record: Record, now: Instant) -> bool {
        self.exists = true;
        let news = self.record.as_ref() != Some(&record);
        if news {
            self.record = Some(record);
            self.since = now;
        }
        news
    }

    /// There was no Lease. What its last holder was promised still counts: somebody may have deleted the object under
    /// a holder that has not noticed yet.
    pub fn see_nothing(&mut self) {
        self.exists = false;
    }

    /// What the lease said last.
    pub fn record(&self) -> Option<&Record> {
        self.record.as_ref()
    }

    /// Whether the object existed when it was last looked for.
    pub fn exists(&self) -> bool {
        self.exists
    }

    /// Whether `identity` holds it by what was last seen, expired or not.
    pub fn is_held_by(&self, identity: &str) -> bool {
        self.record.as_ref().is_some_and(|record| record.holder == identity)
    }

    /// When the last record seen expires.
    pub fn expires(&self) -> Instant {
        let seconds = self.record.as_ref().map_or(0, |record| record.lease_seconds);
        self.since + Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
    }
}

/// What the candidate `me` should do, given what it knows.
pub fn decide(me: &str, view: &View, now: Instant) -> Decision {
    let ours = view.is_held_by(me);
    let held = view.record().is_some_and(|record| !record.holder.is_empty());
    if held && !ours && now < view.expires() {
        return Decision::Wait { until: view.expires() };
    }
    match (view.exists(), ours) {
        (false, _) => Decision::Create,
        (true, true) => Decision::Renew,
        (true, false) => Decision::Take,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const LEASE: i32 = 15;

    fn held_by(holder: &str, renewed: &str) -> Record {
        Record {
            holder: holder.into(),
            lease_seconds: LEASE,
            renewed: Some(renewed.into()),
            ..Record::default()
        }
    }

    /// The facts of client-go's own table, by their names there.
    ///
    /// Proves: APP-28
    #[rstest]
    #[case::acquire_from_no_object(None, 0, Decision::Create)]
    #[case::acquire_from_unled_object(Some(Record::default()), 0, Decision::Take)]
    #[case::acquire_from_led_unacked_object(Some(held_by("bing", "1")), 15, Decision::Take)]
    #[case::acquire_from_empty_led_acked_object(Some(held_by("", "1")), 0, Decision::Take)]
    #[case::renew_already_acquired_object(Some(held_by("baz", "1")), 1, Decision::Renew)]
    #[case::renew_own_object_after_expiry(Some(held_by("baz", "1")), 100, Decision::Renew)]
    #[case::acquire_when_the_duration_is_not_set(
        Some(Record { holder: "bing".into(), ..Record::default() }), 0, Decision::Take
    )]
    #[tokio::test(start_paused = true)]
    async fn a_free_or_expired_lease_is_taken(
        #[case] seen: Option<Record>,
        #[case] age: u64,
        #[case] expected: Decision,
    ) {
        let now = Instant::now();
        let mut view = View::new(now);
        if let Some(record) = seen {
            assert!(view.see(record, now));
        }
        assert_eq!(decide("baz", &view, now + Duration::from_secs(age)), expected);
    }

    /// Proves: APP-28
    #[tokio::test(start_paused = true)]
    async fn a_held_lease_is_left_alone_until_it_was_not_seen_to_change_for_its_duration() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut view = View::new(start);
        assert!(view.see(held_by("bing", "1"), start));
        assert_eq!(decide("baz", &view, at(14_999)), Decision::Wait { until: at(15_000) });
        // Seeing the same again is no sign of life; seeing another time in it is, whatever that time says.
        assert!(!view.see(held_by("bing", "1"), at(10_000)));
        assert_eq!(decide("baz", &view, at(15_000)), Decision::Take);
        assert!(view.see(held_by("bing", "0"), at(14_000)));
        assert_eq!(decide("baz", &view, at(28_999)), Decision::Wait { until: at(29_000) });
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_deleted_under_its_holder_is_not_taken_before_it_would_have_expired() {
        let start = Instant::now();
        let mut view = View::new(start);
        view.see(held_by("bing", "1"), start);
        view.see_nothing();
        assert_eq!(decide("baz", &view, start), Decision::Wait { until: start + Duration::from_secs(15) });
        assert_eq!(decide("baz", &view, start + Duration::from_secs(15)), Decision::Create);
        assert_eq!(decide("bing", &view, start), Decision::Create, "its holder puts it back");
    }

    #[tokio::test(start_paused = true)]
    async fn a_negative_duration_is_no_duration() {
        let now = Instant::now();
        let mut view = View::new(now);
        view.see(Record { lease_seconds: -5, ..held_by("bing", "1") }, now);
        assert_eq!(decide("baz", &view, now), Decision::Take);
    }
}
