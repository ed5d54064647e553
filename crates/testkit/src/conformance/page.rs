//! The reference page: which provider keeps which promise. It is made from the reports that the repository keeps, one
//! JSON file per provider and stand-in, and each of those is held to what the suite finds today.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use super::report::{self, Outcome, Report};
use super::{Check, checks};

const INTRODUCTION: &str = "<!-- Written by the tests of `testkit` with NEPHOS_BLESS=1; do not edit. -->

# Conformance of the providers

One suite holds every provider to the promises of the contract, against whatever stands in for its cloud. *Kept* means
that the check ran and passed. *Skipped* means that the provider does not declare the capability, or that its stand-in
cannot bring about the situation; the reasons stand below the tables. A broken promise fails the build and never
reaches this page.

The suite is itself held to account: deliberately broken variants of the fake cloud must each fail the check that is
there for them.
";

/// Holds the repository's copy of a report to this one, under this name.
///
/// # Panics
///
/// When they differ, unless `NEPHOS_BLESS` is `1`: then the copy is written.
pub fn assert_on_record(report: &Report, name: &str) {
    let path = folder().join(format!("{name}.json"));
    if let Err(difference) = report::hold(&path, &report.for_the_record()) {
        panic!("{difference}");
    }
}

/// Holds the reference page to the reports that the repository keeps.
///
/// # Panics
///
/// When they differ, unless `NEPHOS_BLESS` is `1`: then the page is written.
pub fn assert_up_to_date() {
    let page = report::root().join("docs/reference/conformance.md");
    let made = on_record().and_then(|reports| report::hold(&page, &render(&reports)));
    if let Err(difference) = made {
        panic!("{difference}");
    }
}

fn folder() -> PathBuf {
    report::root().join("docs/reference/conformance")
}

/// The reports that the repository keeps, by name.
fn on_record() -> Result<BTreeMap<String, Report>, String> {
    let folder = folder();
    let files =
        std::fs::read_dir(&folder).map_err(|error| format!("reading {}: {error}", folder.display()))?;
    let mut reports = BTreeMap::new();
    for file in files {
        let path = file.map_err(|error| format!("reading {}: {error}", folder.display()))?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text =
            std::fs::read_to_string(&path).map_err(|error| format!("reading {}: {error}", path.display()))?;
        let report =
            serde_json::from_str(&text).map_err(|error| format!("reading {}: {error}", path.display()))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        reports.insert(name, report);
    }
    Ok(reports)
}

/// The page for these reports.
pub fn render(reports: &BTreeMap<String, Report>) -> String {
    let mut page = INTRODUCTION.to_owned();
    summary(&mut page, reports);
    let mut group = None;
    for check in checks::all() {
        if group != Some(check.group) {
            group = Some(check.group);
            heading(&mut page, check, reports);
        }
        row(&mut page, check, reports);
    }
    reasons(&mut page, reports);
    page
}

fn summary(page: &mut String, reports: &BTreeMap<String, Report>) {
    let checks = checks::all().count();
    let _ = writeln!(page, "\n| provider | stand-in | kept | skipped | of |\n|---|---|--:|--:|--:|");
    for (name, report) in reports {
        let (kept, skipped) = (report.kept(), report.skipped().count());
        let _ = writeln!(
            page,
            "| {name} | {}, {} | {kept} | {skipped} | {checks} |",
            report.stand_in, report.time
        );
    }
}

fn heading(page: &mut String, check: &Check, reports: &BTreeMap<String, Report>) {
    let title = check.group.name();
    let title = title[..1].to_uppercase() + &title[1..];
    let _ = write!(page, "\n## {title}\n\n| promise | check |");
    for name in reports.keys() {
        let _ = write!(page, " {name} |");
    }
    let _ = writeln!(page, "\n|---|---|{}", "---|".repeat(reports.len()));
}

fn row(page: &mut String, check: &Check, reports: &BTreeMap<String, Report>) {
    let _ = write!(page, "| {} | {} |", check.promise, check.name());
    for report in reports.values() {
        let found = report.findings.iter().find(|finding| finding.check == check.id);
        let word = match found.map(|finding| &finding.outcome) {
            Some(Outcome::Kept) => "kept",
            Some(Outcome::Skipped { .. }) => "skipped",
            Some(Outcome::Broken { .. }) => "BROKEN",
            None => "not run",
        };
        let _ = write!(page, " {word} |");
    }
    page.push('\n');
}

fn reasons(page: &mut String, reports: &BTreeMap<String, Report>) {
    let _ = writeln!(page, "\n## Why checks were skipped\n");
    let mut none = true;
    for (name, report) in reports {
        for finding in report.skipped() {
            if let Outcome::Skipped { reason } = &finding.outcome {
                none = false;
                let _ = writeln!(page, "* {name}, {}: {reason}.", finding.check.replace('_', " "));
            }
        }
    }
    if none {
        let _ = writeln!(page, "None was.");
    }
}
