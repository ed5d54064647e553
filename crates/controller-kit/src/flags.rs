//! Go-style flag values.
