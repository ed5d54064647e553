//! When a leader contradicts whoever speaks as an address of its own: at once, and once more a while after the last word.
//!
//! A single packet may be lost, or be overtaken by the very word that it contradicts; and a word that comes right after a
//! contradiction misleads the neighbours like the first. So none of them is the last that the neighbours hear.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::netlink::Hardware;

/// How long after a contradiction the next one comes, whatever is said meanwhile.
const PAUSE: Duration = Duration::from_secs(1);

/// The addresses that others spoke as of late.
#[derive(Debug, Default)]
pub(super) struct Contradictions(BTreeMap<IpAddr, Disputed>);

#[derive(Debug)]
struct Disputed {
    /// When it is contradicted again.
    due: Instant,
    /// Who spoke as it since it was contradicted.
    since: Option<Hardware>,
}

/// What is to be said now.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Contradiction {
    pub(super) ip: IpAddr,
    /// Who is contradicted; `None` where it is for the second time.
    pub(super) at: Option<Hardware>,
}

impl Contradictions {
    /// Notes that another machine spoke as an address of this one; what to say at once.
    pub(super) fn heard(&mut self, ip: IpAddr, at: Hardware, now: Instant) -> Option<Contradiction> {
        if let Some(disputed) = self.0.get_mut(&ip) {
            disputed.since = Some(at);
            return None;
        }
        self.0.insert(ip, Disputed { due: now + PAUSE, since: None });
        Some(Contradiction { ip, at: Some(at) })
    }

    /// What is due by now.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Contradiction> {
        let mut due = Vec::new();
        self.0.retain(|ip, disputed| {
            if disputed.due > now {
                return true;
            }
            let at = disputed.since.take();
            due.push(Contradiction { ip: *ip, at });
            disputed.due = now + PAUSE;
            at.is_some()
        });
        due
    }

    /// Waits until something is due.
    pub(super) async fn wait(&self) {
        match self.0.values().map(|disputed| disputed.due).min() {
            Some(due) => sleep_until(due).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const AT: Hardware = [2, 0, 0, 0, 0, 9];

    fn said(at: Option<Hardware>) -> Contradiction {
        Contradiction { ip: IP, at }
    }

    #[tokio::test(start_paused = true)]
    async fn a_word_is_contradicted_at_once_and_once_more() {
        let (mut all, start) = (Contradictions::default(), Instant::now());
        assert_eq!(all.heard(IP, AT, start), Some(said(Some(AT))));
        assert_eq!(all.due(start), []);
        all.wait().await;
        assert_eq!(start.elapsed(), PAUSE);
        assert_eq!(all.due(Instant::now()), [said(None)]);
        let more = tokio::time::timeout(100 * PAUSE, all.wait()).await;
        assert!(more.is_err(), "it was said twice, and nobody spoke since");
        assert_eq!(all.heard(IP, AT, Instant::now()), Some(said(Some(AT))), "somebody speaks again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_word_right_after_a_contradiction_is_not_the_last_and_a_flood_is_answered_once_a_pause() {
        let (mut all, start) = (Contradictions::default(), Instant::now());
        assert!(all.heard(IP, AT, start).is_some());
        let mut answers = 0;
        while start.elapsed() < 10 * PAUSE {
            tokio::time::sleep(PAUSE / 100).await;
            assert_eq!(all.heard(IP, AT, Instant::now()), None);
            answers += all.due(Instant::now()).len();
        }
        assert!((9..=10).contains(&answers), "{answers}");
        assert_eq!(all.heard(IP, AT, Instant::now()), None);
        all.wait().await;
        assert_eq!(all.due(Instant::now()), [said(Some(AT))], "after the last word of the flood");
        all.wait().await;
        assert_eq!(all.due(Instant::now()), [said(None)]);
        assert!(all.0.is_empty());
    }
}
