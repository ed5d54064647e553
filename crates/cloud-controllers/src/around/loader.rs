//! The loader: how both node controllers ask for instances. It gathers single questions into bulk ones, lets everybody
//! who asks for the same node at the same time share one answer, and remembers what was found for a while.
//!
//! It never fails. A provider that errs, hangs, panics or answers for too many or too few nodes has said
//! [`Existence::Unknown`] of each, with the reason.
//!
//! A question is seen through by a task of the loader, not by whoever asked first, so that nobody's cancellation costs
//! anybody else's answer.

mod cache;
mod desk;
mod listing;
mod rhythm;
#[cfg(test)]
mod tests;

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cloud_provider::{Doubt, Error, Existence, Freshness, Instances, NodeRef};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use self::cache::Key;
use self::desk::{Desk, Hears, Number, Opened, Size, Sizes};
use self::listing::Listing;
use self::rhythm::Rhythm;
use super::budget::Feedback;
use super::calls::Calls;
use super::lookup::{ask, mood};
use super::operation::Operation;
use super::urgency::Urgency;

/// The numbers of a loader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// A batch of single questions leaves when nobody has asked for this long; longer while batch follows on batch.
    pub window: Duration,
    /// How long they are gathered at most, while more come or another look-up is under way; a sixteenth of it at first.
    pub linger: Duration,
    /// So many gathered questions are sent at once.
    pub batch: NonZeroUsize,
    /// So many nodes at most in one call, however they were asked for. The provider divides a question further as its
    /// cloud asks for; this bounds what has to be done within one deadline.
    pub bulk: NonZeroUsize,
    /// How old an answer to a single question may be. Short: a machine that has no address yet is asked for again.
    pub reuse: Duration,
    /// How old a list of all instances may be that answers a single question, while many ask one after the other.
    pub list: Duration,
    /// How long answers are remembered; nobody can ask for older ones.
    pub keep: Duration,
    /// How many answers are remembered at most.
    pub remembered: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            window: Duration::from_millis(20),
            linger: Duration::from_secs(4),
            batch: NonZeroUsize::MIN.saturating_add(4_999),
            bulk: NonZeroUsize::MIN.saturating_add(4_999),
            reuse: Duration::from_secs(1),
            list: Duration::from_secs(5),
            keep: Duration::from_secs(600),
            remembered: 20_000,
        }
    }
}

/// How old an answer may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// Asked now, of the cloud itself, and shared with nobody who asked before: this answer decides whether a Node is
    /// deleted.
    Now,
    /// Younger than this.
    AtMost(Duration),
}

/// The loader of one cloud; clones share it.
#[derive(Clone)]
pub struct Loader(Arc<Shared>);

struct Shared {
    instances: Arc<dyn Instances>,
    calls: Calls,
    settings: Settings,
    desk: Mutex<Desk>,
    /// Told when a look-up ended.
    ended: Notify,
}

impl fmt::Debug for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

/// An answer that is there, or that is on its way.
enum Coming {
    Here(Arc<Existence>),
    Later(Hears),
}

impl Loader {
    /// A loader over a provider's own instances, whose calls are made with `calls`. Must be called inside a tokio runtime.
    pub fn new(instances: Arc<dyn Instances>, calls: Calls, settings: Settings) -> Self {
        let desk = Mutex::new(Desk::new(settings.keep, settings.remembered, Instant::now()));
        Self(Arc::new(Shared { instances, calls, settings, desk, ended: Notify::new() }))
    }

    /// Asks for one node. The question waits a moment for others to go with it. The answer may be as old as
    /// [`Settings::reuse`] if the instance was found then, and as [`Settings::list`] if it was in a list. Cancel safe.
    pub async fn one(&self, node: &NodeRef, urgency: Urgency) -> Arc<Existence> {
        let (key, now) = (Key::from(node), Instant::now());
        let known = {
            let (mut desk, settings) = (self.0.desk(), &self.0.settings);
            let known = desk.recall_or_join(&key, settings.reuse, urgency, now);
            known.or_else(|| desk.listed(&key, node, settings.list, now).map(Coming::Here))
        };
        if let Some(coming) = known {
            self.0.count(std::slice::from_ref(&coming), 0);
            return answer(coming).await;
        }
        let (hears, opened) = {
            let (mut desk, settings) = (self.0.desk(), &self.0.settings);
            let enough = desk.rhythm.enough(settings.linger, now);
            let sizes = Sizes { enough, most: settings.batch.min(settings.bulk).get() };
            desk.gather((key, node.clone()), settings.list, urgency, sizes, now)
        };
        let coming = Coming::Later(hears);
        self.0.count(std::slice::from_ref(&coming), 1);
        if let Some(Opened { number, size }) = opened {
            tokio::spawn(Arc::clone(&self.0).see_through(number, urgency, Freshness::Recent, Some(size)));
        }
        answer(coming).await
    }

    /// Asks for many nodes at once; the answers come in the order of the nodes. Cancel safe.
    pub async fn many(&self, nodes: &[NodeRef], urgency: Urgency, age: Age) -> Vec<Arc<Existence>> {
        let freshness = if age == Age::Now { Freshness::Now } else { Freshness::Recent };
        let (coming, opened) = self.place(nodes, urgency, age);
        for number in opened {
            tokio::spawn(Arc::clone(&self.0).see_through(number, urgency, freshness, None));
        }
        let mut answers = Vec::with_capacity(coming.len());
        for each in coming {
            answers.push(answer(each).await);
        }
        answers
    }

    /// A Node of this name is gone: nothing about it is remembered.
    pub fn forget(&self, name: &str) {
        self.0.desk().forget(name, self.0.settings.list, Instant::now());
    }

    /// Puts many questions on the desk, in as few batches as possible.
    fn place(&self, nodes: &[NodeRef], urgency: Urgency, age: Age) -> (Vec<Coming>, Vec<Number>) {
        let (bulk, now) = (self.0.settings.bulk.get(), Instant::now());
        let (mut coming, mut opened) = (Vec::with_capacity(nodes.len()), Vec::<Number>::new());
        let mut desk = self.0.desk();
        let mut asked = 0;
        for node in nodes {
            let key = Key::from(node);
            let known = match age {
                Age::AtMost(age) => desk.recall_or_join(&key, age, urgency, now),
                Age::Now => opened.iter().find_map(|number| desk.join_in(&key, *number)).map(Coming::Later),
            };
            coming.push(known.unwrap_or_else(|| {
                let number = match opened.last() {
                    Some(number) if desk.size(*number) < bulk => *number,
                    _ => {
                        opened.push(desk.open(urgency, now).number);
                        opened[opened.len() - 1]
                    }
                };
                asked += 1;
                Coming::Later(desk.ask(number, key, node.clone(), Duration::ZERO))
            }));
        }
        drop(desk);
        self.0.count(&coming, asked);
        (coming, opened)
    }
}

impl Desk {
    fn recall_or_join(&mut self, key: &Key, age: Duration, urgency: Urgency, now: Instant) -> Option<Coming> {
        let known = self.cache.recall(key, age, now).map(Coming::Here);
        known.or_else(|| self.join(key, age, urgency, now).map(Coming::Later))
    }
}

impl Shared {
    /// The life of one batch: gather, wait for the turn, ask, hand out the answers.
    async fn see_through(
        self: Arc<Self>,
        number: Number,
        urgency: Urgency,
        freshness: Freshness,
        gathers: Option<Arc<Size>>,
    ) {
        if let Some(size) = gathers {
            let has_list = self.is_time_for_a_list() && self.list(urgency).await;
            if !has_list {
                self.gather(number, &size).await;
            }
            if self.desk().close_if_answered(number) {
                return;
            }
        }
        let turn = match self.calls.turn(Operation::LookUpInstances, urgency).await {
            Ok(turn) => turn,
            Err(error) => return self.desk().refuse(number, &unknown(error)),
        };
        let started = self.desk().start(number, Instant::now());
        let answers = if started.nodes.is_empty() {
            Vec::new()
        } else {
            self.calls.metrics().asked_for(started.nodes.len());
            let call = async { ask(&*self.instances, &started.nodes, freshness).await };
            match turn.make(call, mood).await {
                Ok(answers) => answers.into_iter().map(Arc::new).collect(),
                Err(error) => {
                    let attempt = format!("looking up {} nodes", started.nodes.len());
                    vec![unknown(error.context(attempt)); started.nodes.len()]
                }
            }
        };
        let mut desk = self.desk();
        desk.finish(number, &started, &answers);
        desk.sweep(self.settings.list, Instant::now());
        drop(desk);
        self.ended.notify_waiters();
    }

    /// Waits until the batch is full or [large](rhythm), or until nobody has asked for a [moment](rhythm) and no other
    /// look-up is under way. A look-up that hangs, or a crowd that does not end, delays it by [`Settings::linger`] and no
    /// more.
    async fn gather(&self, number: Number, size: &Size) {
        let Settings { window, linger, .. } = self.settings;
        let opened = Instant::now();
        let (moment, longest) = {
            let rhythm = &self.desk().rhythm;
            (rhythm.moment(window, linger, opened), rhythm.longest(window, linger, opened))
        };
        let large = async {
            size.enough.notified().await;
            sleep_until(opened + Rhythm::little_while(window, linger)).await;
        };
        tokio::select! {
            biased;
            () = size.full.notified() => {}
            () = sleep_until(opened + longest) => {}
            () = large => {}
            () = self.quiet(number, moment) => {}
        }
        let mut desk = self.desk();
        let questions = desk.size(number);
        desk.rhythm.left(questions, linger, Instant::now());
    }

    /// Whether a batch that opens now is part of a crowd, and the cloud may have a list that answers for all of it.
    fn is_time_for_a_list(&self) -> bool {
        let (desk, now) = (self.desk(), Instant::now());
        desk.rhythm.follows(self.settings.linger, now) && desk.wants_list(self.settings.list, now)
    }

    /// Asks for a list of everything; whether it came. Whoever it does not answer is looked up, as ever.
    async fn list(&self, urgency: Urgency) -> bool {
        let Ok(turn) = self.calls.turn(Operation::LookUpInstances, urgency).await else { return false };
        let asked = Instant::now();
        let listed = turn.make(async { self.instances.list().await }, Feedback::of).await;
        let (mut desk, now) = (self.desk(), Instant::now());
        let Ok(Some(seen)) = listed else {
            desk.no_list(now + self.settings.keep);
            return false;
        };
        desk.list_came(Listing::new(seen, asked), now);
        true
    }

    /// Waits until no question has come for a moment and no look-up is under way.
    async fn quiet(&self, number: Number, moment: Duration) {
        loop {
            // Before the look, so that no end between the look and the wait is missed.
            let ended = self.ended.notified();
            let (last, calls) = {
                let desk = self.desk();
                (desk.last_question(number), desk.calls())
            };
            let Some(last) = last else { return };
            if last + moment > Instant::now() {
                sleep_until(last + moment).await;
            } else if calls == 0 {
                return;
            } else {
                ended.await;
            }
        }
    }

    /// Counts where answers come from; `asked` of them are questions that nobody had asked.
    fn count(&self, coming: &[Coming], asked: usize) {
        let metrics = self.calls.metrics();
        let remembered = coming.iter().filter(|each| matches!(each, Coming::Here(_))).count();
        metrics.answered_from("memory", remembered);
        metrics.answered_from("cloud", asked);
        metrics.answered_from("shared", coming.len() - remembered - asked);
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn answer(coming: Coming) -> Arc<Existence> {
    match coming {
        Coming::Here(answer) => answer,
        // The task behind it ended with its runtime.
        Coming::Later(hears) => {
            hears.await.unwrap_or_else(|_| unknown(Error::other("waiting for a look-up that was given up")))
        }
    }
}

fn unknown(error: Error) -> Arc<Existence> {
    Arc::new(Existence::Unknown(Doubt::Failed(error)))
}
