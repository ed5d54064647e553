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
        shares.then(|| self.listen(number, place))?
    }

    /// The same, for a question that only this batch may answer.
    pub(super) fn join_in(&mut self, key: &Key, number: Number) -> Option<Hears> {
        let (asked_in, place) = *self.asked_in.get(key)?;
        (asked_in == number).then(|| self.listen(number, place))?
    }

    /// Puts a single question into the batch that gathers for its urgency.
    pub(super) fn gather(
        &mut self,
        key: Key,
        node: NodeRef,
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
        let hears = self.ask(number, key, node);
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
    pub(super) fn ask(&mut self, number: Number, key: Key, node: NodeRef) -> Hears {
        let (sender, hears) = oneshot::channel();
        if let Some(batch) = self.batches.get_mut(&number) {
            self.asked_in.insert(key.clone(), (number, batch.questions.len()));
            batch.questions.push(Question { key, node, waiting: vec![sender] });
        }
        hears
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

    fn listen(&mut self, number: Number, place: usize) -> Option<Hears> {
        let question = self.batches.get_mut(&number)?.questions.get_mut(place)?;
        let (sender, hears) = oneshot::channel();
        question.waiting.retain(|sender| !sender.is_closed());
        question.waiting.push(sender);
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
