//! The inventory as it is now: read again at each look, the last good one kept while the file is broken.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use cloud_provider::context::{Family, MetricType, Metrics};
use cloud_provider::{Error, Snapshot};
use tokio::sync::Mutex;

use crate::config::Defaults;

/// Where an inventory is read from.
#[async_trait]
pub trait Source: Send + Sync + 'static {
    /// Where it is, for messages.
    fn place(&self) -> String;

    /// The whole of it, now.
    async fn read(&self) -> io::Result<Vec<u8>>;
}

/// An inventory in a file.
#[derive(Debug, Clone)]
pub struct InventoryFile(pub PathBuf);

#[async_trait]
impl Source for InventoryFile {
    fn place(&self) -> String {
        self.0.display().to_string()
    }

    async fn read(&self) -> io::Result<Vec<u8>> {
        tokio::fs::read(&self.0).await
    }
}

/// Whether the inventory in force is older than its file.
pub(crate) const STALE: Family = Family {
    name: "nephos_local_inventory_stale",
    help: "1 while the inventory file cannot be used and the last good one is in force",
    type_: MetricType::Gauge,
    labels: &[],
};

/// An inventory and the version of it that is in force.
pub struct Watched {
    source: Arc<dyn Source>,
    site: String,
    defaults: Defaults,
    metrics: Arc<dyn Metrics>,
    /// Only one look at a time: the version in force never goes back.
    now: Mutex<Now>,
}

struct Now {
    /// The bytes that were read at the last look, good or not; `None` if it brought none.
    bytes: Option<Vec<u8>>,
    good: Arc<Snapshot>,
    trouble: Option<String>,
}

/// What one look found.
#[derive(Debug, Clone)]
pub struct Look {
    /// The last good inventory.
    pub good: Arc<Snapshot>,
    /// Why the file is not what is in force; `None` if it is.
    pub trouble: Option<String>,
}

impl Watched {
    /// Reads the inventory for the first time: there is no last good one yet, so a broken one is refused.
    pub async fn open(
        source: Arc<dyn Source>,
        site: &str,
        defaults: Defaults,
        metrics: Arc<dyn Metrics>,
    ) -> Result<Self, Error> {
        let place = source.place();
        let bytes = source.read().await.map_err(|error| {
            Error::invalid_config(format!("reading the inventory {place}")).because(error)
        })?;
        let good = parse(&place, &bytes, site, &defaults)
            .map_err(|why| Error::invalid_config("reading the inventory").because(why))?;
        let now = Mutex::new(Now { bytes: Some(bytes), good: Arc::new(good), trouble: None });
        metrics.set(&STALE, &[], 0.0);
        Ok(Self { source, site: site.to_owned(), defaults, metrics, now })
    }

    /// Looks at the file. What is good is in force from now on; what is not leaves the last good one there.
    pub async fn look(&self) -> Look {
        let mut now = self.now.lock().await;
        match self.source.read().await {
            Ok(bytes) if now.bytes.as_ref() == Some(&bytes) => {}
            Ok(bytes) => {
                match parse(&self.source.place(), &bytes, &self.site, &self.defaults) {
                    Ok(good) => self.take(&mut now, good),
                    Err(why) => self.keep(&mut now, why),
                }
                now.bytes = Some(bytes);
            }
            Err(error) => {
                self.keep(&mut now, format!("reading {}: {error}", self.source.place()));
                now.bytes = None;
            }
        }
        Look { good: Arc::clone(&now.good), trouble: now.trouble.clone() }
    }

    fn take(&self, now: &mut Now, good: Snapshot) {
        tracing::info!(inventory = self.source.place(), machines = good.len(), "Read the inventory");
        now.good = Arc::new(good);
        now.trouble = None;
        self.metrics.set(&STALE, &[], 0.0);
    }

    fn keep(&self, now: &mut Now, why: String) {
        if now.trouble.as_ref() != Some(&why) {
            tracing::error!(
                why,
                machines = now.good.len(),
                "The inventory cannot be used: the last good one stays in force"
            );
        }
        now.trouble = Some(why);
        self.metrics.set(&STALE, &[], 1.0);
    }
}

fn parse(place: &str, bytes: &[u8], site: &str, defaults: &Defaults) -> Result<Snapshot, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| format!("{place}:1: {error}"))?;
    super::parse(place, text, site, defaults).map_err(|problems| problems.to_string())
}

#[cfg(test)]
mod tests;
