//! Speaking as somebody else than the configuration names, with a token that somebody keeps fresh.

use async_trait::async_trait;
use http::header::{AUTHORIZATION, HeaderValue};
use http::{Request, Response, StatusCode};
use kube::client::Body;
use tower::BoxError;

use crate::log::Secret;

/// Who has the token.
#[async_trait]
pub trait Bearer: Send + Sync + 'static {
    /// The token for the next request; waits until there is one.
    async fn token(&self) -> Secret;

    /// The API server did not take it.
    fn refused(&self);
}

/// Signs one attempt of a request.
pub(super) async fn sign(bearer: &dyn Bearer, request: &mut Request<Body>) -> Result<(), BoxError> {
    let token = bearer.token().await;
    let mut header = HeaderValue::try_from(format!("Bearer {}", token.expose()))?;
    header.set_sensitive(true);
    request.headers_mut().insert(AUTHORIZATION, header);
    Ok(())
}

/// Tells the bearer when its token was not taken.
pub(super) fn heed(bearer: &dyn Bearer, answer: &Response<Body>) {
    if answer.status() == StatusCode::UNAUTHORIZED {
        bearer.refused();
    }
}
