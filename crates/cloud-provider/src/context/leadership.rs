//! Who may act.

use super::BoxFuture;

/// Whether this process leads. The gate asks for itself; this is for work that a provider starts of its own accord.
pub trait Leadership: Send + Sync + 'static {
    /// Whether this process may act now, computed at the time of the call.
    fn may_act(&self) -> bool;

    /// Completes when this process leads. A standby waits here for ever.
    fn leads(&self) -> BoxFuture<()>;
}
