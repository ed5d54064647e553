//! Certificates that changed on disk come into force without a restart. Files are polled and their bytes compared: a
//! projected volume swaps symbolic links, which file-system events tell of unreliably.

use std::time::Duration;

use super::pair::self_signed;
use super::store::{Certificates, Pems, Source, build, read_all};
use crate::lifecycle::Shutdown;
use crate::log::report;

/// How often the files are looked at.
pub const POLL: Duration = Duration::from_secs(10);
/// A self-signed certificate is made anew after this time; it is good for a year.
pub(super) const RENEW_AFTER: Duration = Duration::from_secs(270 * 86_400);

impl Certificates {
    /// Keeps the certificates fresh until `stop` is triggered.
    pub async fn reload_on_change(&self, stop: &Shutdown) {
        while stop.or_stop(tokio::time::sleep(POLL)).await.is_some() {
            self.reload().await;
        }
    }

    /// Looks at the files once. Answers whether other certificates are in force now.
    pub(super) async fn reload(&self) -> bool {
        let mut loaded = self.loaded.lock().await;
        let pems = match self.read(&loaded.pems, loaded.at).await {
            Ok(pems) => pems,
            Err(error) => {
                if !std::mem::replace(&mut loaded.unreadable, true) {
                    tracing::error!(error = %report(&error), "Keeping the serving certificate in force");
                }
                return false;
            }
        };
        loaded.unreadable = false;
        if pems == loaded.pems {
            loaded.refused = None;
            return false;
        }
        match build(&self.source, &self.sni, &pems, &self.provider) {
            Ok(shown) => {
                self.show(shown);
                (loaded.pems, loaded.at, loaded.refused) = (pems, self.clock.now(), None);
                tracing::info!("Serving certificate changed");
                true
            }
            Err(error) => {
                if loaded.refused.as_ref() != Some(&pems) {
                    tracing::error!(error = %report(&error), "Keeping the serving certificate in force");
                }
                loaded.refused = Some(pems);
                false
            }
        }
    }

    /// What should be in force: the files as they are, or a new self-signed pair when the old one has aged.
    async fn read(&self, current: &Pems, at: jiff::Timestamp) -> Result<Pems, super::PairError> {
        let now = self.clock.now();
        let default = match &self.source {
            Source::Files(files) => files.read().await?,
            Source::SelfSigned { .. } if now.duration_since(at).unsigned_abs() <= RENEW_AFTER => {
                current.default.clone()
            }
            Source::SelfSigned { name, hostname, addresses, kept_in } => {
                let pem = self_signed(name, hostname.clone(), addresses, now)?;
                if let Some(files) = kept_in {
                    files.write(&pem).await?;
                }
                pem
            }
        };
        Ok(Pems { default, named: read_all(&self.sni).await? })
    }
}

#[cfg(test)]
mod tests;
