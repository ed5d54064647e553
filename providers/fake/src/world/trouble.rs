//! The armed faults: which one, if any, hits a call. All chance is drawn here, in the order in which calls arrive.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::fault::{Aim, Effect, Fault};

pub(super) struct Trouble {
    rng: SmallRng,
    armed: Vec<Armed>,
}

struct Armed {
    fault: Fault,
    passed: u64,
    struck: u64,
}

/// A fault that hits a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Strike {
    pub(super) effect: Effect,
    pub(super) after: Option<Duration>,
}

impl Trouble {
    pub(super) fn new(seed: u64, faults: Vec<Fault>) -> Self {
        let armed = faults.into_iter().map(Armed::new).collect();
        Self { rng: SmallRng::seed_from_u64(seed), armed }
    }

    pub(super) fn arm(&mut self, fault: Fault) {
        self.armed.push(Armed::new(fault));
    }

    pub(super) fn clear(&mut self) {
        self.armed.clear();
    }

    /// The first armed fault that hits this call.
    pub(super) fn strike(&mut self, call: &Aim<'_>, age: Duration) -> Option<Strike> {
        let rng = &mut self.rng;
        self.armed
            .iter_mut()
            .find_map(|armed| armed.strikes(call, age, rng))
            .map(|fault| Strike { effect: fault.effect, after: fault.after })
    }
}

impl Armed {
    fn new(fault: Fault) -> Self {
        Self { fault, passed: 0, struck: 0 }
    }

    fn strikes(&mut self, call: &Aim<'_>, age: Duration, rng: &mut SmallRng) -> Option<&Fault> {
        let spent = self.fault.times.is_some_and(|times| self.struck >= times);
        if spent || !self.fault.is_in_season(age) || !self.fault.aims_at(call) {
            return None;
        }
        if self.passed < self.fault.skip {
            self.passed += 1;
            return None;
        }
        if self.fault.probability < 1.0 && !rng.random_bool(self.fault.probability.clamp(0.0, 1.0)) {
            return None;
        }
        self.struck += 1;
        Some(&self.fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Operation;

    fn aim(operation: Operation) -> Aim<'static> {
        Aim { operation, objects: vec!["lb-1", "web"], page: None, caller: "c1" }
    }

    fn strikes(fault: Fault, calls: usize) -> Vec<bool> {
        let mut trouble = Trouble::new(7, vec![fault]);
        (0..calls).map(|_| trouble.strike(&aim(Operation::DeleteRoute), Duration::ZERO).is_some()).collect()
    }

    #[test]
    fn a_fault_skips_strikes_and_is_spent() {
        let fault = Fault::new("delete_route", Effect::Fail).skip(2).times(1);
        assert_eq!(strikes(fault, 5), [false, false, true, false, false]);
    }

    #[test]
    fn chance_comes_from_the_seed_alone() {
        let fault = Fault::new("writes", Effect::Fail).with_probability(0.5);
        let first = strikes(fault.clone(), 64);
        assert_eq!(strikes(fault, 64), first);
        assert!(first.contains(&true) && first.contains(&false));
    }

    #[test]
    fn a_fault_hits_only_what_it_aims_at() {
        let at = |fault: Fault, operation| {
            Trouble::new(0, vec![fault]).strike(&aim(operation), Duration::from_secs(10)).is_some()
        };
        let fault = || Fault::new("get_load_balancer", Effect::Fail);
        assert!(at(fault(), Operation::GetLoadBalancer));
        assert!(!at(fault(), Operation::GetVolume));
        assert!(at(fault().about("web"), Operation::GetLoadBalancer), "by name");
        assert!(at(fault().about("lb-1"), Operation::GetLoadBalancer), "by ID");
        assert!(!at(fault().about("lb-2"), Operation::GetLoadBalancer));
        assert!(!at(fault().on_page(2), Operation::GetLoadBalancer));
        assert!(at(fault().for_cluster("c1"), Operation::GetLoadBalancer));
        assert!(!at(fault().for_cluster("c2"), Operation::GetLoadBalancer));
        let window = |from, until| fault().within(Duration::from_secs(from), Duration::from_secs(until));
        assert!(at(window(10, 11), Operation::GetLoadBalancer));
        assert!(!at(window(11, 12), Operation::GetLoadBalancer));
        assert!(!at(window(9, 10), Operation::GetLoadBalancer));
    }
}
