//! The rate limit: a bucket of calls that fills with time.

use std::time::Duration;

use crate::config::RateLimit;

pub(super) struct Bucket {
    limit: RateLimit,
    level: f64,
    filled_at: Duration,
}

impl Bucket {
    pub(super) fn new(limit: RateLimit) -> Self {
        Self { limit, level: f64::from(limit.burst), filled_at: Duration::ZERO }
    }

    /// Takes one call, or says how long to wait for it.
    pub(super) fn take(&mut self, now: Duration) -> Result<(), Duration> {
        let gained = now.saturating_sub(self.filled_at).as_secs_f64() * self.limit.per_second;
        self.level = (self.level + gained).min(f64::from(self.limit.burst));
        self.filled_at = now;
        if self.level >= 1.0 {
            self.level -= 1.0;
            return Ok(());
        }
        Err(Duration::from_secs_f64((1.0 - self.level) / self.limit.per_second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_then_the_rate_holds_and_the_wait_is_told() {
        let mut bucket = Bucket::new(RateLimit { per_second: 2.0, burst: 3 });
        for _ in 0..3 {
            assert_eq!(bucket.take(Duration::ZERO), Ok(()));
        }
        let wait = bucket.take(Duration::ZERO).unwrap_err();
        assert_eq!(wait, Duration::from_millis(500));
        assert_eq!(bucket.take(wait), Ok(()), "who waits as told is served");
        assert!(bucket.take(wait).is_err());
    }

    #[test]
    fn silence_never_saves_up_more_than_the_burst() {
        let mut bucket = Bucket::new(RateLimit { per_second: 100.0, burst: 2 });
        let later = Duration::from_secs(3600);
        assert!(bucket.take(later).is_ok() && bucket.take(later).is_ok());
        assert!(bucket.take(later).is_err());
    }
}
