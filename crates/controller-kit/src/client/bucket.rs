//! A token bucket on tokio's clock: so many requests a second, with a burst.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Requests per second and how many may come at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Requests per second; not positive means no limit, as in client-go.
    pub qps: f32,
    /// How many may be sent without waiting after a pause; at least one.
    pub burst: u32,
}

/// The bucket; clones spend from the same one.
#[derive(Debug, Clone)]
pub struct TokenBucket(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    rate: Rate,
    level: Mutex<Level>,
}

/// The tokens at an instant. Below zero, that many are owed to requests that already wait.
#[derive(Debug)]
struct Level {
    tokens: f64,
    at: Option<Instant>,
}

impl TokenBucket {
    /// A full bucket.
    pub fn new(rate: Rate) -> Self {
        let level = Mutex::new(Level { tokens: f64::from(rate.burst.max(1)), at: None });
        Self(Arc::new(Inner { rate, level }))
    }

    /// Waits for a token; requests get theirs in the order in which they ask. Answers how long it waited.
    pub async fn take(&self) -> Duration {
        let wait = self.reserve();
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        wait
    }

    fn reserve(&self) -> Duration {
        let Rate { qps, burst } = self.0.rate;
        if qps <= 0.0 {
            return Duration::ZERO;
        }
        let qps = f64::from(qps);
        let mut level = self.0.level.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let elapsed = level.at.map_or(0.0, |at| (now - at).as_secs_f64());
        level.tokens = (level.tokens + elapsed * qps).min(f64::from(burst.max(1))) - 1.0;
        level.at = Some(now);
        if level.tokens >= 0.0 { Duration::ZERO } else { Duration::from_secs_f64(-level.tokens / qps) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_free_and_then_the_rate_holds() {
        let bucket = TokenBucket::new(Rate { qps: 20.0, burst: 30 });
        let began = Instant::now();
        for _ in 0..30 {
            bucket.take().await;
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
        for _ in 0..40 {
            bucket.take().await;
        }
        let elapsed = began.elapsed();
        assert!(elapsed >= Duration::from_secs(2) && elapsed < Duration::from_millis(2100), "{elapsed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_refills_no_more_than_the_burst() {
        let bucket = TokenBucket::new(Rate { qps: 10.0, burst: 2 });
        tokio::time::sleep(Duration::from_secs(60)).await;
        let waits = [bucket.take().await, bucket.take().await, bucket.take().await];
        assert_eq!(waits[..2], [Duration::ZERO; 2]);
        assert!(waits[2] > Duration::from_millis(99));
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_share_a_bucket_share_its_rate() {
        let bucket = TokenBucket::new(Rate { qps: 1.0, burst: 1 });
        let other = bucket.clone();
        let began = Instant::now();
        tokio::join!(bucket.take(), other.take(), bucket.take());
        assert!(began.elapsed() >= Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_of_zero_is_no_limit() {
        let bucket = TokenBucket::new(Rate { qps: 0.0, burst: 0 });
        for _ in 0..1000 {
            assert_eq!(bucket.take().await, Duration::ZERO);
        }
    }
}
