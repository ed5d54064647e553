//! A plain HTTP transport on hyper, for tests and for programs that talk to `fake-cloud` without the manager.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use cloud_provider::context::{Access, Transport, TransportError};
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

/// The largest answer that is read.
const BODY_LIMIT: usize = 64 << 20;

/// HTTP without TLS, with a deadline for the whole exchange.
#[derive(Debug, Clone)]
pub struct HttpTransport {
    client: Client<HttpConnector, Full<Bytes>>,
    deadline: Duration,
}

impl HttpTransport {
    /// A transport that waits this long for a whole answer.
    pub fn new(deadline: Duration) -> Self {
        Self { client: Client::builder(TokioExecutor::new()).build_http(), deadline }
    }

    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, TransportError> {
        let response = self.client.request(request.map(Full::new)).await.map_err(|error| {
            if error.is_connect() {
                TransportError::Unreachable(error.into())
            } else {
                TransportError::Lost(error.into())
            }
        })?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, BODY_LIMIT).collect().await.map_err(TransportError::Lost)?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }
}

#[async_trait]
impl Transport for HttpTransport {
    async fn send(
        &self,
        request: Request<Bytes>,
        access: Access<'_>,
    ) -> Result<Response<Bytes>, TransportError> {
        access.check(request.method())?;
        tokio::time::timeout(self.deadline, self.exchange(request))
            .await
            .unwrap_or(Err(TransportError::TimedOut))
    }
}
