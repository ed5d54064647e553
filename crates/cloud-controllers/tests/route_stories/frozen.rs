//! A process that won the lease, and whose renewals then stop as if it were frozen.

use std::sync::Arc;

use controller_kit::clock::SharedClock;
use controller_kit::leader::{Config, Elector, KubeLease, Leadership, Metrics, Surroundings, Timing};
use controller_kit::random::Randomness;
use testkit::ApiServer;
use tokio_util::sync::CancellationToken;

/// The leadership of a process that never renews it: it may write for nine tenths of its lease, 13.5 s.
pub(crate) async fn frozen_leader(server: &ApiServer, clock: &SharedClock) -> Leadership {
    let config = Config {
        namespace: "kube-system".into(),
        name: "ccm".into(),
        identity: "a".into(),
        timing: Timing::default(),
    };
    let surroundings = Surroundings {
        store: Arc::new(KubeLease::new(server.client(), "kube-system", "ccm")),
        clock: clock.clone(),
        random: Randomness::seeded(1),
        metrics: Metrics::unregistered(),
        listener: Arc::new(|_| {}),
    };
    let mut elector = Elector::new(config, surroundings).unwrap();
    assert!(elector.acquire(&CancellationToken::new()).await);
    elector.leadership()
}
