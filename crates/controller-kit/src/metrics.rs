//! The metrics registry.
