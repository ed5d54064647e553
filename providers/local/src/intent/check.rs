//! What no data plane can serve, found before anything is touched.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use super::{Balancer, Intent, Listener, PortKey, Uid, VERSION};

/// Why an intent is refused as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It was written by newer code.
    #[error("the intent has version {0}, newer than {VERSION}, which is all that is understood here")]
    Newer(u32),
    /// Two balancers want the same address and port.
    #[error("{listener} is wanted by both {first} and {second}")]
    DoubleUse {
        /// The address and port.
        listener: Listener,
        /// The namespace and name of one.
        first: String,
        /// The namespace and name of the other.
        second: String,
    },
    /// Two backends of a port have the same address and port.
    #[error("port {port} of {balancer} lists the backend {backend} twice")]
    DoubleBackend {
        /// The namespace and name of the balancer.
        balancer: String,
        /// The port.
        port: PortKey,
        /// The backend's address and port.
        backend: SocketAddr,
    },
    /// A port number of zero, for clients or of a backend.
    #[error("{balancer} has a port of number 0 at {port}")]
    PortZero {
        /// The namespace and name of the balancer.
        balancer: String,
        /// The port.
        port: PortKey,
    },
}

impl Intent {
    /// Whether a data plane can take this intent at all.
    pub fn check(&self) -> Result<(), Refusal> {
        self.check_after(&Self::empty())
    }

    /// The same after one that was found good: balancers that are the same are not looked at again.
    pub(crate) fn check_after(&self, good: &Self) -> Result<(), Refusal> {
        if self.version > VERSION {
            return Err(Refusal::Newer(self.version));
        }
        let mut taken: BTreeMap<Listener, &Uid> = BTreeMap::new();
        for (uid, balancer) in &self.balancers {
            if good.balancers.get(uid) != Some(balancer) {
                balancer.check()?;
            }
            for listener in balancer.listeners() {
                if let Some(first) = taken.insert(listener, uid) {
                    let first = self.balancers[first].full_name();
                    return Err(Refusal::DoubleUse { listener, first, second: balancer.full_name() });
                }
            }
        }
        Ok(())
    }
}

impl Balancer {
    /// `namespace/name`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    fn check(&self) -> Result<(), Refusal> {
        for (key, port) in &self.ports {
            if key.port == 0 || port.backends.iter().any(|backend| backend.port == 0) {
                return Err(Refusal::PortZero { balancer: self.full_name(), port: *key });
            }
            let mut seen = BTreeSet::new();
            if let Some(twice) = port.backends.iter().find(|backend| !seen.insert(backend.socket())) {
                return Err(Refusal::DoubleBackend {
                    balancer: self.full_name(),
                    port: *key,
                    backend: twice.socket(),
                });
            }
        }
        Ok(())
    }
}
