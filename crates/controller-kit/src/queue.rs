//! The keyed work queue.
