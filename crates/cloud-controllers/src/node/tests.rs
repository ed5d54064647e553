//! Tables and properties over the pure parts.

mod addresses;
mod labels;
mod plans;
