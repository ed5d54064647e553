//! A check whose answer somebody else keeps up to date: whoever calls a cloud or the API server says how it went.

use std::sync::{Arc, PoisonError, RwLock};

use super::{BoxError, Check};

/// What was last reported; clones report the same. Passes until a failure is reported.
#[derive(Debug, Clone, Default)]
pub struct Reported(Arc<RwLock<Option<String>>>);

impl Reported {
    /// It went well.
    pub fn passing(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// It failed for this reason, which must hold no secret.
    pub fn failing(&self, reason: impl Into<String>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(reason.into());
    }
}

impl Check for Reported {
    fn check(&self) -> Result<(), BoxError> {
        match &*self.0.read().unwrap_or_else(PoisonError::into_inner) {
            None => Ok(()),
            Some(reason) => Err(reason.clone().into()),
        }
    }
}
