//! An answer's body that must be complete by its request's deadline: a connection that dies half-way is noticed.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use kube::client::Body;
use tokio::time::{Instant, Sleep};
use tower::BoxError;

use super::pipeline::TimedOut;

/// The body; without a deadline it streams for ever, as a watch must.
pub(super) struct TimedBody {
    inner: Body,
    deadline: Option<(Pin<Box<Sleep>>, TimedOut)>,
}

impl TimedBody {
    pub(super) fn new(inner: Body, deadline: Option<(Instant, TimedOut)>) -> Self {
        let deadline = deadline.map(|(at, error)| (Box::pin(tokio::time::sleep_until(at)), error));
        Self { inner, deadline }
    }
}

impl http_body::Body for TimedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        if let Some((sleep, error)) = &mut self.deadline
            && sleep.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Some(Err(Box::new(error.clone()))));
        }
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
