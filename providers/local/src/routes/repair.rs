//! Routes that are made again as soon as the kernel tells that somebody removed them.
//!
//! Only what this process itself was asked for, and only through the gate through which it was asked: a process that no
//! longer leads repairs nothing.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use cloud_provider::{Changes, ClusterIdentity, Decision, Error, Route, Routes};
use tokio_util::task::AbortOnDropHandle;

use super::{Kept, NodeRoutes};
use crate::netlink::{News, Watch};

/// How long news are gathered before the table is looked at: somebody who flushes a table makes many.
const GATHER: Duration = Duration::from_millis(100);

/// How long to wait after trouble before looking again.
const AFTER_TROUBLE: Duration = Duration::from_secs(1);

/// The slot, and a task beside it for as long as it lives.
pub struct Repaired {
    routes: Arc<NodeRoutes>,
    _task: Option<AbortOnDropHandle<()>>,
}

impl Repaired {
    /// Listens to the kernel of this thread's network namespace. Where that cannot be, the periodic comparison of the
    /// controller is what repairs.
    pub fn new(routes: NodeRoutes) -> Self {
        let routes = Arc::new(routes);
        let task = match Watch::open() {
            Ok(watch) => Some(AbortOnDropHandle::new(tokio::spawn(listen(watch, Arc::downgrade(&routes))))),
            Err(error) => {
                tracing::warn!(%error, "Cannot hear what happens to the routes; they are compared now and then");
                None
            }
        };
        Self { routes, _task: task }
    }
}

async fn listen(mut watch: Watch, routes: Weak<NodeRoutes>) {
    loop {
        match watch.next().await {
            Ok(news) if news.iter().all(|news| matches!(news, News::AddressGone(_))) => continue,
            Ok(_) => tokio::time::sleep(GATHER).await,
            Err(error) => {
                tracing::warn!(%error, "Cannot hear what happens to the routes");
                tokio::time::sleep(AFTER_TROUBLE).await;
            }
        }
        let Some(routes) = routes.upgrade() else { return };
        if let Err(error) = routes.repair().await {
            tracing::warn!(error = error.report(), "Cannot make routes again that somebody removed");
        }
    }
}

impl NodeRoutes {
    /// Makes again what is missing of what was asked for.
    pub async fn repair(&self) -> Result<(), Error> {
        let there = self.table.list().await.map_err(|error| error.during("listing the routes"))?;
        let missing: Vec<Kept> = {
            let kept = self.kept();
            kept.values().filter(|kept| !there.contains(&kept.route)).cloned().collect()
        };
        for kept in missing {
            match self.make_again(&kept).await {
                Ok(()) => self.tell_repair(&kept),
                Err(error) if matches!(error.decision(), Decision::Fenced | Decision::Recorded) => {
                    self.kept().remove(&kept.route.destination);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn make_again(&self, kept: &Kept) -> Result<(), Error> {
        let change = cloud_provider::Change::create(super::KIND, kept.route.to_string()).detail("again");
        let route = &kept.route;
        kept.changes
            .make(change, |permit| async move {
                let attempt = format!("making the route {route} again");
                self.table.make(route, false, &permit).await.map_err(|error| error.during(attempt))
            })
            .await
    }
}

#[async_trait]
impl Routes for Repaired {
    async fn list(&self, cluster: &ClusterIdentity) -> Result<Vec<Route>, Error> {
        self.routes.list(cluster).await
    }

    async fn create(
        &self,
        cluster: &ClusterIdentity,
        hint: &str,
        route: &Route,
        changes: &Changes,
    ) -> Result<(), Error> {
        self.routes.create(cluster, hint, route, changes).await
    }

    async fn delete(&self, cluster: &ClusterIdentity, route: &Route, changes: &Changes) -> Result<(), Error> {
        self.routes.delete(cluster, route, changes).await
    }
}
