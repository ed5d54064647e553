//! The shapes of answers: plain text, JSON, and the `Status` objects of Kubernetes.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

/// A whole answer.
pub type Answer = Response<Full<Bytes>>;

/// An answer with this content type.
pub fn of(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// Plain text.
pub fn text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    of(status, "text/plain; charset=utf-8", body)
}

/// JSON.
pub fn json(status: StatusCode, body: &Value) -> Answer {
    of(status, "application/json", body.to_string())
}

/// A refusal as the API server words it, so that clients of Kubernetes understand it.
pub fn status(code: StatusCode, reason: &str, message: &str) -> Answer {
    let body = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code.as_u16(),
    });
    json(code, &body)
}
