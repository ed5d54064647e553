//! How balancers that several intents share are written and read: like any others.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize as _, Deserializer, Serializer};

use super::{Balancer, Uid};

/// Balancers, as intents share them.
type Shared = BTreeMap<Uid, Arc<Balancer>>;

pub(super) fn serialize<S: Serializer>(balancers: &Shared, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(balancers.iter().map(|(uid, balancer)| (uid, &**balancer)))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Shared, D::Error> {
    let balancers = BTreeMap::<Uid, Balancer>::deserialize(deserializer)?;
    Ok(balancers.into_iter().map(|(uid, balancer)| (uid, Arc::new(balancer))).collect())
}
