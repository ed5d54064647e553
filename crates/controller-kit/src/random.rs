//! Where chance comes from: jitter and UUIDs. Tests hand in a seed and get the identical trace again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use uuid::Uuid;

/// A shared source of randomness; clones draw from the same stream.
#[derive(Debug, Clone)]
pub struct Randomness(Arc<Mutex<SmallRng>>);

impl Randomness {
    /// Seeded by the operating system.
    pub fn from_os() -> Self {
        Self(Arc::new(Mutex::new(SmallRng::from_os_rng())))
    }

    /// The same seed gives the same stream.
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(SmallRng::seed_from_u64(seed))))
    }

    /// Uniform in `[0, 1)`.
    pub fn unit(&self) -> f64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).random()
    }

    /// `base` plus up to `factor × base`, uniform: what upstream calls `Jitter`.
    pub fn jitter(&self, base: Duration, factor: f64) -> Duration {
        base + base.mul_f64(self.unit() * factor.max(0.0))
    }

    /// A version 4 UUID drawn from this stream.
    pub fn uuid(&self) -> Uuid {
        let mut bytes = [0; 16];
        self.0.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(&mut bytes);
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_stream() {
        let draw = |seed| {
            let random = Randomness::seeded(seed);
            (random.uuid(), random.jitter(Duration::from_secs(10), 1.2), random.uuid())
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn jitter_stays_between_the_base_and_its_factor() {
        let random = Randomness::seeded(1);
        for _ in 0..1000 {
            let waited = random.jitter(Duration::from_secs(2), 1.2);
            assert!(waited >= Duration::from_secs(2) && waited < Duration::from_millis(4400), "{waited:?}");
        }
    }
}
