//! The node controller: Nodes are initialised, and kept true.
