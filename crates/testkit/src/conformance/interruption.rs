//! Cancelling a call half-way: dropped after so many polls, as a deadline or the end of the process would drop it.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Runs `call` until it is finished or has been polled this many times without being so; then drops it and answers
/// `None`.
pub(super) async fn dropped_after<F: Future>(polls: usize, call: F) -> Option<F::Output> {
    let mut call = pin!(call);
    let mut polled = 0;
    poll_fn(|waker| {
        polled += 1;
        match call.as_mut().poll(waker) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if polled >= polls => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_call_is_dropped_at_each_of_its_awaits_in_turn() {
        let reached = std::cell::Cell::new(0);
        for polls in 1..=4 {
            reached.set(0);
            let ended = dropped_after(polls, async {
                for _ in 0..3 {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    reached.set(reached.get() + 1);
                }
            })
            .await;
            assert_eq!(ended.is_some(), polls == 4);
            assert_eq!(reached.get(), polls - 1);
        }
    }
}
