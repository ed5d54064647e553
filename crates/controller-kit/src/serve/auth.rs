//! Who may see what: authentication and authorization, both delegated to the API server, as upstream's other components
//! do it.
//!
//! Read in this order: [`options`] (what the flags say), [`trust`] (which certificate authorities count, and how they
//! are kept fresh), `authenticate` (who asks), `authorize` (whether they may), [`review`] (how the API server is
//! asked), `remembered` (for how long its answer counts).
//!
//! When the API server is away, answers that it gave lately still count, and everything else is refused.

mod authenticate;
mod authorize;
mod metrics;
pub mod options;
mod remembered;
pub mod review;
#[cfg(test)]
mod tests;
pub mod trust;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, StatusCode};
use tokio::time::Instant;

use self::authenticate::Authenticator;
use self::authorize::Authorizer;
pub use self::authorize::Decision;
pub use self::metrics::Metrics;
pub use self::options::{Authentication, Authorization, OptionsError};
pub use self::review::{KubeReviews, Reviews};
pub use self::trust::{Trust, TrustError};
use super::answer::{self, Answer};
use crate::clock::SharedClock;
use crate::log::report;

/// INVARIANT: Kubernetes' names for those who did not say who they are, and for those who did.
const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const AUTHENTICATED: &str = "system:authenticated";
/// INVARIANT: the group that may do everything.
const MASTERS: &str = "system:masters";

/// Who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// What tells it from others of that name.
    pub uid: String,
    /// The groups it is in.
    pub groups: Vec<String>,
    /// What else was said of it.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Decides who may see what.
#[derive(Debug)]
pub struct Access {
    authenticator: Authenticator,
    authorizer: Authorizer,
    metrics: Metrics,
}

impl Access {
    /// Asks `reviews` about tokens and rights, and `trust` about certificates. Without `reviews` tokens are refused and
    /// only always-allowed paths and `system:masters` pass.
    pub fn new(
        authentication: &Authentication,
        authorization: &Authorization,
        trust: Arc<Trust>,
        reviews: Option<Arc<dyn Reviews>>,
        clock: SharedClock,
        metrics: Metrics,
    ) -> Self {
        let tokens_for = authentication.token_cache_ttl;
        if reviews.is_none() {
            tracing::warn!(
                "Only always-allowed paths are served: there is no API server to ask about tokens and rights"
            );
        }
        Self {
            authenticator: Authenticator::new(tokens_for, trust, reviews.clone(), clock),
            authorizer: Authorizer::new(authorization, reviews),
            metrics,
        }
    }

    /// Whether a request may be answered, and if not, what is said instead.
    ///
    /// An always-allowed path needs no authentication, so that a probe is answered whatever it carries and whether or
    /// not the API server is there.
    pub async fn admit(&self, request: &Request<Bytes>) -> Result<(), Box<Answer>> {
        let path = request.uri().path();
        if self.authorizer.always_allows(path) {
            return Ok(());
        }
        let started = Instant::now();
        let user = self.authenticator.authenticate(request).await;
        self.metrics.authenticated(user.is_ok(), started.elapsed());
        let user = user.map_err(|error| {
            tracing::debug!(path, error = %report(&error), "Request not authenticated");
            Box::new(answer::status(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized"))
        })?;
        let started = Instant::now();
        let verb = request.method().as_str().to_ascii_lowercase();
        let decision = self.authorizer.authorize(&user, &verb, path).await;
        self.metrics.authorized(&decision, started.elapsed());
        match decision {
            Ok(Decision::Allowed) => Ok(()),
            Ok(Decision::Denied(reason)) => {
                tracing::debug!(path, user = user.name, reason, "Request forbidden");
                let mut message = format!("forbidden: User {:?} cannot {verb} path {path:?}", user.name);
                if !reason.is_empty() {
                    message = format!("{message}: {reason}");
                }
                Err(Box::new(answer::status(StatusCode::FORBIDDEN, "Forbidden", &message)))
            }
            Err(error) => {
                tracing::debug!(path, user = user.name, error = %report(&error), "Request not authorized");
                let text = format!("Internal Server Error: {path:?}: asking for authorization failed\n");
                Err(Box::new(answer::text(StatusCode::INTERNAL_SERVER_ERROR, text)))
            }
        }
    }
}
