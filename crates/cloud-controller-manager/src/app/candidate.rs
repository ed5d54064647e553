//! This process as a candidate for the lease, or as the only one there is.

use std::sync::Arc;

use anyhow::Context as _;
use controller_kit::client::Clients;
use controller_kit::clock::SharedClock;
use controller_kit::leader::{self, Elector, Ended, KubeLease, Leadership, Notice, Surroundings};
use controller_kit::lifecycle::Shutdown;
use controller_kit::random::Randomness;
use prometheus_client::registry::Registry as MetricsRegistry;

use crate::config::Election;

/// Who may work in this process.
pub(super) enum Candidate {
    /// Whoever holds the lease.
    ForLease(Box<Elector>),
    /// This process, because nobody else runs.
    Unopposed,
}

impl Candidate {
    /// A candidate that has not tried yet; without an election, one that need not.
    pub(super) fn new(
        election: Option<&Election>,
        clients: &Clients,
        clock: &SharedClock,
        random: &Randomness,
        metrics: &mut MetricsRegistry,
    ) -> anyhow::Result<Self> {
        let Some(election) = election else { return Ok(Self::Unopposed) };
        let hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let identity = leader::identity(&hostname, random);
        let client = clients.named("leader-election").unlimited().without_retries().build();
        let surroundings = Surroundings {
            store: Arc::new(KubeLease::new(client, &election.namespace, &election.name)),
            clock: Arc::clone(clock),
            random: random.clone(),
            metrics: leader::Metrics::register(metrics),
            listener: Arc::new(|_: &Notice| {}),
        };
        let config = leader::Config {
            namespace: election.namespace.clone(),
            name: election.name.clone(),
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
