//! What a leader does before anything else: forget what another leader removed while this machine stood by.

use std::collections::BTreeSet;
use std::time::Duration;

use cloud_provider::Proof;
use tracing::{info, warn};

use super::Inner;
use crate::intent::Intent;

/// How long the list of Services is waited for, and how often it is asked for.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);

impl Inner {
    /// Takes balancers out of the kept intent whose Service is gone. The kept intent is this machine's; the Services are
    /// everybody's, and another leader may have given an address on.
    pub(super) async fn forget_the_gone(&self) {
        if self.held.now().await.balancers.is_empty() {
            return;
        }
        let synced = async {
            while !self.services.is_synced() {
                tokio::time::sleep(PAUSE).await;
            }
        };
        if tokio::time::timeout(PATIENCE, synced).await.is_err() {
            return warn!("not all Services are known: the kept balancers are all taken up");
        }
        let services = self.services.list();
        let alive: BTreeSet<&str> =
            services.iter().filter_map(|service| service.metadata.uid.as_deref()).collect();
        let kept = self.held.now().await;
        let mut left = Intent::clone(&kept);
        left.balancers.retain(|uid, held| {
            alive.contains(uid.as_str())
                || Proof::by_cluster_tag(&self.cluster, held.cluster.as_deref()).is_err()
        });
        let gone = kept.balancers.len() - left.balancers.len();
        if gone == 0 || !self.leadership.may_act() {
            return;
        }
        info!(gone, "Services of kept balancers are gone: they are not taken up");
        // A change that came meanwhile made the same look at the Services.
        if let Err(error) = self.held.change(left, async |intent| self.carry_out(intent).await).await {
            warn!(%error, "the kept balancers are not forgotten yet");
        }
    }
}
