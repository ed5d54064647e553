//! The data plane under the provider, with what may happen on the way to it.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use cloud_provider::{Change, Context, Permit};
use provider_local::config::AddressChoice;
use provider_local::intent::status::{BalancerStatus, ListenerStatus};
use provider_local::intent::{Intent, Status};
use provider_local::nft::{Nft, Options};
use provider_local::plane::{DataPlane, Forwarding, PlaneError};
use testkit::conformance::context::{Leader, Mode, RecordingGate};

use super::trouble::{Course, Trouble};

/// A data plane behind trouble. Cheap to clone: all clones hold the same intent.
#[derive(Clone)]
pub(crate) struct Plane {
    ground: Ground,
    trouble: Trouble,
}

/// What holds the intent.
#[derive(Clone)]
enum Ground {
    /// A value, and nothing forwards.
    Value(Arc<Mutex<Intent>>),
    /// The kernel of this thread's network namespace.
    Kernel(Arc<Nft>),
}

impl Plane {
    /// A data plane in name.
    pub(crate) fn in_name(trouble: Trouble) -> Self {
        Self { ground: Ground::Value(Arc::new(Mutex::new(Intent::empty()))), trouble }
    }

    /// The data plane in the kernel, with nothing in it.
    pub(crate) async fn in_kernel(trouble: Trouble, folder: &Path) -> Self {
        provider_local::nft::cleanup().await.unwrap();
        let mut context = Context::inert();
        context.leadership = Arc::new(Leader::new(true));
        let state = folder.join("intent.json");
        let _ = std::fs::remove_file(&state);
        let options =
            Options { state: Some(state), addresses: AddressChoice::Routed, scan: Duration::from_secs(1) };
        Self { ground: Ground::Kernel(Arc::new(Nft::open(options, &context).await.unwrap())), trouble }
    }

    /// The intent in force, past all trouble.
    pub(crate) async fn now(&self) -> Intent {
        match &self.ground {
            Ground::Value(held) => held.lock().unwrap().clone(),
            Ground::Kernel(plane) => plane.intent().await.unwrap(),
        }
    }

    /// Changes the intent behind the provider's back.
    pub(crate) async fn edit(&self, change: impl FnOnce(&mut Intent)) {
        let mut intent = self.now().await;
        change(&mut intent);
        let changes = RecordingGate::new(Mode::Open).changes();
        let made = changes.make(Change::create("load balancer", "edited"), |permit| async move {
            self.put(intent, &permit).await.map_err(|error| error.during("editing"))
        });
        made.await.unwrap();
    }

    async fn put(&self, intent: Intent, permit: &Permit) -> Result<u64, PlaneError> {
        match &self.ground {
            Ground::Kernel(plane) => plane.apply(intent, permit).await,
            Ground::Value(held) => {
                intent.check().map_err(|refusal| PlaneError::Refused(refusal.to_string()))?;
                let mut held = held.lock().unwrap();
                if intent.revision != held.revision {
                    return Err(PlaneError::Conflict { in_force: held.revision, made_from: intent.revision });
                }
                *held = Intent { revision: intent.revision + 1, ..intent };
                Ok(held.revision)
            }
        }
    }

    async fn shown(&self) -> Status {
        if let Ground::Kernel(plane) = &self.ground {
            return plane.status().await.unwrap();
        }
        let intent = self.now().await;
        let balancers = intent.balancers.iter().map(|(uid, balancer)| {
            let open = |listener| ListenerStatus { listener, failure: None };
            let listeners = balancer.listeners().map(open).collect();
            (uid.clone(), BalancerStatus { listeners, ..BalancerStatus::default() })
        });
        Status { revision: intent.revision, balancers: balancers.collect() }
    }

    /// Reads something, with what may happen on the way.
    async fn tell<T>(&self, look: impl Future<Output = T> + Send) -> Result<T, PlaneError> {
        let course = self.trouble.read().await.map_err(lost)?;
        self.trouble.travel().await;
        let told = look.await;
        self.trouble.travel().await;
        match course {
            Course::Straight | Course::Empty => Ok(told),
            Course::LoseAnswer => Err(lost(io::ErrorKind::ConnectionReset.into())),
            Course::Garble => Err(lost(io::ErrorKind::InvalidData.into())),
        }
    }
}

#[async_trait]
impl DataPlane for Plane {
    fn forwarding(&self) -> Forwarding {
        match &self.ground {
            Ground::Value(_) => Forwarding::UserSpace,
            Ground::Kernel(plane) => plane.forwarding(),
        }
    }

    async fn intent(&self) -> Result<Intent, PlaneError> {
        self.tell(self.now()).await
    }

    async fn status(&self) -> Result<Status, PlaneError> {
        self.tell(self.shown()).await
    }

    async fn apply(&self, intent: Intent, permit: &Permit) -> Result<u64, PlaneError> {
        let course = self.trouble.write().await.map_err(lost)?;
        self.trouble.travel().await;
        let revision = self.put(intent, permit).await?;
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
