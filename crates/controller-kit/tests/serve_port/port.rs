//! A secure port for a test, on loopback, and the site that it shows.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use controller_kit::clock::SystemClock;
use controller_kit::lifecycle::Shutdown;
use controller_kit::serve::auth::{self, Access, Authentication, Authorization, Reviews, Trust};
use controller_kit::serve::health::Checks;
use controller_kit::serve::{Application, Contents, Options, Server, Site};
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::task::JoinHandle;

/// A port that serves until it is dropped.
pub(crate) struct Port {
    pub(crate) address: SocketAddr,
    pub(crate) stop: Shutdown,
    pub(crate) task: JoinHandle<()>,
}

impl Drop for Port {
    fn drop(&mut self) {
        self.stop.trigger();
    }
}

/// Loopback, any free port, a self-signed certificate.
pub(crate) fn options() -> Options {
    Options { bind_address: [127, 0, 0, 1].into(), port: Some(0), ..Options::default() }
}

pub(crate) async fn serve(options: &Options, application: Arc<dyn Application>) -> Port {
    let server = Server::bind(options, Arc::new(SystemClock)).await.unwrap().unwrap();
    let (address, stop) = (server.address(), Shutdown::new());
    let told = stop.clone();
    let task = tokio::spawn(async move { server.run(application, &told).await });
    Port { address, stop, task }
}

/// Access for which nothing is open but the health endpoints, unless `reviews` says so.
pub(crate) fn access(trust: Trust, reviews: Option<Arc<dyn Reviews>>) -> Access {
    Access::new(
        &Authentication::default(),
        &Authorization::default(),
        Arc::new(trust),
        reviews,
        Arc::new(SystemClock),
        auth::Metrics::unregistered(),
    )
}

/// Access that lets everybody see everything.
pub(crate) fn open() -> Access {
    let authorization =
        Authorization { always_allow_paths: vec!["/*".to_owned()], ..Authorization::default() };
    Access::new(
        &Authentication::default(),
        &authorization,
        Arc::new(Trust::nobody()),
        None,
        Arc::new(SystemClock),
        auth::Metrics::unregistered(),
    )
}

pub(crate) fn contents(access: Access, checks: Checks, registry: Registry) -> Contents {
    Contents {
        component: "cloud-controller-manager".into(),
        version: "v0.1.0".into(),
        checks,
        metrics: Arc::new(registry),
        configz: BTreeMap::from([(
            "cloudcontrollermanager.config.k8s.io".to_owned(),
            json!({"Generic": {}}),
        )]),
        flags: BTreeMap::from([("cloud-provider".into(), "fake".into()), ("v".into(), "2".into())]),
        log: None,
        access,
        clock: Arc::new(SystemClock),
    }
}

pub(crate) fn site(access: Access) -> Arc<Site> {
    let mut registry = Registry::default();
    let _ = controller_kit::metrics::Metrics::register(&mut registry);
    Arc::new(Site::new(contents(access, Checks::new(), registry)))
}
