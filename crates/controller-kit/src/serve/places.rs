//! Room for so many connections. When all places are taken, a new connection gets that of the one that has been without
//! a request for longest: connections that are only held open cannot keep a kubelet's probe out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

#[derive(Debug, Clone)]
pub(super) struct Places(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    capacity: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    places: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    pulse: Pulse,
    leave: CancellationToken,
}

/// A connection's place; given back when dropped.
#[derive(Debug)]
pub(super) struct Place {
    number: u64,
    places: Places,
    /// What the connection is doing.
    pub(super) pulse: Pulse,
    /// Triggered when somebody else needs the place.
    pub(super) leave: CancellationToken,
}

impl Places {
    pub(super) fn new(capacity: usize) -> Self {
        Self(Arc::new(Inner { capacity, taken: Mutex::default() }))
    }

    /// A place, freed from the idlest connection if need be; none if all connections are busy.
    pub(super) fn take(&self) -> Option<Place> {
        let mut taken = self.lock();
        if taken.places.len() >= self.0.capacity {
            let idle =
                taken.places.iter().filter_map(|(number, entry)| Some((entry.pulse.idle_since()?, *number)));
            let (_, idlest) = idle.min()?;
            // It counts no more from now on, though its task needs a moment to end.
            taken.places.remove(&idlest)?.leave.cancel();
        }
        taken.next += 1;
        let (number, pulse, leave) = (taken.next, Pulse::new(), CancellationToken::new());
        taken.places.insert(number, Entry { pulse: pulse.clone(), leave: leave.clone() });
        Some(Place { number, places: self.clone(), pulse, leave })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().places.remove(&self.number);
    }
}

/// Whether a connection has requests under way, and since when it has none.
#[derive(Debug, Clone)]
pub(super) struct Pulse(Arc<Mutex<Beat>>);

#[derive(Debug)]
struct Beat {
    requests: usize,
    since: Instant,
}

impl Pulse {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Beat { requests: 0, since: Instant::now() })))
    }

    /// A request is under way until the answer is dropped.
    pub(super) fn request(&self) -> UnderWay {
        self.lock().requests += 1;
        UnderWay(self.clone())
    }

    /// Since when no request is under way; `None` while one is.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let beat = self.lock();
        (beat.requests == 0).then_some(beat.since)
    }

    fn lock(&self) -> MutexGuard<'_, Beat> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is under way.
#[derive(Debug)]
pub(super) struct UnderWay(Pulse);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut beat = self.0.lock();
        beat.requests -= 1;
        beat.since = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_idlest_connection_makes_room_and_a_busy_one_never() {
        let places = Places::new(3);
        let [busy, old, young] = [(); 3].map(|()| places.take().unwrap());
        let request = busy.pulse.request();
        tokio::time::advance(Duration::from_secs(1)).await;
        drop(young.pulse.request());
        let newcomer = places.take().unwrap();
        assert!(old.leave.is_cancelled() && !young.leave.is_cancelled() && !busy.leave.is_cancelled());
        let _requests = (young.pulse.request(), newcomer.pulse.request());
        assert!(places.take().is_none(), "all are busy");
        drop((request, old));
        assert!(places.take().is_some());
        assert!(busy.leave.is_cancelled());
    }

    #[tokio::test]
    async fn a_place_comes_back_when_it_is_dropped() {
        let places = Places::new(1);
        let place = places.take().unwrap();
        let _request = place.pulse.request();
        assert!(places.take().is_none());
        drop(place);
        assert!(places.take().is_some());
    }
}
