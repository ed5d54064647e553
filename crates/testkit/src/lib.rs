//! What tests stand on: an API server in virtual time, seeded faults, builders, stories.
