//! How urgent a call to a cloud is.

use std::fmt;

/// Whose turn it is when a cloud has less room than we have questions. The greater is the more urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Urgency {
    /// Comparing what should not have changed; it can wait for a quiet hour.
    Drift,
    /// Keeping known objects true.
    Refresh,
    /// A new Node that carries no work until it is initialised.
    Initialise,
    /// Somebody waits for what they asked for: a load balancer, a route, a volume.
    Create,
}

impl Urgency {
    /// All of them, the most urgent first.
    pub const ALL: [Self; 4] = [Self::Create, Self::Initialise, Self::Refresh, Self::Drift];

    /// The word for it in metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Initialise => "initialise",
            Self::Refresh => "refresh",
            Self::Drift => "drift",
        }
    }

    /// Its place in [`Urgency::ALL`].
    pub(super) fn rank(self) -> usize {
        match self {
            Self::Create => 0,
            Self::Initialise => 1,
            Self::Refresh => 2,
            Self::Drift => 3,
        }
    }
}

impl fmt::Display for Urgency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_urgent_comes_first_and_is_the_greatest() {
        assert!(Urgency::ALL.is_sorted_by(|a, b| a > b));
        assert!(Urgency::ALL.iter().enumerate().all(|(rank, each)| each.rank() == rank));
    }
}
