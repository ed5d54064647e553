//! How long a failed key waits: a per-key exponential back-off and, over all keys, a token bucket. The longer of
//! the two counts. Pure: the time is an argument.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// How failures are slowed down.
///
/// The default is upstream's for controllers: 5 ms doubling to 1000 s per key, and 10 a second with a burst of 100
/// over all keys.
#[derive(Debug, Clone, PartialEq)]
pub struct RateLimits {
    /// What a key waits after its first failure; doubles with each further one.
    pub base: Duration,
    /// What a key waits at most.
    pub max: Duration,
    /// The budget that all keys share, if there is one.
    pub bucket: Option<Bucket>,
}

/// A token bucket: `burst` at once, then `per_second`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    /// Tokens that come back each second.
    pub per_second: f64,
    /// Tokens that can be saved up.
    pub burst: u32,
}

impl Default for RateLimits {
    fn default() -> Self {
        Self {
            base: Duration::from_millis(5),
            max: Duration::from_secs(1000),
            bucket: Some(Bucket { per_second: 10.0, burst: 100 }),
        }
    }
}

impl RateLimits {
    /// Per-key back-off alone, without a shared bucket: what the service controller uses (5 s to 300 s).
    pub fn backoff(base: Duration, max: Duration) -> Self {
        Self { base, max, bucket: None }
    }

    /// What a key waits after `failures` earlier failures.
    pub fn delay_after(&self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures);
        factor.and_then(|factor| self.base.checked_mul(factor)).map_or(self.max, |delay| delay.min(self.max))
    }
}

/// The limits with their memory: failures per key and the fill of the bucket.
#[derive(Debug)]
pub(super) struct Limiter<K> {
    limits: RateLimits,
    failures: BTreeMap<K, u32>,
    /// Below zero when waits were promised ahead, as golang.org/x/time/rate reserves.
    tokens: f64,
    filled_at: Instant,
}

impl<K: Clone + Ord> Limiter<K> {
    pub(super) fn new(limits: RateLimits, now: Instant) -> Self {
        let tokens = limits.bucket.map_or(0.0, |bucket| f64::from(bucket.burst));
        Self { limits, failures: BTreeMap::new(), tokens, filled_at: now }
    }

    /// Counts one more failure of `key` and says how long it has to wait.
    pub(super) fn next_delay(&mut self, key: &K, now: Instant) -> Duration {
        let failures = self.failures.entry(key.clone()).or_insert(0);
        let backoff = self.limits.delay_after(*failures);
        *failures = failures.saturating_add(1);
        backoff.max(self.reserve(now))
    }

    pub(super) fn forget(&mut self, key: &K) {
        self.failures.remove(key);
    }

    pub(super) fn failures(&self, key: &K) -> u32 {
        self.failures.get(key).copied().unwrap_or(0)
    }

    fn reserve(&mut self, now: Instant) -> Duration {
        let Some(bucket) = self.limits.bucket else { return Duration::ZERO };
        let refill = now.saturating_duration_since(self.filled_at).as_secs_f64() * bucket.per_second;
        self.tokens = (self.tokens + refill).min(f64::from(bucket.burst)) - 1.0;
        self.filled_at = now;
        if self.tokens >= 0.0 {
            return Duration::ZERO;
        }
        // A rate of zero would divide by zero: such a bucket never refills.
        Duration::try_from_secs_f64(-self.tokens / bucket.per_second).unwrap_or(self.limits.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(delays: &[Duration]) -> Vec<u128> {
        delays.iter().map(Duration::as_millis).collect()
    }

    /// Proves: RT-4
    #[tokio::test(start_paused = true)]
    async fn a_key_waits_5_ms_doubling_to_1000_s() {
        let now = Instant::now();
        let mut limiter = Limiter::new(RateLimits { bucket: None, ..RateLimits::default() }, now);
        let delays: Vec<_> = (0..40).map(|_| limiter.next_delay(&"a", now)).collect();
        assert_eq!(millis(&delays[..4]), [5, 10, 20, 40]);
        assert_eq!(delays[17], Duration::from_millis(655_360));
        assert!(delays[18..].iter().all(|&delay| delay == Duration::from_secs(1000)));
    }

    #[tokio::test(start_paused = true)]
    async fn forgetting_a_key_starts_it_over_and_leaves_the_others() {
        let now = Instant::now();
        let mut limiter =
            Limiter::new(RateLimits::backoff(Duration::from_secs(5), Duration::from_secs(300)), now);
        for key in ["a", "a", "b"] {
            limiter.next_delay(&key, now);
        }
        limiter.forget(&"a");
        assert_eq!((limiter.failures(&"a"), limiter.failures(&"b")), (0, 1));
        assert_eq!(limiter.next_delay(&"a", now), Duration::from_secs(5));
        assert_eq!(limiter.next_delay(&"b", now), Duration::from_secs(10));
    }

    /// Proves: RT-4
    #[tokio::test(start_paused = true)]
    async fn all_keys_share_ten_a_second_with_a_burst_of_a_hundred() {
        let start = Instant::now();
        let mut limiter = Limiter::new(RateLimits::default(), start);
        let burst: Vec<_> = (0..100).map(|key| limiter.next_delay(&key, start)).collect();
        assert!(burst.iter().all(|&delay| delay == Duration::from_millis(5)), "{burst:?}");
        let beyond: Vec<_> = (100..103).map(|key| limiter.next_delay(&key, start)).collect();
        assert_eq!(millis(&beyond), [100, 200, 300]);
        // One second later ten tokens are back, three of which were promised already.
        let later = start + Duration::from_secs(1);
        let refilled: Vec<_> = (200..208).map(|key| limiter.next_delay(&key, later)).collect();
        assert_eq!(millis(&refilled), [5, 5, 5, 5, 5, 5, 5, 100]);
    }
}
