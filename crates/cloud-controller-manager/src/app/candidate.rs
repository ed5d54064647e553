//! This process as a candidate for the lease, or as the only one there is.

use std::sync::Arc;

use anyhow::Context as _;
use cloud_provider::well_known::event_reasons;
use controller_kit::events::Recorder;
use controller_kit::leader::{self, Elector, Ended, KubeLease, Leadership, Listener, Notice, Surroundings};
use controller_kit::lifecycle::Shutdown;
use k8s_openapi::api::core::v1::ObjectReference;

use super::Process;
use crate::config::{Election, LeaseName};

/// Who may work in this process.
pub(super) enum Candidate {
    /// Whoever holds the lease.
    ForLease(Box<Elector>),
    /// This process, because nobody else runs.
    Unopposed,
}

impl Candidate {
    /// A candidate that has not tried yet; without an election, one that need not.
    pub(super) fn new(election: Option<&Election>, process: &Process) -> anyhow::Result<Self> {
        let Some(election) = election else { return Ok(Self::Unopposed) };
        let hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let identity = leader::identity(&hostname, &process.random);
        let client = process.clients.named("leader-election").unlimited().without_retries().build();
        let surroundings = Surroundings {
            store: Arc::new(KubeLease::new(client, &election.lease.namespace, &election.lease.name)),
            clock: Arc::clone(&process.clock),
            random: process.random.clone(),
            metrics: process.families.leader.clone(),
            listener: events_about(&election.lease, process.events.clone()),
        };
        let config = leader::Config {
            namespace: election.lease.namespace.clone(),
            name: election.lease.name.clone(),
            identity,
            timing: election.timing,
        };
        let elector = Elector::new(config, surroundings).context("setting up leader election")?;
        Ok(Self::ForLease(Box::new(elector)))
    }

    /// Tells at any time whether this process may write.
    pub(super) fn leadership(&self) -> Leadership {
        match self {
            Self::ForLease(elector) => elector.leadership(),
            Self::Unopposed => Leadership::unconditional(),
        }
    }

    /// Does `work` once this process leads.
    pub(super) async fn run<W, F>(self, stop: &Shutdown, work: W) -> Ended<F::Output>
    where
        W: FnOnce(Leadership) -> F,
        F: Future,
    {
        match self {
            Self::ForLease(elector) => elector.run(stop.token(), work).await,
            Self::Unopposed => Ended::Finished(work(Leadership::unconditional()).await),
        }
    }
}

/// Tells the world on the Lease who leads: what `kubectl describe lease` shows.
fn events_about(lease: &LeaseName, events: Recorder) -> Listener {
    let lease = reference(lease);
    Arc::new(move |notice| match notice {
        Notice::BecameLeader { .. } | Notice::StoppedLeading { .. } => {
            events.normal(&lease, event_reasons::LEADER_ELECTION, notice.to_string());
        }
        Notice::NewLeader { .. } => {}
    })
}

/// The Lease, as Events refer to it.
pub(super) fn reference(lease: &LeaseName) -> ObjectReference {
    ObjectReference {
        api_version: Some("coordination.k8s.io/v1".to_owned()),
        kind: Some("Lease".to_owned()),
        namespace: Some(lease.namespace.clone()),
        name: Some(lease.name.clone()),
        ..ObjectReference::default()
    }
}
