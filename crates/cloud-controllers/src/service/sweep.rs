//! The orphan sweeper: what the cloud says is this cluster's, and whose Service is gone, is removed after a quarantine.
//!
//! What it takes: our tag with this cluster's identity on the object; no Service with its UID in the cache for the whole
//! quarantine, nor in a list that the API server itself answers just before; a picture that is plausible. Anything else is
//! left for the next round.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cloud_provider::load_balancer::{Identity, Owned};
use cloud_provider::ownership::Ground;
use controller_kit::cache::Key;
use controller_kit::log::report;
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::ListParams;
use tokio::time::Instant;

use super::lanes::Lane;
use super::ledger::uid;
use super::settings::Sweep;
use super::sync::{Core, Setback, setback};
use super::wish;

/// A cache that heard nothing for longer than this proves no absence.
const LONGEST_SILENCE: Duration = Duration::from_secs(10 * 60);

/// How many Services a page of the confirming list has.
const PAGE: u32 = 500;

/// Since when each orphan, by the UID of its Service, has been without one.
#[derive(Debug, Default)]
pub(super) struct Quarantine(BTreeMap<String, Instant>);

impl Quarantine {
    /// Notes who is an orphan now, and forgets the others; whose time is over.
    fn look(&mut self, orphans: &BTreeSet<String>, time: Duration, now: Instant) -> BTreeSet<String> {
        self.0.retain(|uid, _| orphans.contains(uid));
        for uid in orphans {
            self.0.entry(uid.clone()).or_insert(now);
        }
        self.0.iter().filter(|(_, since)| now - **since >= time).map(|(uid, _)| uid.clone()).collect()
    }

    fn is_new(&self, uid: &str) -> bool {
        !self.0.contains_key(uid)
    }
}

impl Core {
    /// One round. Every doubt ends it.
    pub(super) async fn sweep(&self, quarantine: &mut Quarantine) {
        let silent = self.services.silence().is_none_or(|silence| silence > LONGEST_SILENCE);
        // A cluster without a single Service does not exist: its own API server has one.
        if silent || self.services.is_empty() {
            tracing::debug!("No look for orphans: the picture of the cluster is old or empty");
            return;
        }
        let owned = match self.balancers.drift.list_owned(&self.cluster).await {
            Ok(owned) => owned,
            Err(error) => {
                tracing::debug!(err = %report(&error), "Cannot look for orphans");
                return;
            }
        };
        let orphans: Vec<Owned> = owned.into_iter().filter(|owned| self.is_orphan(owned)).collect();
        for orphan in orphans.iter().filter(|orphan| quarantine.is_new(&orphan.identity.uid)) {
            let Owned { identity, objects, .. } = orphan;
            tracing::warn!(service = %named(identity), uid = identity.uid, ?objects, "The cloud has something for a service that is gone");
        }
        self.metrics.orphans.set(i64::try_from(orphans.len()).unwrap_or(i64::MAX));
        let uids: BTreeSet<String> = orphans.iter().map(|orphan| orphan.identity.uid.clone()).collect();
        let due = quarantine.look(&uids, self.settings.quarantine, Instant::now());
        if due.is_empty() || self.settings.sweep != Sweep::Remove {
            return;
        }
        let Some(living) = self.living().await else { return };
        let due = orphans.iter().filter(|orphan| due.contains(&orphan.identity.uid));
        let due = due.filter(|orphan| !living.contains(&orphan.identity.uid));
        for orphan in due.take(self.settings.sweep_at_most) {
            self.remove_orphan(orphan).await;
        }
    }

    /// Whether no Service that we know of has to do with it.
    fn is_orphan(&self, owned: &Owned) -> bool {
        let proven = *owned.proof.ground() == Ground::ClusterTag && !owned.identity.uid.is_empty();
        let terms = self.terms();
        let keeps = |service: &Service| {
            uid(service) == owned.identity.uid && (wish::wants(service, &terms) || wish::is_held(service))
        };
        let claimed = self.ledger.works_for(&owned.identity.uid);
        proven && !claimed && !self.services.list().iter().any(|service| keeps(service))
    }

    /// The UIDs of all Services that may have a load balancer, from the API server itself.
    async fn living(&self) -> Option<BTreeSet<String>> {
        let api: Api<Service> = Api::all(self.client.clone());
        let (terms, mut living, mut params) =
            (self.terms(), BTreeSet::new(), ListParams::default().limit(PAGE));
        loop {
            let page = match api.list(&params).await {
                Ok(page) => page,
                Err(error) => {
                    tracing::debug!(err = %report(&error), "Cannot confirm that services are gone");
                    return None;
                }
            };
            let keeps = |service: &&Service| wish::wants(service, &terms) || wish::is_held(service);
            living.extend(page.items.iter().filter(keeps).map(|service| uid(service).to_owned()));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Some(living),
            }
        }
    }

    async fn remove_orphan(&self, orphan: &Owned) {
        let Owned { identity, objects, .. } = orphan;
        // Nobody else works on a Service of this name meanwhile, and what came of it since counts.
        let key = Key::namespaced(&*identity.namespace, &*identity.name);
        let Some(_turn) = self.lanes.enter(Lane::Upkeep, &key).filter(|_| self.is_orphan(orphan)) else {
            return;
        };
        let changes = self.gate.changes_for(format!("orphan of service {}", named(identity)));
        match self.balancers.drift.delete(identity, None, &changes).await {
            Ok(()) => {
                self.metrics.swept("success");
                tracing::info!(service = %named(identity), uid = identity.uid, ?objects, "Removed what was left of a service that is gone");
            }
            Err(error) => {
                if let Setback::Failed(failure) = setback(&error, "failed to remove an orphan") {
                    self.metrics.swept("error");
                    tracing::warn!(service = %named(identity), err = failure.message, "Cannot remove what is left of a service");
                }
            }
        }
    }
}

fn named(identity: &Identity) -> String {
    format!("{}/{}", identity.namespace, identity.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_orphan_that_was_claimed_once_starts_its_quarantine_anew() {
        let (mut quarantine, start) = (Quarantine::default(), Instant::now());
        let hour = Duration::from_secs(3600);
        let both: BTreeSet<String> = ["a".to_owned(), "b".to_owned()].into();
        let only_a: BTreeSet<String> = ["a".to_owned()].into();
        assert!(quarantine.look(&both, hour, start).is_empty());
        assert!(quarantine.look(&only_a, hour, start + hour / 2).is_empty());
        assert_eq!(quarantine.look(&both, hour, start + hour), only_a);
        assert!(quarantine.look(&BTreeSet::new(), hour, start + 2 * hour).is_empty());
    }
}
