//! What was last told of an object, so that a failure that repeats itself is told once.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// After this long the same sentence is news again: Events live for an hour.
const STALE: Duration = Duration::from_secs(15 * 60);

/// The last sentence about each object, by name.
#[derive(Debug, Default)]
pub(crate) struct News(Mutex<BTreeMap<String, (String, Instant)>>);

impl News {
    /// Whether this was not the last that was told of the object, or is long ago; it then is what was told last.
    pub(crate) fn is_news(&self, name: &str, sentence: &str) -> bool {
        let now = Instant::now();
        let mut told = self.lock();
        let known = told.get(name).is_some_and(|(last, at)| last == sentence && now - *at < STALE);
        if !known {
            told.insert(name.to_owned(), (sentence.to_owned(), now));
        }
        !known
    }

    /// Nothing that was told holds any more.
    pub(crate) fn forget(&self, name: &str) {
        self.lock().remove(name);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, (String, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_sentence_is_news_once_until_it_changes_is_forgotten_or_is_old() {
        let news = News::default();
        assert!(news.is_news("a", "one") && news.is_news("b", "one"));
        assert!(!news.is_news("a", "one"));
        assert!(news.is_news("a", "two") && news.is_news("a", "one"));
        news.forget("a");
        assert!(news.is_news("a", "one"));
        tokio::time::advance(STALE).await;
        assert!(news.is_news("a", "one"));
    }
}
