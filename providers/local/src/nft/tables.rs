//! Our tables in the kernel: read, changed in one transaction, counted.

use std::collections::BTreeMap;

use super::read::{Count, Listing};
use super::ruleset::{Family, Ruleset, TABLE};
use crate::program::{NFT, ProgramError};

/// The tables as the kernel has them.
pub(super) async fn read() -> Result<Ruleset, ProgramError> {
    let mut ruleset = Ruleset::default();
    for family in Family::ALL {
        if let Some(listing) = list(&["list", "table", &family.to_string(), TABLE]).await? {
            listing.add_to(&mut ruleset);
        }
    }
    Ok(ruleset)
}

/// Carries out what was planned. Tells the number of the process that does it as soon as it has one.
pub(super) async fn change(script: &str, by: impl FnOnce(u32)) -> Result<(), ProgramError> {
    tracing::trace!(script, "changing the tables");
    NFT.feed(["-f", "-"], script, by).await.map(drop)
}

/// The counters, by name.
pub(super) async fn counters() -> Result<BTreeMap<String, Count>, ProgramError> {
    match list(&["list", "counters", "table", "inet", TABLE]).await? {
        Some(listing) => Ok(listing.counters()),
        None => Ok(BTreeMap::new()),
    }
}

/// What `nft` lists; `None` if there is no such table.
async fn list(arguments: &[&str]) -> Result<Option<Listing>, ProgramError> {
    match NFT.run(["--json"].iter().chain(arguments)).await {
        Ok(text) => Listing::parse(&text).map(Some).map_err(unintelligible),
        Err(ProgramError::Refused { why, .. }) if why.contains("No such file or directory") => Ok(None),
        Err(error) => Err(error),
    }
}

fn unintelligible(source: serde_json::Error) -> ProgramError {
    ProgramError::Unintelligible { program: NFT.name, source }
}
