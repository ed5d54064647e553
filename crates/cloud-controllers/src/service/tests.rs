//! Tables and properties over what is pure.

mod backends;
mod plans;
mod wishes;
