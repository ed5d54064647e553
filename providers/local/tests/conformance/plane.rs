//! A data plane that holds its intent and forwards nothing.

use std::io;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use cloud_provider::Permit;
use provider_local::intent::status::{BalancerStatus, ListenerStatus};
use provider_local::intent::{Intent, Status};
use provider_local::plane::{DataPlane, PlaneError};

use super::trouble::{Course, Trouble};

/// A data plane in name. Cheap to clone: all clones hold the same intent.
#[derive(Clone)]
pub(crate) struct HeldPlane {
    pub(crate) held: Arc<Mutex<Intent>>,
    pub(crate) trouble: Trouble,
}

impl HeldPlane {
    pub(crate) fn new(trouble: Trouble) -> Self {
        Self { held: Arc::new(Mutex::new(Intent::empty())), trouble }
    }

    fn now(&self) -> Intent {
        self.held.lock().unwrap().clone()
    }

    /// Reads something, with what may happen on the way.
    async fn tell<T>(&self, look: impl FnOnce(Intent) -> T + Send) -> Result<T, PlaneError> {
        let course = self.trouble.read().await.map_err(lost)?;
        self.trouble.travel().await;
        let told = look(self.now());
        self.trouble.travel().await;
        match course {
            Course::Straight | Course::Empty => Ok(told),
            Course::LoseAnswer => Err(lost(io::ErrorKind::ConnectionReset.into())),
            Course::Garble => Err(lost(io::ErrorKind::InvalidData.into())),
        }
    }
}

#[async_trait]
impl DataPlane for HeldPlane {
    async fn intent(&self) -> Result<Intent, PlaneError> {
        self.tell(|intent| intent).await
    }

    async fn status(&self) -> Result<Status, PlaneError> {
        self.tell(|intent| {
            let balancers = intent.balancers.iter().map(|(uid, balancer)| {
                let open = |listener| ListenerStatus { listener, failure: None };
                let listeners = balancer.listeners().map(open).collect();
                (uid.clone(), BalancerStatus { listeners, ..BalancerStatus::default() })
            });
            Status { revision: intent.revision, balancers: balancers.collect() }
        })
        .await
    }

    async fn apply(&self, intent: Intent, _: &Permit) -> Result<u64, PlaneError> {
        let course = self.trouble.write().await.map_err(lost)?;
        self.trouble.travel().await;
        intent.check().map_err(|refusal| PlaneError::Refused(refusal.to_string()))?;
        let revision = {
            let mut held = self.held.lock().unwrap();
            if intent.revision != held.revision {
                return Err(PlaneError::Conflict { in_force: held.revision, made_from: intent.revision });
            }
            *held = Intent { revision: intent.revision + 1, ..intent };
            held.revision
        };
        self.trouble.travel().await;
        match course {
            Course::LoseAnswer => Err(lost(io::ErrorKind::ConnectionReset.into())),
            _ => Ok(revision),
        }
    }
}

fn lost(source: io::Error) -> PlaneError {
    PlaneError::Unreachable { place: "the stand-in".to_owned(), source }
}
