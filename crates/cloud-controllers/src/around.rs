//! What stands between the controllers and any cloud. No provider writes any of it.
//!
//! Read it in this order: [`urgency`] (whose call matters more), [`budget`] (how many calls at once, and whose turn it
//! is), [`operation`] and [`calls`] (how one call is made: turn, deadline, metrics, a net under it), [`loader`] (how the
//! node controllers ask for instances), [`gate`] (how changes pass, and the decision log), [`surrounded`] (all of it
//! around a whole [`Cloud`](cloud_provider::Cloud)), [`metrics`] (what is counted).
//!
//! ```
//! use cloud_controllers::around::{Age, Budget, Deadlines, Metrics, Urgency, budget, loader, surround};
//! use cloud_provider::{Cloud, NodeRef};
//!
//! # async fn start(cloud: Cloud, nodes: Vec<NodeRef>) {
//! let metrics = Metrics::unregistered();
//! let budget = Budget::new(&cloud.name, budget::Settings::default(), &metrics);
//! let surrounded = surround(cloud, budget, Deadlines::default(), &metrics);
//!
//! // The service controller creates through one handle and looks for drift through another.
//! let _create = surrounded.cloud(Urgency::Create);
//! let _compare = surrounded.cloud(Urgency::Drift);
//!
//! // The node controllers share one loader.
//! if let Some(loader) = surrounded.loader(loader::Settings::default()) {
//!     let _answer = loader.one(&nodes[0], Urgency::Initialise).await;
//!     let _answers = loader.many(&nodes, Urgency::Refresh, Age::Now).await;
//! }
//! # }
//! ```

pub mod budget;
pub mod calls;
pub mod gate;
pub mod loader;
mod lookup;
pub mod metrics;
pub mod operation;
pub mod surrounded;
pub mod urgency;

pub use self::budget::Budget;
pub use self::calls::Calls;
pub use self::gate::{DecisionLog, LeaseGate};
pub use self::loader::{Age, Loader};
pub use self::metrics::Metrics;
pub use self::operation::Deadlines;
pub use self::surrounded::{Surrounded, surround};
pub use self::urgency::Urgency;
