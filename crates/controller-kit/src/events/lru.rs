//! A map that forgets what was not touched for longest.

use std::collections::{BTreeMap, HashMap};

#[derive(Debug)]
pub(super) struct Lru<V> {
    capacity: usize,
    values: HashMap<String, (u64, V)>,
    /// When each key was last touched, oldest first.
    ages: BTreeMap<u64, String>,
    clock: u64,
}

impl<V> Lru<V> {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, values: HashMap::new(), ages: BTreeMap::new(), clock: 0 }
    }

    /// The value of a key, made if there is none; it is now the youngest.
    pub(super) fn touch(&mut self, key: &str, make: impl FnOnce() -> V) -> &mut V {
        self.clock += 1;
        if let Some((age, _)) = self.values.get(key) {
            self.ages.remove(age);
        } else if self.values.len() >= self.capacity
            && let Some((_, oldest)) = self.ages.pop_first()
        {
            self.values.remove(&oldest);
        }
        self.ages.insert(self.clock, key.to_owned());
        let entry = self.values.entry(key.to_owned()).or_insert_with(|| (0, make()));
        entry.0 = self.clock;
        &mut entry.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_touched_is_forgotten() {
        let mut lru = Lru::new(2);
        *lru.touch("a", || 0) = 1;
        *lru.touch("b", || 0) = 2;
        assert_eq!(*lru.touch("a", || 0), 1);
        *lru.touch("c", || 0) = 3;
        assert_eq!(*lru.touch("a", || 0), 1);
        assert_eq!(*lru.touch("b", || 0), 0, "it was the oldest when c came");
        assert_eq!((lru.values.len(), lru.ages.len()), (2, 2));
    }
}
