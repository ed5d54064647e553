//! The proxy as a data plane: in this process, or behind its socket.

use async_trait::async_trait;
use cloud_provider::Permit;

use super::{DataPlane, PlaneError};
use crate::intent::{Intent, Status};
use crate::proxy::{Client, FeedError, Keeper};

#[async_trait]
impl DataPlane for Keeper {
    async fn intent(&self) -> Result<Intent, PlaneError> {
        Ok((*Keeper::intent(self).await).clone())
    }

    async fn status(&self) -> Result<Status, PlaneError> {
        Ok(Keeper::status(self).await)
    }

    async fn apply(&self, intent: Intent, _: &Permit) -> Result<u64, PlaneError> {
        Ok(Keeper::apply(self, intent).await?)
    }
}

#[async_trait]
impl DataPlane for Client {
    async fn intent(&self) -> Result<Intent, PlaneError> {
        Ok(Client::intent(self).await?)
    }

    async fn status(&self) -> Result<Status, PlaneError> {
        Ok(Client::status(self).await?)
    }

    async fn apply(&self, intent: Intent, _: &Permit) -> Result<u64, PlaneError> {
        Ok(Client::apply(self, intent).await?)
    }
}

impl From<FeedError> for PlaneError {
    fn from(error: FeedError) -> Self {
        match error {
            FeedError::Conflict { in_force, made_from } => Self::Conflict { in_force, made_from },
            FeedError::Refused(why) => Self::Refused(why),
            FeedError::Failed(why) => Self::Failed(why),
            FeedError::Unreachable(path, source) => {
                Self::Unreachable { place: path.display().to_string(), source }
            }
        }
    }
}
