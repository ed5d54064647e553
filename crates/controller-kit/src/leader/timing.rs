//! The three numbers of leader election, and what follows from them.

use std::time::Duration;

/// How much a retry may be stretched at random, so that candidates do not knock in step: upstream's factor.
pub const JITTER_FACTOR: f64 = 1.2;

/// How long a lease lasts and how it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How long others wait after the last renewal they saw before they take over. Written in whole seconds.
    pub lease_duration: Duration,
    /// How long a leader keeps trying to renew before it gives up.
    pub renew_deadline: Duration,
    /// How long to wait between two tries.
    pub retry_period: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// The three numbers do not fit together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTiming {
    /// The lease is written in whole seconds, and the API server refuses zero.
    #[error("lease duration must be between 1s and 2147483647s")]
    LeaseDuration,
    /// There must be a time to renew in.
    #[error("renew deadline must be greater than zero")]
    RenewDeadline,
    /// There must be a pause between tries.
    #[error("retry period must be greater than zero")]
    RetryPeriod,
    /// A leader must give up before others take over.
    #[error("lease duration must be greater than renew deadline")]
    LeaseNotAboveRenew,
    /// At least one retry must fit into the time to renew.
    #[error("renew deadline must be greater than 1.2 times the retry period")]
    RenewNotAboveRetry,
}

impl Timing {
    /// Checks what upstream checks, before anything starts.
    pub fn validate(&self) -> Result<(), InvalidTiming> {
        if self.lease_duration < Duration::from_secs(1)
            || i32::try_from(self.lease_duration.as_secs()).is_err()
        {
            return Err(InvalidTiming::LeaseDuration);
        }
        if self.renew_deadline.is_zero() {
            return Err(InvalidTiming::RenewDeadline);
        }
        if self.retry_period.is_zero() {
            return Err(InvalidTiming::RetryPeriod);
        }
        if self.lease_duration <= self.renew_deadline {
            return Err(InvalidTiming::LeaseNotAboveRenew);
        }
        if self.renew_deadline <= self.retry_period.mul_f64(JITTER_FACTOR) {
            return Err(InvalidTiming::RenewNotAboveRetry);
        }
        Ok(())
    }

    /// What is written into the record: whole seconds, as others will count them.
    pub fn lease_seconds(&self) -> i32 {
        i32::try_from(self.lease_duration.as_secs()).unwrap_or(i32::MAX)
    }

    /// How long one call may take: half the renew deadline, at least a second.
    pub fn call_timeout(&self) -> Duration {
        (self.renew_deadline / 2).max(Duration::from_secs(1))
    }

    /// For how long after the *sending* of a renewal the holder may write.
    ///
    /// Others count the whole lease from when they saw the renewal, which is later than its sending, so the end of the
    /// lease would do on perfect clocks. A tenth is held back for clocks that run at different speeds and for the time
    /// between the check and the start of the call that was checked for.
    pub fn validity(&self) -> Duration {
        let lease = Duration::from_secs(self.lease_duration.as_secs());
        lease * 9 / 10
    }

    /// How often a standby that cannot watch looks at the lease: often enough to take over within three seconds of a
    /// release at the default of 2 s.
    pub(super) fn poll_period(&self) -> Duration {
        self.retry_period / 2
    }

    /// How long a watch may be silent. A holder renews once per retry period, so silence means a dead holder or a dead
    /// connection, and a look tells which.
    pub(super) fn watch_patience(&self) -> Duration {
        self.retry_period * 2
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// Proves: APP-8
    #[rstest]
    #[case::defaults(15.0, 10.0, 2.0, Ok(()))]
    #[case::openshift(137.0, 107.0, 26.0, Ok(()))]
    #[case::lease_equals_renew(10.0, 10.0, 2.0, Err(InvalidTiming::LeaseNotAboveRenew))]
    #[case::renew_equals_jittered_retry(15.0, 2.4, 2.0, Err(InvalidTiming::RenewNotAboveRetry))]
    #[case::renew_just_above(15.0, 2.5, 2.0, Ok(()))]
    #[case::lease_below_a_second(0.9, 0.5, 0.1, Err(InvalidTiming::LeaseDuration))]
    #[case::lease_beyond_the_field(3e9, 10.0, 2.0, Err(InvalidTiming::LeaseDuration))]
    #[case::no_renew(15.0, 0.0, 2.0, Err(InvalidTiming::RenewDeadline))]
    #[case::no_retry(15.0, 10.0, 0.0, Err(InvalidTiming::RetryPeriod))]
    fn the_numbers_are_checked_and_never_panic(
        #[case] lease: f64,
        #[case] renew: f64,
        #[case] retry: f64,
        #[case] expected: Result<(), InvalidTiming>,
    ) {
        let timing = Timing {
            lease_duration: Duration::from_secs_f64(lease),
            renew_deadline: Duration::from_secs_f64(renew),
            retry_period: Duration::from_secs_f64(retry),
        };
        assert_eq!(timing.validate(), expected);
    }

    /// Proves: APP-26
    #[test]
    fn a_call_gets_half_the_renew_deadline_and_at_least_a_second() {
        let timing = Timing::default();
        assert_eq!(timing.call_timeout(), Duration::from_secs(5));
        let hasty = Timing { renew_deadline: Duration::from_millis(1500), ..timing };
        assert_eq!(hasty.call_timeout(), Duration::from_secs(1));
    }

    #[test]
    fn validity_ends_before_the_whole_seconds_that_others_count() {
        let timing = Timing { lease_duration: Duration::from_millis(15_900), ..Timing::default() };
        assert_eq!((timing.lease_seconds(), timing.validity()), (15, Duration::from_millis(13_500)));
    }
}
