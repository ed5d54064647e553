//! The parts of a provider's context, as recorders and switches: what a test hands to a provider and looks at afterwards.

mod clock;
mod gate;
mod readers;
mod recorders;
mod switches;

pub use clock::TestClock;
pub use gate::{Admitted, Mode, RecordingGate};
pub use readers::{Nodes, Services};
pub use recorders::{Event, Events, Measurements};
pub use switches::{Ending, Leader};
