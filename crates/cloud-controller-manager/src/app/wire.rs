//! What carries a provider's requests to its cloud: HTTP/1.1, over TLS with the system's authorities where the URL says so.
//! Budget, retries and metrics are not here: they are around the provider, per call of the contract.

use std::sync::OnceLock;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use cloud_provider::context::{Access, Transport, TransportError};
use http::uri::Scheme;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::TokioExecutor;

/// The largest answer that is read.
const BODY_LIMIT: usize = 64 << 20;

/// How long one exchange may take. A call of the contract, which may be several exchanges, has a deadline of its own.
const DEADLINE: Duration = Duration::from_secs(60);

type Secure = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// The transport of every provider.
pub(super) struct Wire {
    plain: Client<HttpConnector, Full<Bytes>>,
    /// Made with the first request that needs it: the system's authorities take time to read and room to keep.
    secure: OnceLock<Result<Secure, String>>,
}

impl Wire {
    pub(super) fn new() -> Self {
        Self { plain: Client::builder(TokioExecutor::new()).build_http(), secure: OnceLock::new() }
    }

    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, TransportError> {
        let request = request.map(Full::new);
        if request.uri().scheme() != Some(&Scheme::HTTPS) {
            return carry(&self.plain, request).await;
        }
        match self.secure.get_or_init(secure) {
            Ok(client) => carry(client, request).await,
            Err(why) => Err(TransportError::Unreachable(why.clone().into())),
        }
    }
}

fn secure() -> Result<Secure, String> {
    let connector = HttpsConnectorBuilder::new()
        .with_native_roots()
        .map_err(|error| format!("reading the system's certificate authorities: {error}"))?
        .https_only()
        .enable_http1()
        .build();
    Ok(Client::builder(TokioExecutor::new()).build(connector))
}

async fn carry<C>(
    client: &Client<C, Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> Result<Response<Bytes>, TransportError>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let (head, body) = client.request(request).await.map_err(refused)?.into_parts();
    let body = Limited::new(body, BODY_LIMIT).collect().await.map_err(TransportError::Lost)?;
    Ok(Response::from_parts(head, body.to_bytes()))
}

/// Without a connection nothing was sent; after that, nobody knows.
fn refused(error: Error) -> TransportError {
    if error.is_connect() {
        TransportError::Unreachable(error.into())
    } else {
        TransportError::Lost(error.into())
    }
}

#[async_trait]
impl Transport for Wire {
    async fn send(
        &self,
        request: Request<Bytes>,
        access: Access<'_>,
    ) -> Result<Response<Bytes>, TransportError> {
        access.check(request.method())?;
        let exchanged = tokio::time::timeout(DEADLINE, self.exchange(request)).await;
        exchanged.unwrap_or(Err(TransportError::TimedOut))
    }
}
