//! Chores of this repository.

fn main() {}
