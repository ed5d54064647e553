//! A table of routes in memory: those of ours, and what others put beside them.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use cloud_provider::Permit;
use ipnet::IpNet;
use provider_local::netlink::{Kind, Route};
use provider_local::routes::Table;
use provider_local::routes::table::TableError;

use super::trouble::{Course, Trouble};

/// A table. Cheap to clone: all clones hold the same routes.
#[derive(Clone)]
pub(crate) struct HeldTable {
    pub(crate) routes: Arc<Mutex<Vec<Entry>>>,
    trouble: Trouble,
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) route: Route,
    /// Whether it carries our protocol number.
    pub(crate) is_ours: bool,
}

impl HeldTable {
    pub(crate) fn new(trouble: Trouble) -> Self {
        Self { routes: Arc::default(), trouble }
    }

    /// Puts a route there by another's hand.
    pub(crate) fn plant(&self, destination: IpNet, metric: u32, is_ours: bool) {
        let kind = Kind::Via([10, 0, 99, 99].into());
        self.routes.lock().unwrap().push(Entry { route: Route { destination, kind, metric }, is_ours });
    }

    /// Lets a route lead nowhere.
    pub(crate) fn blackhole(&self, destination: IpNet) {
        let mut routes = self.routes.lock().unwrap();
        let found = routes.iter_mut().find(|entry| entry.route.destination == destination).unwrap();
        found.route.kind = Kind::Nowhere;
    }

    async fn change(&self, change: impl FnOnce(&mut Vec<Entry>) + Send) -> Result<(), TableError> {
        let course = self.trouble.write().await?;
        self.trouble.travel().await;
        change(&mut self.routes.lock().unwrap());
        self.trouble.travel().await;
        match course {
            Course::LoseAnswer => Err(io::Error::from(io::ErrorKind::ConnectionReset).into()),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Table for HeldTable {
    async fn list(&self) -> Result<Vec<Route>, TableError> {
        let course = self.trouble.read().await?;
        self.trouble.travel().await;
        let ours =
            self.routes.lock().unwrap().iter().filter(|entry| entry.is_ours).cloned().collect::<Vec<_>>();
        self.trouble.travel().await;
        match course {
            Course::Straight | Course::Empty => Ok(ours.into_iter().map(|entry| entry.route).collect()),
            Course::LoseAnswer => Err(io::Error::from(io::ErrorKind::ConnectionReset).into()),
            Course::Garble => Err(io::Error::from(io::ErrorKind::InvalidData).into()),
        }
    }

    async fn own_addresses(&self) -> Result<BTreeSet<IpAddr>, TableError> {
        Ok(BTreeSet::new())
    }

    async fn make(&self, route: &Route, replaces: bool, _: &Permit) -> Result<(), TableError> {
        self.change(|routes| {
            let same = |entry: &Entry| {
                entry.is_ours
                    && (entry.route.destination, entry.route.metric) == (route.destination, route.metric)
            };
            assert_eq!(routes.iter().any(same), replaces, "the kernel would refuse {route}");
            routes.retain(|entry| !same(entry));
            routes.push(Entry { route: route.clone(), is_ours: true });
        })
        .await
    }

    async fn remove(&self, route: &Route, _: &Permit) -> Result<(), TableError> {
        self.change(|routes| routes.retain(|entry| !entry.is_ours || entry.route != *route)).await
    }
}
