//! The processes that changed tables for us a moment ago: what is heard of their changes is no news.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// How many of them are remembered.
const REMEMBERED: usize = 64;

/// The last of them.
#[derive(Debug, Default)]
pub(super) struct Writers(Mutex<VecDeque<u32>>);

impl Writers {
    /// Notes one, by the number of its process.
    pub(super) fn note(&self, number: u32) {
        let mut writers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if writers.len() == REMEMBERED {
            writers.pop_front();
        }
        writers.push_back(number);
    }

    /// Whether this process was one.
    pub(super) fn wrote(&self, number: u32) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&number)
    }
}
