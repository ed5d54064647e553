//! What of ours is in this machine's kernel, for whoever is to end it.

use super::plan::plan;
use super::ruleset::{Ruleset, TABLE};
use super::{conntrack, tables, traffic};
use crate::program::ProgramError;

/// Our tables in this machine's kernel; none where the program `nft` is not there to have made one.
pub async fn found() -> Result<Vec<String>, ProgramError> {
    Ok(names(&known().await?))
}

/// Removes our tables, and what the kernel remembers of connections through them. Tells which they were.
pub async fn cleanup() -> Result<Vec<String>, ProgramError> {
    let found = known().await?;
    let script = plan(&found, &Ruleset::default());
    if !script.is_empty() {
        tables::change(&script, |_| {}).await?;
    }
    let places = traffic::listeners_in(&found);
    if !places.is_empty() {
        conntrack::forget(&places).await?;
    }
    Ok(names(&found))
}

async fn known() -> Result<Ruleset, ProgramError> {
    match tables::read().await {
        Err(ProgramError::Missing { .. }) => Ok(Ruleset::default()),
        other => other,
    }
}

fn names(ruleset: &Ruleset) -> Vec<String> {
    ruleset.tables.keys().map(|family| format!("{family} {TABLE}")).collect()
}
