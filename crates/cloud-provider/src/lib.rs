//! The contract between Nephos and a cloud.
