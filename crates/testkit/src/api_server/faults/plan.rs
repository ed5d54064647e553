//! The handle with which a test makes the server misbehave.

use std::sync::Arc;
use std::time::Duration;

use super::{Fault, FaultPlan, Travel, When};
use crate::api_server::shared::{Cut, Shared};

/// Makes the server misbehave; from [`crate::ApiServer::faults`].
#[derive(Clone)]
pub struct Faults {
    shared: Arc<Shared>,
}

impl Faults {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// From now on the fault happens to every request that `when` covers.
    pub fn always(&self, when: When, fault: Fault) -> &Self {
        self.change(|plan| plan.rules.push((when, fault)))
    }

    /// The fault happens to the next request that `when` covers, and to no other.
    pub fn once(&self, when: When, fault: Fault) -> &Self {
        self.always(when.times(1), fault)
    }

    /// Forgets all rules; outages and time travel end at once.
    pub fn clear(&self) -> &Self {
        self.change(|plan| {
            plan.rules.clear();
            plan.down_until = Duration::ZERO;
            plan.travel = None;
        });
        self.shared.cut_watches(Cut::Wake);
        self
    }

    /// Nothing listens for this long: connections are refused and watches break.
    pub fn down_for(&self, lasting: Duration) -> &Self {
        let until = self.shared.elapsed() + lasting;
        self.change(|plan| plan.down_until = until);
        self.shared.note(format_args!("down until {:.3}", until.as_secs_f64()));
        self.shared.cut_watches(Cut::Broken);
        self
    }

    /// Ends all watches cleanly, as a server does before it stops.
    pub fn drop_watches(&self) -> &Self {
        self.shared.note(format_args!("all watches end"));
        self.shared.cut_watches(Cut::Clean);
        self
    }

    /// Breaks the connections of all watches.
    pub fn break_watches(&self) -> &Self {
        self.shared.note(format_args!("all watches break"));
        self.shared.cut_watches(Cut::Broken);
        self
    }

    /// Clients now talk to an API server whose cache is behind: for this long, `resourceVersion=0` reads and
    /// watches show the state of `revisions` writes ago, and running watches break. Quorum reads and writes are
    /// not affected, as with the real server.
    pub fn travel_back(&self, revisions: u64, lasting: Duration) -> &Self {
        let until = self.shared.elapsed() + lasting;
        let revision = self.shared.revision().saturating_sub(revisions).max(self.shared.compacted());
        self.change(|plan| plan.travel = Some(Travel { revision, until }));
        self.shared.note(format_args!("caches show revision {revision} until {:.3}", until.as_secs_f64()));
        self.shared.cut_watches(Cut::Broken);
        self
    }

    /// Forgets all history, so that every earlier version and every continue token is too old.
    pub fn forget_history(&self) -> &Self {
        self.shared.forget_history();
        self
    }

    fn change(&self, change: impl FnOnce(&mut FaultPlan)) -> &Self {
        change(&mut self.shared.faults());
        self
    }
}
