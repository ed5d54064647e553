//! Instances as the back door makes and shows them.

/// What an instance should be like. A stand-in follows as far as its cloud allows and tells what it made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seed {
    /// Its name, which is also the Node's.
    pub name: String,
    /// Which of the cloud's zones; any number is good.
    pub zone: usize,
}

impl Seed {
    /// An instance of this name in the first zone.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), zone: 0 }
    }
}

/// An instance as the cloud's own console shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Instance {
    /// Its provider ID, whole.
    pub provider_id: String,
    /// Its name.
    pub name: String,
    /// Its type; empty if the cloud has none.
    pub instance_type: String,
    /// Its zone; empty if the cloud has none.
    pub zone: String,
    /// Its region; empty if the cloud has none.
    pub region: String,
    /// Its addresses, as types of Node addresses and texts, in any order.
    pub addresses: Vec<(String, String)>,
}
