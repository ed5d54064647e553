//! Workers over a queue.
