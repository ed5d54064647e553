//! The node lifecycle controller: Nodes whose instance is gone are deleted, with proof.
