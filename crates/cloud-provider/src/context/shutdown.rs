//! The end, announced.

use super::BoxFuture;

/// When to end.
pub trait Shutdown: Send + Sync + 'static {
    /// Whether the end was announced.
    fn is_requested(&self) -> bool;

    /// Completes when the end is announced.
    fn requested(&self) -> BoxFuture<()>;
}
