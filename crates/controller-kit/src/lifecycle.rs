//! Start groups in order, stop them in reverse.
