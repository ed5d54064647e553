//! Instances, surrounded. The node controllers ask through the loader; this is for everybody else.

use async_trait::async_trait;
use cloud_provider::{Error, Existence, Freshness, Instances, NodeRef, Snapshot};

use super::super::budget::Feedback;
use super::super::lookup::{ask, mood};
use super::super::operation::Operation;
use super::Around;

#[async_trait]
impl Instances for Around<dyn Instances> {
    async fn lookup(&self, nodes: &[NodeRef], freshness: Freshness) -> Result<Vec<Existence>, Error> {
        let turn = self.calls.turn(Operation::LookUpInstances, self.urgency).await?;
        self.calls.metrics().asked_for(nodes.len());
        turn.make(async { ask(&*self.slot, nodes, freshness).await }, mood).await
    }

    async fn list(&self) -> Result<Option<Snapshot>, Error> {
        let turn = self.calls.turn(Operation::LookUpInstances, self.urgency).await?;
        turn.make(async { self.slot.list().await }, Feedback::of).await
    }
}
