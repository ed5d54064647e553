//! The core/v1 event recorder.
