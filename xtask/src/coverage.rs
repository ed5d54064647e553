//! Joins the list of behaviours with the tests that prove them: two pages for readers, and the list of claims
//! that do not hold.

mod page;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::proofs::{self, Proof, Scan};
use crate::spec::{Difference, Id, Spec, Status};

/// Where the pages stand.
pub const COVERAGE_PAGE: &str = "docs/reference/coverage.md";
/// Where the departures from upstream are told.
pub const DIFFERENCES_PAGE: &str = "docs/reference/differences.md";

/// The generated pages.
#[derive(Debug)]
pub struct Pages {
    /// [`COVERAGE_PAGE`].
    pub coverage: String,
    /// [`DIFFERENCES_PAGE`].
    pub differences: String,
    /// How much is proved, in one line.
    pub summary: String,
}

impl Pages {
    /// Each page with the path it belongs to.
    pub fn by_path(&self) -> [(&'static str, &str); 2] {
        [(COVERAGE_PAGE, &self.coverage), (DIFFERENCES_PAGE, &self.differences)]
    }
}

/// A claim that does not hold, or a gap where there must be none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A test says it proves something that is not on the list.
    #[error("{file}:{line}: the test `{test}` proves `{claim}`, which is no item of spec/behaviour.tsv")]
    UnknownClaim {
        /// The source.
        file: String,
        /// Where the claim stands.
        line: usize,
        /// The test.
        test: String,
        /// What stands there.
        claim: String,
    },
    /// A claim that no test stands behind.
    #[error("{file}:{line}: this claim of a proof does not count, {why}")]
    StrayClaim {
        /// The source.
        file: String,
        /// Where the claim stands.
        line: usize,
        /// Why it does not count.
        why: &'static str,
    },
    /// An area or a difference names something that is not on the list.
    #[error("spec/{file} names {id}, which is no item of spec/behaviour.tsv")]
    UnknownItem {
        /// The file.
        file: &'static str,
        /// What it names.
        id: Id,
    },
    /// A behaviour without an area could be forgotten, one with two could be finished and open.
    #[error("{id} belongs to {count} areas of spec/areas.toml instead of one")]
    NotInOneArea {
        /// The behaviour.
        id: Id,
        /// In how many areas it stands.
        count: usize,
    },
    /// A difference that explains nothing.
    #[error("the difference of spec/differences.toml for {id} leaves `{field}` empty")]
    EmptyDifference {
        /// Its first behaviour, or what stands for none.
        id: String,
        /// The field without a text.
        field: &'static str,
    },
    /// A finished area has a gap.
    #[error(
        "{id} ({title}) belongs to the finished area `{area}` and has neither a test that runs nor a difference"
    )]
    Unproved {
        /// The behaviour.
        id: Id,
        /// What it is about.
        title: String,
        /// The area that says it is finished.
        area: String,
    },
}

/// Searches the sources (path relative to the root, text), renders the pages and lists what does not hold.
pub fn survey(spec: &Spec, sources: &[(String, String)]) -> (Pages, Vec<Problem>) {
    let mut found = Scan::default();
    for (path, text) in sources {
        let scan = proofs::scan(path, text);
        found.proofs.extend(scan.proofs);
        found.strays.extend(scan.strays);
    }
    let evidence = Evidence::gather(spec, &found.proofs);
    let pages = Pages {
        coverage: page::coverage(spec, &evidence),
        differences: page::differences(spec),
        summary: page::summary(spec, &evidence),
    };
    let mut problems = spec_problems(spec);
    problems.extend(claim_problems(spec, &found));
    problems.extend(gaps(spec, &evidence));
    (pages, problems)
}

/// What speaks for each behaviour.
struct Evidence<'s> {
    proofs: BTreeMap<Id, Vec<&'s Proof>>,
    differences: BTreeMap<Id, &'s Difference>,
}

impl<'s> Evidence<'s> {
    fn gather(spec: &'s Spec, found: &'s [Proof]) -> Self {
        let mut proofs: BTreeMap<Id, Vec<&Proof>> = BTreeMap::new();
        for proof in found {
            for id in proof.claims.iter().filter_map(|claim| claim.parse::<Id>().ok()) {
                proofs.entry(id).or_default().push(proof);
            }
        }
        for of_one_item in proofs.values_mut() {
            of_one_item.sort_by_key(|proof| (&proof.file, &proof.test));
            of_one_item.dedup();
        }
        let differences = spec.differences.iter().flat_map(|d| d.items.iter().map(move |id| (id.clone(), d)));
        Self { proofs, differences: differences.collect() }
    }

    fn proofs(&self, id: &Id) -> &[&'s Proof] {
        self.proofs.get(id).map_or(&[], Vec::as_slice)
    }

    /// A test that only runs on request proves nothing about today's code.
    fn is_proved(&self, id: &Id) -> bool {
        self.proofs(id).iter().any(|proof| !proof.ignored)
    }

    fn is_different(&self, id: &Id) -> bool {
        self.differences.contains_key(id)
    }
}

fn spec_problems(spec: &Spec) -> Vec<Problem> {
    let known = spec.ids();
    let mut problems = Vec::new();
    let in_areas = spec.areas.iter().flat_map(|area| &area.items).map(|id| ("areas.toml", id));
    let in_differences = spec.differences.iter().flat_map(|d| &d.items).map(|id| ("differences.toml", id));
    for (file, id) in in_areas.chain(in_differences) {
        if !known.contains(id) {
            problems.push(Problem::UnknownItem { file, id: id.clone() });
        }
    }
    for item in &spec.items {
        let count = spec.areas.iter().flat_map(|area| &area.items).filter(|id| **id == item.id).count();
        if count != 1 {
            problems.push(Problem::NotInOneArea { id: item.id.clone(), count });
        }
    }
    for difference in &spec.differences {
        let id = difference.items.first().map_or_else(|| "no item at all".to_owned(), ToString::to_string);
        let items = if difference.items.is_empty() { "" } else { "some" };
        let fields = [
            ("items", items),
            ("upstream", &*difference.upstream),
            ("ours", &*difference.ours),
            ("why", &*difference.why),
        ];
        let empty = fields.into_iter().filter(|(_, text)| text.trim().is_empty());
        problems.extend(empty.map(|(field, _)| Problem::EmptyDifference { id: id.clone(), field }));
    }
    problems
}

fn claim_problems(spec: &Spec, found: &Scan) -> Vec<Problem> {
    let known: BTreeSet<String> = spec.items.iter().map(|item| item.id.to_string()).collect();
    let mut problems = Vec::new();
    for stray in &found.strays {
        problems.push(Problem::StrayClaim { file: stray.file.clone(), line: stray.line, why: stray.why });
    }
    for proof in &found.proofs {
        for claim in proof.claims.iter().filter(|claim| !known.contains(*claim)) {
            problems.push(Problem::UnknownClaim {
                file: proof.file.clone(),
                line: proof.line,
                test: proof.test.clone(),
                claim: claim.clone(),
            });
        }
    }
    problems
}

fn gaps(spec: &Spec, evidence: &Evidence<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for area in spec.areas.iter().filter(|area| area.status == Status::Finished) {
        for item in spec.items.iter().filter(|item| area.items.contains(&item.id)) {
            if !evidence.is_proved(&item.id) && !evidence.is_different(&item.id) {
                problems.push(Problem::Unproved {
                    id: item.id.clone(),
                    title: item.title.clone(),
                    area: area.name.clone(),
                });
            }
        }
    }
    problems
}
