//! HTTP, without a client: whoever builds the context decides what carries the requests.

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};

use crate::changes::Permit;

/// Carries requests to a cloud.
#[async_trait]
pub trait Transport: Send + Sync + 'static {
    /// Sends one request and reads the whole answer. A request that changes anything in the cloud needs
    /// [`Access::Write`]: a method other than GET, HEAD and OPTIONS under [`Access::Read`] is refused, unless the
    /// request is marked as a query, because some clouds read with POST.
    async fn send(
        &self,
        request: Request<Bytes>,
        access: Access<'_>,
    ) -> Result<Response<Bytes>, TransportError>;
}

/// What a request does to the cloud.
#[derive(Debug, Clone, Copy)]
pub enum Access<'a> {
    /// It reads, by GET, HEAD or OPTIONS.
    Read,
    /// It reads, though its method looks like a write: some clouds query with POST.
    Query,
    /// It changes something, and this permit shows that the gate let it.
    Write(&'a Permit),
}

/// Why a request brought no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The request was not sent: it looks like a write and carries no permit.
    #[error("{0} was not sent: it looks like a write and carries no permit of the gate")]
    NoPermit(http::Method),
    /// No connection: nothing was sent.
    #[error("connecting to the cloud")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The deadline passed; whether the cloud acted is not known.
    #[error("the cloud did not answer in time")]
    TimedOut,
    /// The answer was lost; whether the cloud acted is not known.
    #[error("the cloud's answer was lost")]
    Lost(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Access<'_> {
    /// Refuses a request whose method looks like a write and that has no permit: the check every transport makes first.
    pub fn check(&self, method: &http::Method) -> Result<(), TransportError> {
        match self {
            Self::Read if !method.is_safe() => Err(TransportError::NoPermit(method.clone())),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn a_write_without_a_permit_is_refused_before_it_is_sent() {
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            assert!(matches!(Access::Read.check(&method), Err(TransportError::NoPermit(_))), "{method}");
            assert!(Access::Query.check(&method).is_ok());
        }
        for method in [Method::GET, Method::HEAD, Method::OPTIONS] {
            assert!(Access::Read.check(&method).is_ok(), "{method}");
        }
    }
}
