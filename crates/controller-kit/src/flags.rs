//! Flag values as Go programs read and print them, so that a command line written for a Go component works here
//! byte for byte. Knows no flag by name; the binary's options do.

mod argv;
mod assignment;
mod boolean;
mod duration;

pub use argv::{go_style, normalize};
pub use assignment::{AssignmentError, assignment, merged};
pub use boolean::{BoolError, boolean};
pub use duration::{DurationError, GoDuration};

#[cfg(test)]
mod tests;
