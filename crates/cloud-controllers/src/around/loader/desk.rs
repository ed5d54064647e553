//! The desk where questions about nodes come together: what is remembered, which batches are filling or under way, and
//! who waits for which node. Plain data under the loader's lock; it waits for nothing and asks nobody.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Existence, NodeRef};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::super::urgency::Urgency;
use super::cache::{Cache, Key};
use super::listing::Listing;
use super::rhythm::Rhythm;

/// Where a caller hears its answer.
pub(super) type Hears = oneshot::Receiver<Arc<Existence>>;

/// A batch by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Number(u64);

#[derive(Debug)]
pub(super) struct Desk {
    pub(super) cache: Cache,
    pub(super) rhythm: Rhythm,
    listing: Option<Listing>,
    /// When a Node of a name went, lately. Another machine may have that name since, of which no list knows that was asked
    /// for before.
    gone: HashMap<String, Instant>,
    /// Before this, no list is asked for: the cloud has none, or failed to give it.
    no_list_before: Instant,
    batches: HashMap<Number, Batch>,
    next: u64,
    /// By [`Urgency::rank`]: the batch that single questions are gathered in.
    gathering: [Option<Number>; 4],
    /// Where each node was last asked for.
    asked_in: HashMap<Key, (Number, usize)>,
    calls: usize,
}

#[derive(Debug)]
struct Batch {
    urgency: Urgency,
    questions: Vec<Question>,
    last_question: Instant,
    started: Option<Instant>,
    size: Arc<Size>,
}

/// Who waits for a batch to grow is told here.
#[derive(Debug, Default)]
pub(super) struct Size {
    /// It is worth a call.
    pub(super) enough: Notify,
    /// It takes no more.
    pub(super) full: Notify,
}

#[derive(Debug)]
struct Question {
    key: Key,
    node: NodeRef,
    /// How old a list may be that answers it; zero if only a look-up will do.
    list_age: Duration,
    waiting: Vec<oneshot::Sender<Arc<Existence>>>,
}

/// When a batch of single questions is worth a call, and when it takes no more.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) enough: usize,
    pub(super) most: usize,
}

/// A batch that was just opened and needs somebody to see it through.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) number: Number,
    pub(super) size: Arc<Size>,
}

/// A batch that is on its way: which questions were still of interest, and the nodes they are about.
#[derive(Debug)]
pub(super) struct Started {
    places: Vec<usize>,
    pub(super) nodes: Vec<NodeRef>,
    at: Instant,
}

impl Desk {
    pub(super) fn new(keep: Duration, most: usize, now: Instant) -> Self {
        Self {
            cache: Cache::new(keep, most, now),
            rhythm: Rhythm::default(),
            listing: None,
            gone: HashMap::new(),
            no_list_before: now,
            batches: HashMap::new(),
            next: 0,
            gathering: [None; 4],
            asked_in: HashMap::new(),
            calls: 0,
        }
    }

    /// Shares the answer of a batch that already asks for this node. Not of one that is less urgent and still waits for
    /// its turn, nor of one that was sent so long ago that its answer is too old already.
    pub(super) fn join(&mut self, key: &Key, age: Duration, urgency: Urgency, now: Instant) -> Option<Hears> {
        let (number, place) = *self.asked_in.get(key)?;
        let batch = self.batches.get(&number)?;
        let shares = match batch.started {
            Some(at) => now.saturating_duration_since(at) < age,
            None => batch.urgency >= urgency,
        };
        shares.then(|| self.listen(number, place, age))?
    }

    /// The same, for a question that only this batch may answer.
    pub(super) fn join_in(&mut self, key: &Key, number: Number) -> Option<Hears> {
        let (asked_in, place) = *self.asked_in.get(key)?;
        (asked_in == number).then(|| self.listen(number, place, Duration::ZERO))?
    }

    /// Puts a single question into the batch that gathers for its urgency. A list of the age `list_age` may answer it.
    pub(super) fn gather(
        &mut self,
        (key, node): (Key, NodeRef),
        list_age: Duration,
        urgency: Urgency,
        sizes: Sizes,
        now: Instant,
    ) -> (Hears, Option<Opened>) {
        let (number, opened) = if let Some(number) = self.gathering[urgency.rank()] {
            (number, None)
        } else {
            let opened = self.open(urgency, now);
            (opened.number, Some(opened))
        };
        self.gathering[urgency.rank()] = Some(number);
        let hears = self.ask(number, key, node, list_age);
        if let Some(batch) = self.batches.get_mut(&number) {
            batch.last_question = now;
            if batch.questions.len() >= sizes.enough {
                batch.size.enough.notify_one();
            }
            if batch.questions.len() >= sizes.most {
                batch.size.full.notify_one();
                self.gathering[urgency.rank()] = None;
            }
        }
        (hears, opened)
    }

    /// Opens a batch.
    pub(super) fn open(&mut self, urgency: Urgency, now: Instant) -> Opened {
        let (number, size) = (Number(self.next), Arc::<Size>::default());
        self.next += 1;
        let batch = Batch {
            urgency,
            questions: Vec::new(),
            last_question: now,
            started: None,
            size: Arc::clone(&size),
        };
        self.batches.insert(number, batch);
        Opened { number, size }
    }

    /// Puts a question into a batch.
    pub(super) fn ask(&mut self, number: Number, key: Key, node: NodeRef, list_age: Duration) -> Hears {
        let (sender, hears) = oneshot::channel();
        if let Some(batch) = self.batches.get_mut(&number) {
            self.asked_in.insert(key.clone(), (number, batch.questions.len()));
            batch.questions.push(Question { key, node, list_age, waiting: vec![sender] });
        }
        hears
    }

    /// The answer of a list that is younger than `age`.
    pub(super) fn listed(
        &mut self,
        key: &Key,
        node: &NodeRef,
        age: Duration,
        now: Instant,
    ) -> Option<Arc<Existence>> {
        let listing = self.listing.as_ref().filter(|listing| !is_gone(&self.gone, &node.name, listing))?;
        let answer = Arc::new(listing.find(node, age, now)?);
        self.cache.learn(key, &answer, listing.asked);
        self.rhythm.goes_on(now);
        Some(answer)
    }

    /// Whether it is time for a list: there is none of this age, and nothing speaks against asking for one.
    pub(super) fn wants_list(&self, age: Duration, now: Instant) -> bool {
        let has_one = self.listing.as_ref().is_some_and(|listing| listing.is_younger(age, now));
        !has_one && now >= self.no_list_before
    }

    /// A list came: it answers whoever waits for a look-up that has not been sent, and may be answered by a list.
    pub(super) fn list_came(&mut self, listing: Listing, now: Instant) {
        for batch in self.batches.values_mut().filter(|batch| batch.started.is_none()) {
            for question in batch.questions.iter_mut().filter(|question| !question.waiting.is_empty()) {
                if is_gone(&self.gone, &question.node.name, &listing) {
                    continue;
                }
                let Some(answer) = listing.find(&question.node, question.list_age, now) else { continue };
                let answer = Arc::new(answer);
                self.cache.learn(&question.key, &answer, listing.asked);
                for sender in question.waiting.drain(..) {
                    let _ = sender.send(Arc::clone(&answer));
                }
            }
        }
        self.listing = Some(listing);
    }

    /// No list came: the cloud is not asked for one before then.
    pub(super) fn no_list(&mut self, before: Instant) {
        self.no_list_before = before;
    }

    /// A Node of this name is gone: nothing about it is remembered, but for as long as a list may be used that it went.
    pub(super) fn forget(&mut self, name: &str, list_age: Duration, now: Instant) {
        self.cache.forget(name);
        self.gone.retain(|_, at| now.saturating_duration_since(*at) < list_age);
        self.gone.insert(name.to_owned(), now);
    }

    /// Drops what is too old for anybody to use.
    pub(super) fn sweep(&mut self, list_age: Duration, now: Instant) {
        self.cache.sweep(now);
        self.listing = self.listing.take().filter(|listing| listing.is_younger(list_age, now));
    }

    /// Closes a batch that nobody waits for any more; whether it did.
    pub(super) fn close_if_answered(&mut self, number: Number) -> bool {
        let questions = self.batches.get(&number).map_or(&[][..], |batch| &batch.questions);
        let is_awaited =
            questions.iter().flat_map(|question| &question.waiting).any(|sender| !sender.is_closed());
        if !is_awaited {
            self.close(number);
            self.take(number);
        }
        !is_awaited
    }

    /// How many questions a batch has.
    pub(super) fn size(&self, number: Number) -> usize {
        self.batches.get(&number).map_or(0, |batch| batch.questions.len())
    }

    /// When the last question of a batch came; `None` if there is no such batch.
    pub(super) fn last_question(&self, number: Number) -> Option<Instant> {
        self.batches.get(&number).map(|batch| batch.last_question)
    }

    /// How many batches are at the cloud.
    pub(super) fn calls(&self) -> usize {
        self.calls
    }

    /// It is a batch's turn: it takes no more, and asks for those nodes that somebody still waits for.
    pub(super) fn start(&mut self, number: Number, now: Instant) -> Started {
        self.close(number);
        self.calls += 1;
        let mut started = Started { places: Vec::new(), nodes: Vec::new(), at: now };
        let Some(batch) = self.batches.get_mut(&number) else { return started };
        batch.started = Some(now);
        for (place, question) in batch.questions.iter().enumerate() {
            if question.waiting.iter().any(|sender| !sender.is_closed()) {
                started.places.push(place);
                started.nodes.push(question.node.clone());
            } else if self.asked_in.get(&question.key) == Some(&(number, place)) {
                self.asked_in.remove(&question.key);
            }
        }
        started
    }

    /// A batch was answered: one answer for each of its nodes.
    pub(super) fn finish(&mut self, number: Number, started: &Started, answers: &[Arc<Existence>]) {
        self.calls -= 1;
        let Some(mut batch) = self.take(number) else { return };
        for (place, answer) in started.places.iter().zip(answers) {
            let question = &mut batch.questions[*place];
            self.cache.learn(&question.key, answer, started.at);
            for sender in question.waiting.drain(..) {
                // Whoever no longer listens needs no answer.
                let _ = sender.send(Arc::clone(answer));
            }
        }
    }

    /// A batch never got its turn: the same answer for each of its nodes.
    pub(super) fn refuse(&mut self, number: Number, answer: &Arc<Existence>) {
        self.close(number);
        let Some(batch) = self.take(number) else { return };
        for sender in batch.questions.into_iter().flat_map(|question| question.waiting) {
            let _ = sender.send(Arc::clone(answer));
        }
    }

    fn listen(&mut self, number: Number, place: usize, age: Duration) -> Option<Hears> {
        let question = self.batches.get_mut(&number)?.questions.get_mut(place)?;
        let (sender, hears) = oneshot::channel();
        question.waiting.retain(|sender| !sender.is_closed());
        question.waiting.push(sender);
        question.list_age = question.list_age.min(age);
        Some(hears)
    }

    fn close(&mut self, number: Number) {
        for gathering in &mut self.gathering {
            *gathering = gathering.filter(|each| *each != number);
        }
    }

    fn take(&mut self, number: Number) -> Option<Batch> {
        let batch = self.batches.remove(&number)?;
        for question in &batch.questions {
            if self.asked_in.get(&question.key).is_some_and(|(asked_in, _)| *asked_in == number) {
                self.asked_in.remove(&question.key);
            }
        }
        Some(batch)
    }

    #[cfg(test)]
    pub(super) fn is_clear(&self) -> bool {
        self.batches.is_empty() && self.asked_in.is_empty() && self.calls == 0
    }
}

/// Whether a Node of this name went since a list was asked for.
fn is_gone(gone: &HashMap<String, Instant>, name: &str, listing: &Listing) -> bool {
    gone.get(name).is_some_and(|at| *at >= listing.asked)
}
