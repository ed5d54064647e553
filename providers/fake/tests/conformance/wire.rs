//! The fake cloud behind a socket, and what can happen to calls on the way to it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use cloud_provider::context::{Access, Transport, TransportError};
use http::{Request, Response};
use provider_fake::World;
use provider_fake::transport::HttpTransport;
use testkit::conformance::stand_in::{Aim, Calls, Fault};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

/// A server for one world. It ends with the runtime that it was started on.
pub(crate) struct Behind {
    /// Its URL.
    pub(crate) endpoint: String,
    /// How many requests are on their way.
    travelling: watch::Sender<usize>,
    _end: oneshot::Sender<()>,
}

impl Behind {
    /// Serves a world at a free port of the loopback interface.
    pub(crate) async fn serve(world: World) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (end, ended) = oneshot::channel();
        tokio::spawn(provider_fake::server::serve(listener, world, async move {
            let _ = ended.await;
        }));
        Self { endpoint, travelling: watch::Sender::new(0), _end: end }
    }

    /// The way there.
    pub(crate) fn transport(&self, deadline: Duration, trouble: Trouble) -> Way {
        Way { inner: HttpTransport::new(deadline), trouble, travelling: self.travelling.clone() }
    }

    /// Completes once every request that was sent is answered.
    pub(crate) async fn settle(&self) {
        let _ = self.travelling.subscribe().wait_for(|travelling| *travelling == 0).await;
    }
}

/// The way to the server. A request that was sent arrives, even if its sender no longer waits for the answer.
pub(crate) struct Way {
    inner: HttpTransport,
    trouble: Trouble,
    travelling: watch::Sender<usize>,
}

#[async_trait]
impl Transport for Way {
    async fn send(
        &self,
        request: Request<Bytes>,
        access: Access<'_>,
    ) -> Result<Response<Bytes>, TransportError> {
        access.check(request.method())?;
        let write = matches!(access, Access::Write(_));
        if self.trouble.strikes(Fault::TimesOut, write) {
            return Err(TransportError::TimedOut);
        }
        let (inner, travelling) = (self.inner.clone(), self.travelling.clone());
        travelling.send_modify(|travelling| *travelling += 1);
        let exchange = tokio::spawn(async move {
            // Checked above, where the permit was at hand.
            let answer = inner.send(request, Access::Query).await;
            travelling.send_modify(|travelling| *travelling -= 1);
            answer
        });
        let mut response = exchange.await.unwrap_or_else(|lost| Err(TransportError::Lost(lost.into())))?;
        if self.trouble.strikes(Fault::Unreadable, write) {
            *response.body_mut() = Bytes::from_static(b"<html>bad gateway</html>");
        }
        Ok(response)
    }
}

/// Faults that happen on the way and not in the cloud.
#[derive(Clone, Default)]
pub(crate) struct Trouble(Arc<Mutex<Vec<(Fault, Aim, u64)>>>);

impl Trouble {
    /// Arms one.
    pub(crate) fn arm(&self, fault: Fault, aim: Aim) {
        self.0.lock().unwrap().push((fault, aim, 0));
    }

    /// Disarms all.
    pub(crate) fn clear(&self) {
        self.0.lock().unwrap().clear();
    }

    /// Whether a call is hit by this kind.
    pub(crate) fn strikes(&self, kind: Fault, write: bool) -> bool {
        let mut armed = self.0.lock().unwrap();
        armed.iter_mut().any(|(fault, aim, seen)| {
            let meant = match aim.calls {
                Calls::Reads => !write,
                Calls::Writes => write,
                Calls::All => true,
            };
            if *fault != kind || !meant {
                return false;
            }
            *seen += 1;
            *seen > aim.after && aim.times.is_none_or(|times| *seen <= aim.after + times)
        })
    }
}
