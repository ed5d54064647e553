//! The only place where patches are built.
