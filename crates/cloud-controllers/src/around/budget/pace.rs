//! How much a cloud can bear, learned from its answers: a pure state machine that is told the time.
//!
//! Each throttling answer halves the slots and pauses what is less urgent than a create; time without one gives slots
//! back in equal steps. A cloud that throttled once is at full speed again two windows after its pause.

use std::time::Duration;

use tokio::time::Instant;

use super::super::urgency::Urgency;
use super::Settings;

/// Steps in which slots come back within one window.
const STEPS_PER_WINDOW: u32 = 8;

/// Windows after which all slots are back.
const WINDOWS: u32 = 2;

/// What one answer says of the cloud's mood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feedback {
    /// It answered, if only with an error of another kind.
    Untroubled,
    /// It asks us to slow down, perhaps for this long.
    Throttled(Option<Duration>),
    /// It said nothing: the call was given up, or never reached it.
    Silent,
}

/// The calls between two throttling answers. What was sent before one and is refused after it tells nothing new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Era(u64);

#[derive(Debug)]
pub(super) struct Pace {
    settings: Settings,
    slots: usize,
    era: u64,
    /// Throttling answers in a row, to creates and to all others.
    strikes: [u32; 2],
    /// From when on the next step is counted.
    raised: Instant,
    /// Until when creates, and until when all others, are not started.
    paused: [Option<Instant>; 2],
}

impl Pace {
    pub(super) fn new(settings: Settings, now: Instant) -> Self {
        let slots = settings.slots.get();
        Self { settings, slots, era: 0, strikes: [0; 2], raised: now, paused: [None; 2] }
    }

    pub(super) fn era(&self) -> Era {
        Era(self.era)
    }

    /// How many calls may be under way at once.
    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    /// How many of these may be less urgent than a create. At least one slot is left on either side.
    pub(super) fn ordinary_slots(&self) -> usize {
        self.slots - self.settings.kept_for_creates.min(self.slots - 1)
    }

    /// Until when calls of this urgency are not started.
    pub(super) fn paused_until(&self, urgency: Urgency) -> Option<Instant> {
        self.paused[lane(urgency)]
    }

    /// Takes note of the time: gives slots back, ends pauses.
    pub(super) fn advance(&mut self, now: Instant) {
        for pause in &mut self.paused {
            *pause = pause.filter(|end| *end > now);
        }
        while self.slots < self.settings.slots.get() && self.raised + self.step_time() <= now {
            self.raised += self.step_time();
            self.slots = (self.slots + self.step()).min(self.settings.slots.get());
        }
    }

    /// When [`Pace::advance`] will next change something.
    pub(super) fn next_change(&self) -> Option<Instant> {
        let raise = (self.slots < self.settings.slots.get()).then(|| self.raised + self.step_time());
        self.paused.into_iter().flatten().chain(raise).min()
    }

    /// Whether nothing is held back.
    pub(super) fn is_full(&self) -> bool {
        self.slots == self.settings.slots.get()
    }

    /// An answer to a call of this urgency that was started in this era; says whether it slowed us down further.
    pub(super) fn learn(&mut self, feedback: Feedback, urgency: Urgency, era: Era, now: Instant) -> bool {
        let current = era == self.era();
        match feedback {
            Feedback::Untroubled if current => self.strikes[lane(urgency)] = 0,
            Feedback::Untroubled | Feedback::Silent => {}
            Feedback::Throttled(after) => {
                if current {
                    let strikes = &mut self.strikes[lane(urgency)];
                    *strikes = strikes.saturating_add(1);
                    self.era += 1;
                    self.slots = (self.slots / 2).max(self.fewest());
                }
                self.pause(after, urgency, now);
                return current;
            }
        }
        false
    }

    /// Anything but a create that is refused does not stop the creates. A create that is refused pauses everything, the
    /// others a little longer: it takes several calls of a cloud to make something, and who comes back together with
    /// a hundred others may find room for the first of them and never for the last.
    fn pause(&mut self, after: Option<Duration>, urgency: Urgency, now: Instant) {
        let creates = urgency == Urgency::Create;
        let strikes = self.strikes[lane(urgency)];
        let told = after.map(|after| after.max(self.settings.pause / 10));
        let pause = match told {
            Some(told) if creates && strikes > 1 => told.max(self.own_pause(strikes)),
            Some(told) => told,
            None => self.own_pause(strikes),
        };
        let mut end = now + pause.min(self.settings.longest_pause);
        if creates {
            self.pause_lane(Urgency::Create, end);
            end += self.settings.pause;
        }
        self.pause_lane(Urgency::Drift, end);
        self.raised = self.raised.max(end);
    }

    fn pause_lane(&mut self, urgency: Urgency, end: Instant) {
        let pause = &mut self.paused[lane(urgency)];
        *pause = (*pause).max(Some(end));
    }

    /// Twice as long for each refusal in a row.
    fn own_pause(&self, strikes: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(strikes.saturating_sub(1));
        self.settings.pause.saturating_mul(doubled).min(self.settings.window)
    }

    /// One for creates and one for the rest, where there are two at all.
    fn fewest(&self) -> usize {
        self.settings.slots.get().min(2)
    }

    fn step(&self) -> usize {
        self.settings.slots.get().div_ceil((STEPS_PER_WINDOW * WINDOWS) as usize)
    }

    /// Never zero: a window of nothing is refused nowhere, and would be an endless loop here.
    fn step_time(&self) -> Duration {
        (self.settings.window / STEPS_PER_WINDOW).max(Duration::from_millis(1))
    }
}

fn lane(urgency: Urgency) -> usize {
    usize::from(urgency != Urgency::Create)
}
