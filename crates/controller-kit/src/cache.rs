//! One watch per kind, shared by all controllers.
