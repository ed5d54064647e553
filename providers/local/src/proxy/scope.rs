//! What all connections of one balancer share: its settings, its counters, its limit, and the wire that ends them.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Shared, lock};
use crate::health::Round;
use crate::intent::Settings;

/// A problem that was not seen for this long is over: longer than anything waits before it is tried again.
const PROBLEM_HOLDS: Duration = Duration::from_secs(120);

/// What all connections of one balancer share.
#[derive(Debug)]
pub(super) struct Scope {
    /// What all balancers share.
    pub(super) shared: Arc<Shared>,
    settings: watch::Sender<Arc<Settings>>,
    names: Mutex<Names>,
    /// The counters.
    pub(super) counters: Counters,
    /// Ends everything of this balancer.
    pub(super) closed: CancellationToken,
    /// Why the client's address is not kept although it should be, and when that was seen last.
    address_not_kept: Mutex<Option<(String, Instant)>>,
}

/// Which Service it is, for logs and metrics.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Names {
    /// The Service's namespace.
    pub(super) namespace: String,
    /// The Service's name.
    pub(super) name: String,
}

/// What one balancer did since it came.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// TCP connections and UDP clients that it has now.
    pub(super) active: AtomicU64,
    /// TCP connections and UDP clients that were let in.
    pub(super) accepted: AtomicU64,
    /// Those that were not, because of where they came from.
    pub(super) refused_source: AtomicU64,
    /// Those that were not, because the limit was reached.
    pub(super) refused_limit: AtomicU64,
    /// Those that were let in, and no backend took them.
    pub(super) unserved: AtomicU64,
    /// Bytes from clients to backends.
    pub(super) received: AtomicU64,
    /// Bytes from backends to clients.
    pub(super) sent: AtomicU64,
    /// Datagrams that were lost here because a socket was full.
    pub(super) dropped: AtomicU64,
}

/// Why a client was not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// It is in none of the source ranges.
    Source,
    /// The limit is reached.
    Limit,
}

/// A client that was let in; counted until it is dropped.
#[derive(Debug)]
pub(super) struct Ticket(Arc<Scope>);

impl Scope {
    /// A scope with nothing in it.
    pub(super) fn new(shared: Arc<Shared>, names: Names, settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            closed: shared.closed.child_token(),
            shared,
            settings: watch::Sender::new(Arc::new(settings)),
            names: Mutex::new(names),
            counters: Counters::default(),
            address_not_kept: Mutex::new(None),
        })
    }

    /// The settings in force.
    pub(super) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.borrow())
    }

    /// How its backends are asked whether they serve.
    pub(super) fn round(&self) -> Round {
        Round {
            settings: self.settings.subscribe(),
            end: self.closed.clone(),
            questions: Arc::clone(&self.shared.questions),
        }
    }

    /// Puts settings in force: for clients that come from now on.
    pub(super) fn configure(&self, settings: Settings) {
        *lock(&self.address_not_kept) = None;
        self.settings.send_replace(Arc::new(settings));
    }

    /// Which Service it is.
    pub(super) fn names(&self) -> Names {
        lock(&self.names).clone()
    }

    /// It is another one now.
    pub(super) fn rename(&self, names: Names) {
        *lock(&self.names) = names;
    }

    /// Remembers why the client's address cannot be kept. Tells whether that is news.
    pub(super) fn cannot_keep_address(&self, why: &str, now: Instant) -> bool {
        let mut seen = lock(&self.address_not_kept);
        let news = seen.as_ref().is_none_or(|(before, at)| before != why && is_past(*at, now));
        match &mut *seen {
            Some((before, at)) if before == why => *at = now,
            _ if news => *seen = Some((why.to_owned(), now)),
            _ => {}
        }
        news
    }

    /// What it should do and cannot.
    pub(super) fn problems(&self, now: Instant) -> Vec<String> {
        let seen = lock(&self.address_not_kept);
        let current = seen.iter().filter(|(_, at)| !is_past(*at, now));
        current.map(|(why, _)| format!("the client's address is not kept: {why}")).collect()
    }

    /// Lets a client in, or not.
    pub(super) fn admit(self: &Arc<Self>, client: IpAddr, settings: &Settings) -> Result<Ticket, Refused> {
        if !allows(settings, client) {
            self.counters.refused_source.fetch_add(1, Ordering::Relaxed);
            return Err(Refused::Source);
        }
        // Taken first and given back if it was one too many: two at once cannot both be the last.
        let ticket = Ticket(Arc::clone(self));
        let before = self.counters.active.fetch_add(1, Ordering::Relaxed);
        if settings.connection_limit != 0 && before >= u64::from(settings.connection_limit) {
            self.counters.refused_limit.fetch_add(1, Ordering::Relaxed);
            return Err(Refused::Limit);
        }
        self.counters.accepted.fetch_add(1, Ordering::Relaxed);
        Ok(ticket)
    }
}

/// Whether a problem that was seen then is over.
fn is_past(seen: Instant, now: Instant) -> bool {
    now.duration_since(seen) > PROBLEM_HOLDS
}

/// Whether the source ranges let this client in.
pub(super) fn allows(settings: &Settings, client: IpAddr) -> bool {
    settings.source_ranges.is_empty() || settings.source_ranges.iter().any(|range| range.contains(&client))
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.counters.active.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn scope() -> Arc<Scope> {
        let names = Names { namespace: "shop".into(), name: "web".into() };
        Scope::new(Arc::default(), names, Settings::default())
    }

    #[rstest]
    #[case(&[], "203.0.113.1", true)]
    #[case(&["10.0.0.0/8"], "10.255.0.1", true)]
    #[case(&["10.0.0.0/8"], "11.0.0.1", false)]
    #[case(&["10.0.0.0/8", "203.0.113.1/32"], "203.0.113.1", true)]
    #[case(&["10.0.0.0/8"], "2001:db8::1", false)]
    #[case(&["0.0.0.0/0"], "2001:db8::1", false)]
    #[case(&["2001:db8::/32"], "2001:db8:ffff::1", true)]
    fn source_ranges_say_who_comes_in(#[case] ranges: &[&str], #[case] client: &str, #[case] allowed: bool) {
        let source_ranges = ranges.iter().map(|range| range.parse().unwrap()).collect();
        let settings = Settings { source_ranges, ..Settings::default() };
        assert_eq!(allows(&settings, client.parse().unwrap()), allowed);
    }

    #[tokio::test(start_paused = true)]
    async fn a_problem_is_news_once_and_over_when_it_was_not_seen_for_a_while() {
        let scope = scope();
        assert!(scope.cannot_keep_address("no privilege", Instant::now()));
        tokio::time::advance(Duration::from_secs(100)).await;
        assert!(!scope.cannot_keep_address("no privilege", Instant::now()));
        tokio::time::advance(Duration::from_secs(100)).await;
        assert_eq!(scope.problems(Instant::now()), ["the client's address is not kept: no privilege"]);
        tokio::time::advance(Duration::from_secs(100)).await;
        assert!(scope.problems(Instant::now()).is_empty());
        assert!(scope.cannot_keep_address("no way back", Instant::now()));
    }

    #[test]
    fn the_limit_counts_those_who_are_here_and_not_those_who_were_refused() {
        let scope = scope();
        let settings = Settings { connection_limit: 2, ..Settings::default() };
        let client = IpAddr::from([192, 0, 2, 1]);
        let first = scope.admit(client, &settings).unwrap();
        let _second = scope.admit(client, &settings).unwrap();
        for _ in 0..3 {
            assert_eq!(scope.admit(client, &settings).unwrap_err(), Refused::Limit);
        }
        drop(first);
        let _third = scope.admit(client, &settings).unwrap();
        assert_eq!(scope.counters.active.load(Ordering::Relaxed), 2);
        assert_eq!(scope.counters.accepted.load(Ordering::Relaxed), 3);
        assert_eq!(scope.counters.refused_limit.load(Ordering::Relaxed), 3);
    }
}
