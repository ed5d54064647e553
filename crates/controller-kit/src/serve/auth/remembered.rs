//! Answers of the API server that still count. Bounded in number and time; questions are kept as keyed digests only, so
//! that no token stays in memory; of equal questions at the same time one is asked.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ring::hmac;
use ring::rand::SystemRandom;
use tokio::sync::OnceCell;
use tokio::time::Instant;

/// How many answers are kept; the one that was not asked for longest makes room.
const CAPACITY: usize = 1024;

type Digest = [u8; 32];

/// The answers to one kind of question.
pub(super) struct Remembered<V, E> {
    /// `None` if the system gave no randomness: then nothing is remembered.
    key: Option<hmac::Key>,
    state: Mutex<State<V, E>>,
}

struct State<V, E> {
    answers: HashMap<Digest, Answer<V>>,
    /// When each answer was last used, the oldest first.
    ages: BTreeMap<u64, Digest>,
    clock: u64,
    asking: HashMap<Digest, Arc<OnceCell<Result<V, E>>>>,
}

struct Answer<V> {
    value: V,
    until: Instant,
    age: u64,
}

impl<V, E> std::fmt::Debug for Remembered<V, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remembered").finish_non_exhaustive()
    }
}

impl<V: Clone, E: Clone> Remembered<V, E> {
    pub(super) fn new() -> Self {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok();
        let (answers, ages, asking) = (HashMap::new(), BTreeMap::new(), HashMap::new());
        Self { key, state: Mutex::new(State { answers, ages, clock: 0, asking }) }
    }

    /// The answer to a question, remembered or asked for. `lasts` says for how long an answer counts; errors are told to
    /// all who wait and then forgotten.
    pub(super) async fn ask<F>(
        &self,
        question: &[&[u8]],
        lasts: impl Fn(&V) -> Duration,
        ask: impl FnOnce() -> F,
    ) -> Result<V, E>
    where
        F: Future<Output = Result<V, E>>,
    {
        let Some(digest) = self.key.as_ref().map(|key| digest(key, question)) else { return ask().await };
        if let Some(value) = self.lock().recall(&digest) {
            return Ok(value);
        }
        let cell = self.lock().asking.entry(digest).or_default().clone();
        // Whoever gives up while asking leaves it to the next who waits.
        let asking = Asking { remembered: self, digest, cell: &cell };
        let answer = cell.get_or_init(ask).await.clone();
        let mut state = self.lock();
        if let Ok(value) = &answer {
            state.keep(digest, value.clone(), lasts(value));
        }
        drop(state);
        drop(asking);
        answer
    }

    fn lock(&self) -> MutexGuard<'_, State<V, E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a question off the list when nobody waits for its answer any more, or it has one.
struct Asking<'a, V: Clone, E: Clone> {
    remembered: &'a Remembered<V, E>,
    digest: Digest,
    cell: &'a Arc<OnceCell<Result<V, E>>>,
}

impl<V: Clone, E: Clone> Drop for Asking<'_, V, E> {
    fn drop(&mut self) {
        let mut state = self.remembered.lock();
        // Two are the list's and the dropper's own.
        let last = Arc::strong_count(self.cell) <= 2;
        if let Some(listed) = state.asking.get(&self.digest)
            && Arc::ptr_eq(listed, self.cell)
            && (last || self.cell.initialized())
        {
            state.asking.remove(&self.digest);
        }
    }
}

impl<V: Clone, E> State<V, E> {
    fn recall(&mut self, digest: &Digest) -> Option<V> {
        self.clock += 1;
        let answer = self.answers.get_mut(digest)?;
        self.ages.remove(&answer.age);
        if answer.until <= Instant::now() {
            self.answers.remove(digest);
            return None;
        }
        answer.age = self.clock;
        self.ages.insert(self.clock, *digest);
        Some(answer.value.clone())
    }

    fn keep(&mut self, digest: Digest, value: V, lasts: Duration) {
        if lasts.is_zero() || self.answers.contains_key(&digest) {
            return;
        }
        if self.answers.len() >= CAPACITY
            && let Some((_, oldest)) = self.ages.pop_first()
        {
            self.answers.remove(&oldest);
        }
        self.clock += 1;
        self.ages.insert(self.clock, digest);
        self.answers.insert(digest, Answer { value, until: Instant::now() + lasts, age: self.clock });
    }
}

/// Lengths go in too, so that no two questions run together.
fn digest(key: &hmac::Key, question: &[&[u8]]) -> Digest {
    let mut context = hmac::Context::with_key(key);
    for part in question {
        context.update(&part.len().to_le_bytes());
        context.update(part);
    }
    let mut digest = Digest::default();
    digest.copy_from_slice(context.sign().as_ref());
    digest
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const TEN: Duration = Duration::from_secs(10);

    async fn ask(cache: &Remembered<usize, ()>, question: &str, asked: &AtomicUsize) -> usize {
        let next = || async { Ok(asked.fetch_add(1, Ordering::Relaxed)) };
        cache.ask(&[question.as_bytes()], |_| TEN, next).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_counts_for_its_time_and_no_longer() {
        let (cache, asked) = (Remembered::new(), AtomicUsize::new(0));
        assert_eq!(ask(&cache, "a", &asked).await, 0);
        tokio::time::advance(Duration::from_millis(9_999)).await;
        assert_eq!(ask(&cache, "a", &asked).await, 0, "use does not extend it");
        assert_eq!(ask(&cache, "b", &asked).await, 1);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(ask(&cache, "a", &asked).await, 2);
    }

    #[tokio::test]
    async fn the_number_of_answers_is_bounded_and_the_least_used_goes() {
        let (cache, asked) = (Remembered::new(), AtomicUsize::new(0));
        for number in 0..CAPACITY {
            ask(&cache, &number.to_string(), &asked).await;
        }
        ask(&cache, "0", &asked).await;
        ask(&cache, "one more", &asked).await;
        let sizes = |state: &State<_, _>| (state.answers.len(), state.ages.len(), state.asking.len());
        assert_eq!(sizes(&cache.lock()), (CAPACITY, CAPACITY, 0));
        let before = asked.load(Ordering::Relaxed);
        assert_eq!(ask(&cache, "0", &asked).await, 0);
        assert_eq!(ask(&cache, "1", &asked).await, before, "it was the oldest");
    }

    #[tokio::test(start_paused = true)]
    async fn equal_questions_at_once_are_asked_once_and_errors_are_not_kept() {
        let (cache, asked) = (Remembered::<usize, usize>::new(), AtomicUsize::new(0));
        let slow = || async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Err(asked.fetch_add(1, Ordering::Relaxed))
        };
        let one = || cache.ask(&[b"a"], |_| TEN, slow);
        let (first, second, third) = tokio::join!(one(), one(), one());
        assert_eq!((first, second, third), (Err(0), Err(0), Err(0)));
        assert_eq!(one().await, Err(1));
        assert!(cache.lock().asking.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_whose_asker_gave_up_is_asked_by_the_next() {
        let cache = Remembered::<usize, ()>::new();
        let never = cache.ask(&[b"a"], |_| TEN, std::future::pending);
        assert!(tokio::time::timeout(Duration::from_secs(1), never).await.is_err());
        assert!(cache.lock().asking.is_empty());
        assert_eq!(cache.ask(&[b"a"], |_| TEN, || async { Ok(7) }).await, Ok(7));
    }

    #[test]
    fn questions_do_not_run_together() {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).unwrap();
        assert_ne!(digest(&key, &[b"ab", b"c"]), digest(&key, &[b"a", b"bc"]));
        assert_ne!(digest(&key, &[b"ab", b""]), digest(&key, &[b"ab"]));
    }
}
