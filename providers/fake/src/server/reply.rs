//! From the world's answer to an HTTP response.

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::StatusCode;
use http::header::RETRY_AFTER;
use serde::Serialize;

use crate::api::ApiError;

/// An answer of the API.
pub(super) struct Reply<T>(pub(super) Result<T, ApiError>);

impl<T: Serialize> IntoResponse for Reply<T> {
    fn into_response(self) -> Response {
        match self.0 {
            Ok(answer) => Json(answer).into_response(),
            Err(ApiError::Lost) => lost(),
            Err(error) => refused(&error),
        }
    }
}

fn refused(error: &ApiError) -> Response {
    let mut response = (status(error), Json(error)).into_response();
    if let ApiError::Throttled { after: Some(after) } = error {
        // Whole seconds are all that the header can say; the body has the rest.
        let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

fn status(error: &ApiError) -> StatusCode {
    match error {
        ApiError::NotFound { .. } => StatusCode::NOT_FOUND,
        ApiError::Unauthorized => StatusCode::UNAUTHORIZED,
        ApiError::Forbidden => StatusCode::FORBIDDEN,
        ApiError::Throttled { .. } => StatusCode::TOO_MANY_REQUESTS,
        ApiError::QuotaExceeded { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        ApiError::Conflict { .. } | ApiError::InUse { .. } | ApiError::Pending { .. } => StatusCode::CONFLICT,
        ApiError::Invalid { .. } => StatusCode::BAD_REQUEST,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// An answer that breaks off: the connection ends in the middle of the body.
fn lost() -> Response {
    let broken =
        futures::stream::once(async { Err::<Bytes, _>(std::io::Error::other("the answer is lost")) });
    Response::new(Body::from_stream(broken))
}
