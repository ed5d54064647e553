//! Nodes that must exist, asked for together with those that seem not to: an inventory that denies them too is another
//! project's, or has a hole, and what it says of the others proves nothing.

use std::sync::Arc;

use cloud_provider::{Doubt, Existence};
use k8s_openapi::api::core::v1::Node;

use super::plan::is_ready;
use super::sync::{Core, is_of, uid};
use crate::node::Purpose;

/// What a cloud said of Nodes that must exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Testimony {
    /// It knows them.
    pub(super) found: usize,
    /// It does not know them.
    pub(super) denied: usize,
    /// It could not tell.
    pub(super) unsure: usize,
}

impl Testimony {
    fn of<'a>(answers: impl Iterator<Item = &'a Arc<Existence>>) -> Self {
        let mut testimony = Self::default();
        for answer in answers {
            match &**answer {
                Existence::Found(_) => testimony.found += 1,
                Existence::Absent(_) => testimony.denied += 1,
                // What is wrong with that Node alone says nothing about the cloud.
                Existence::Unknown(Doubt::Ambiguous(_) | Doubt::BadProviderId(_)) | Existence::NotMine => {}
                Existence::Unknown(_) => testimony.unsure += 1,
            }
        }
        testimony
    }

    /// Whether the cloud denies nobody who must exist.
    pub(super) fn is_plausible(&self) -> bool {
        self.denied == 0
    }
}

impl Core {
    /// Asks for suspects of one cloud before witnesses.
    pub(super) async fn ask_before_witnesses(
        &self,
        cloud: &str,
        nodes: &[Arc<Node>],
        suspects: &[Arc<Node>],
        purpose: Purpose,
    ) -> (Vec<Arc<Existence>>, Testimony) {
        let witnesses = self.witnesses(nodes.iter().filter(|node| is_of(node, cloud)));
        // Witnesses before and after the suspects: a lie that begins or ends in the middle of the look-up meets one.
        let (before, after) = witnesses.split_at(witnesses.len().div_ceil(2));
        let asked = [before, suspects, after].concat();
        let mut answers = self.ask(&asked, purpose).await;
        let end = before.len() + suspects.len();
        let others = answers[..before.len()].iter().chain(&answers[end..]);
        let testimony = Testimony::of(others);
        answers.truncate(end);
        (answers.split_off(before.len()), testimony)
    }

    /// Those whose kubelets are well, else those that were seen. They are taken from all over the list, so that a hole in an
    /// inventory of many pages shows.
    fn witnesses<'a>(&self, ours: impl Iterator<Item = &'a Arc<Node>>) -> Vec<Arc<Node>> {
        let (ready, others): (Vec<&Arc<Node>>, Vec<&Arc<Node>>) = ours.partition(|node| is_ready(node));
        let seen: Vec<&Arc<Node>> =
            others.into_iter().filter(|node| !self.memory.is_absent(uid(node))).collect();
        let pool = if ready.is_empty() { seen } else { ready };
        let stride = pool.len().div_ceil(self.settings.breaker.witnesses.max(1)).max(1);
        pool.into_iter().step_by(stride).map(Arc::clone).collect()
    }
}
