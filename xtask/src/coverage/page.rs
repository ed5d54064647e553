//! The Markdown of the two pages. They hold no dates, counts of lines or other things that change without
//! cause.

use std::fmt::Write as _;

use super::Evidence;
use crate::proofs::Proof;
use crate::spec::{Area, Item, Spec, Status};

const GENERATED: &str = "<!-- Written by `make gen`; do not edit. -->\n\n";

const COVERAGE_INTRODUCTION: &str = "\
# Coverage of the upstream behaviour

One line per behaviour of the Go implementation that this project has looked at, with the tests that prove ours,
or the [difference](differences.md) that was chosen on purpose. *Open* means that neither is there yet. A finished
area may have no open line; `make check` sees to it. A test marked *on request* runs with `make soak` only and
does not count as proof.

";

const DIFFERENCES_INTRODUCTION: &str = "\
# Differences from the Go implementation

Where Nephos behaves otherwise than the Go cloud-controller-manager on purpose. Everything else that differs is a
defect: please report it.

";

pub(super) fn coverage(spec: &Spec, evidence: &Evidence<'_>) -> String {
    let mut page =
        format!("{GENERATED}{COVERAGE_INTRODUCTION}| Area | Status | Items | Proved | Different | Open |\n");
    page.push_str("|---|---|--:|--:|--:|--:|\n");
    for area in &spec.areas {
        let count = Count::of(&items_of(spec, area), evidence);
        let Count { items, proved, different, open } = count;
        line(
            &mut page,
            &format!("| {} | {} | {items} | {proved} | {different} | {open} |", area.name, status(area)),
        );
    }
    for area in &spec.areas {
        line(&mut page, &format!("\n## {}\n\n| Item | What | Proof |\n|---|---|---|", area.name));
        for item in items_of(spec, area) {
            line(&mut page, &format!("| {} | {} | {} |", item.id, item.title, proof_cell(item, evidence)));
        }
    }
    page
}

pub(super) fn differences(spec: &Spec) -> String {
    let mut page = format!("{GENERATED}{DIFFERENCES_INTRODUCTION}");
    if spec.differences.is_empty() {
        line(&mut page, "None is recorded yet.");
        return page;
    }
    line(&mut page, "| Items | Upstream | Nephos | Why |\n|---|---|---|---|");
    for difference in &spec.differences {
        let items: Vec<String> = difference.items.iter().map(ToString::to_string).collect();
        let cells = [&difference.upstream, &difference.ours, &difference.why].map(|text| cell(text));
        line(&mut page, &format!("| {} | {} |", items.join(", "), cells.join(" | ")));
    }
    page
}

pub(super) fn summary(spec: &Spec, evidence: &Evidence<'_>) -> String {
    let all: Vec<&Item> = spec.items.iter().collect();
    let Count { items, proved, different, open } = Count::of(&all, evidence);
    format!("{items} items: {proved} proved, {different} different, {open} open")
}

/// How the behaviours of an area stand; each is counted once.
struct Count {
    items: usize,
    proved: usize,
    different: usize,
    open: usize,
}

impl Count {
    fn of(items: &[&Item], evidence: &Evidence<'_>) -> Self {
        let different = items.iter().filter(|item| evidence.is_different(&item.id)).count();
        let proved = items
            .iter()
            .filter(|item| !evidence.is_different(&item.id) && evidence.is_proved(&item.id))
            .count();
        Self { items: items.len(), proved, different, open: items.len() - proved - different }
    }
}

fn items_of<'s>(spec: &'s Spec, area: &Area) -> Vec<&'s Item> {
    spec.items.iter().filter(|item| area.items.contains(&item.id)).collect()
}

fn status(area: &Area) -> &'static str {
    match area.status {
        Status::Finished => "finished",
        Status::Open => "open",
    }
}

fn proof_cell(item: &Item, evidence: &Evidence<'_>) -> String {
    let mut parts = Vec::new();
    if evidence.is_different(&item.id) {
        parts.push("[difference](differences.md)".to_owned());
    }
    parts.extend(evidence.proofs(&item.id).iter().map(|proof| describe(proof)));
    if parts.is_empty() { "*open*".to_owned() } else { parts.join("<br>") }
}

fn describe(proof: &Proof) -> String {
    let on_request = if proof.ignored { " *(on request)*" } else { "" };
    format!("[{file}](../../{file}): `{test}`{on_request}", file = proof.file, test = proof.test)
}

/// A text that may stand in a cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn line(page: &mut String, text: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(page, "{text}");
}
