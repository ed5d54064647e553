//! One look-up of instances, held to the contract: as many answers as questions, or none.

use cloud_provider::{Decision, Doubt, Error, Existence, Freshness, Instances, NodeRef};

use super::budget::Feedback;

/// Asks. A provider that answers for more or fewer nodes than it was asked for has answered for none: nobody can tell
/// which answer is whose.
pub(super) async fn ask(
    instances: &dyn Instances,
    nodes: &[NodeRef],
    freshness: Freshness,
) -> Result<Vec<Existence>, Error> {
    let answers = instances.lookup(nodes, freshness).await?;
    if answers.len() == nodes.len() {
        return Ok(answers);
    }
    Err(Error::other(format!(
        "reading the provider's answer: it has {} entries for {} nodes",
        answers.len(),
        nodes.len()
    )))
}

/// What the answers tell of the cloud's mood: a provider may have been throttled for some of the nodes only.
pub(super) fn mood(result: &Result<Vec<Existence>, Error>) -> Feedback {
    let throttled = |answer: &Existence| match answer {
        Existence::Unknown(Doubt::Failed(error)) => match error.decision() {
            Decision::Throttled { after } => Some(Feedback::Throttled(*after)),
            _ => None,
        },
        _ => None,
    };
    let some_throttled = result.iter().flatten().find_map(throttled);
    some_throttled.unwrap_or_else(|| Feedback::of(result))
}
