//! `cargo xtask`: the command line of the chores. It reads, calls the pure part and prints.

use std::io;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use cloud_controller_manager::reference;
use xtask::coverage::{self, Pages};
use xtask::repository::Repository;
use xtask::spec::Spec;
use xtask::words;

const USAGE: &str = "\
usage: cargo xtask <chore>

  coverage           write docs/reference/coverage.md and docs/reference/differences.md
  coverage --check   write nothing; fail when a page is stale or a claim does not hold
  reference          write the pages of docs/reference that are made from the manager's own tables
  reference --check  write nothing; fail when one of them is stale
  check-words        fail when a tracked file carries a path of somebody's machine
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let repository = Repository::containing_this_crate();
    let outcome = match args.as_slice() {
        ["coverage"] => write_pages(&repository),
        ["coverage", "--check"] => check_pages(&repository),
        ["reference"] => write_reference(&repository),
        ["reference", "--check"] => check_reference(&repository),
        ["check-words"] => check_words(&repository),
        _ => Err(anyhow::anyhow!("no such chore\n\n{USAGE}")),
    };
    match outcome {
        Ok(message) => say(io::stdout(), &message, ExitCode::SUCCESS),
        Err(error) => say(io::stderr(), &format!("xtask: {error:#}"), ExitCode::FAILURE),
    }
}

fn say(mut to: impl io::Write, message: &str, code: ExitCode) -> ExitCode {
    // A closed pipe is the only way this fails, and then nobody is left to tell.
    if writeln!(to, "{message}").is_err() { ExitCode::FAILURE } else { code }
}

/// Writes the pages even when claims do not hold, so that they can be read while repairing them.
fn write_pages(repository: &Repository) -> anyhow::Result<String> {
    let (pages, problems) = survey(repository)?;
    for (path, text) in pages.by_path() {
        repository.write(path, text).with_context(|| format!("writing {path}"))?;
    }
    if problems.is_empty() {
        return Ok(pages.summary);
    }
    bail!("the pages are written, but\n{}", problems.join("\n"))
}

fn check_pages(repository: &Repository) -> anyhow::Result<String> {
    let (pages, mut problems) = survey(repository)?;
    for (path, text) in pages.by_path() {
        if repository.read(path).ok().as_deref() != Some(text) {
            problems.push(format!("{path} is stale: run `make gen` and commit the result"));
        }
    }
    if problems.is_empty() {
        return Ok(pages.summary);
    }
    bail!("the coverage of the specification does not hold:\n{}", problems.join("\n"))
}

fn write_reference(repository: &Repository) -> anyhow::Result<String> {
    let pages = reference::pages();
    for (name, text) in &pages {
        let path = format!("docs/reference/{name}");
        repository.write(&path, text).with_context(|| format!("writing {path}"))?;
    }
    Ok(format!("{} reference pages written", pages.len()))
}

fn check_reference(repository: &Repository) -> anyhow::Result<String> {
    let pages = reference::pages();
    let is_stale = |(name, text): &&(&str, String)| {
        repository.read(&format!("docs/reference/{name}")).ok().as_deref() != Some(text.as_str())
    };
    let stale: Vec<&str> = pages.iter().filter(is_stale).map(|(name, _)| *name).collect();
    if stale.is_empty() {
        return Ok(format!("{} reference pages are current", pages.len()));
    }
    bail!("stale below docs/reference: {}: run `make gen` and commit the result", stale.join(", "))
}

fn survey(repository: &Repository) -> anyhow::Result<(Pages, Vec<String>)> {
    let spec = Spec::read(
        &repository.read("spec/behaviour.tsv")?,
        &repository.read("spec/areas.toml")?,
        &repository.read("spec/differences.toml")?,
    )
    .context("reading spec/")?;
    let sources = repository.rust_sources().context("reading the Rust sources")?;
    let (pages, problems) = coverage::survey(&spec, &sources);
    Ok((pages, problems.iter().map(ToString::to_string).collect()))
}

fn check_words(repository: &Repository) -> anyhow::Result<String> {
    let (mut failures, mut warnings, mut files) = (Vec::new(), Vec::new(), 0);
    for (path, text) in repository.tracked_texts().context("reading the tracked files")? {
        files += 1;
        for finding in words::inspect(&path, &text) {
            if finding.fails() { failures.push(finding) } else { warnings.push(finding) }
        }
    }
    let mut report: Vec<String> = warnings.iter().map(|w| format!("warning: {w}")).collect();
    if failures.is_empty() {
        report.push(format!("{files} tracked files carry no path of anybody's machine"));
        return Ok(report.join("\n"));
    }
    report.extend(failures.iter().map(ToString::to_string));
    bail!("words that do not belong here:\n{}", report.join("\n"))
}
