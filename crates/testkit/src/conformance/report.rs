//! What came of a run: a table for people, JSON for the reference page, and a panic for a test.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::stand_in::Count;

/// The environment variable that says where the JSON goes.
pub const OUT: &str = "NEPHOS_CONFORMANCE_OUT";
/// The environment variable that, set to `1`, writes what would otherwise be compared.
pub const BLESS: &str = "NEPHOS_BLESS";

/// What a run of the suite found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The provider's name.
    pub provider: String,
    /// What stood in for its cloud.
    pub stand_in: String,
    /// How time passed.
    pub time: String,
    /// One finding per check, in the order of the suite.
    pub findings: Vec<Finding>,
    /// How long it took.
    #[serde(skip)]
    pub took: Duration,
}

/// What one check found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What the check is about.
    pub group: String,
    /// Its name, with underscores for spaces.
    pub check: String,
    /// What is promised.
    pub promise: String,
    /// Whether it was kept.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// How many calls reached the cloud meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<Count>,
}

/// Whether a promise was kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub enum Outcome {
    /// It was.
    Kept,
    /// It was not.
    Broken {
        /// What was seen instead.
        seen: String,
    },
    /// It could not be checked.
    Skipped {
        /// Why.
        reason: String,
    },
}

impl Report {
    /// The findings whose promise was broken.
    pub fn broken(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| matches!(finding.outcome, Outcome::Broken { .. }))
    }

    /// The findings that were skipped.
    pub fn skipped(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| matches!(finding.outcome, Outcome::Skipped { .. }))
    }

    /// How many promises were kept.
    pub fn kept(&self) -> usize {
        self.findings.iter().filter(|finding| finding.outcome == Outcome::Kept).count()
    }

    /// Panics if a promise was broken, or if not one was kept, and names each.
    ///
    /// # Panics
    ///
    /// That is what it is for.
    pub fn assert_conforms(&self) {
        let broken: Vec<String> = self.broken().map(ToString::to_string).collect();
        assert!(
            broken.is_empty(),
            "{} ({}) breaks {} promises:\n{}",
            self.provider,
            self.stand_in,
            broken.len(),
            broken.join("\n")
        );
        assert!(self.kept() > 0, "{} ({}): every check was skipped", self.provider, self.stand_in);
    }

    /// Writes the report as JSON to the path in `NEPHOS_CONFORMANCE_OUT`, or else to
    /// `target/conformance/<provider>.json`.
    pub fn write(&self) -> io::Result<PathBuf> {
        self.write_to(self.path())
    }

    /// Writes the report beside the provider's other one, under a name that ends with this word: for a second
    /// stand-in of the same provider.
    pub fn write_beside(&self, word: &str) -> io::Result<PathBuf> {
        let path = self.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        self.write_to(path.with_file_name(format!("{stem}-{word}.json")))
    }

    /// The report without what changes from run to run, as the repository keeps it.
    pub fn for_the_record(&self) -> String {
        let mut lasting = self.clone();
        for finding in &mut lasting.findings {
            finding.calls = None;
        }
        lasting.json()
    }

    fn path(&self) -> PathBuf {
        std::env::var_os(OUT).map_or_else(
            || root().join("target/conformance").join(format!("{}.json", self.provider)),
            PathBuf::from,
        )
    }

    fn write_to(&self, path: PathBuf) -> io::Result<PathBuf> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&path, self.json())?;
        Ok(path)
    }

    fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

/// The root of the repository: the nearest folder upwards with a `Cargo.lock`.
pub(super) fn root() -> PathBuf {
    let start = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(PathBuf::new, PathBuf::from);
    start
        .ancestors()
        .find(|folder| folder.join("Cargo.lock").exists())
        .map_or_else(PathBuf::new, Path::to_owned)
}

/// Holds a file of the repository to what it should be, or writes it when `NEPHOS_BLESS` is `1`.
pub(super) fn hold(path: &Path, expected: &str) -> Result<(), String> {
    if std::env::var_os(BLESS).is_some_and(|value| value == "1") {
        let written = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        return written
            .and_then(|()| std::fs::write(path, expected))
            .map_err(|error| format!("writing {}: {error}", path.display()));
    }
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    if stored == expected {
        return Ok(());
    }
    let line = stored.lines().zip(expected.lines()).position(|(stored, expected)| stored != expected);
    let line = line.unwrap_or_else(|| stored.lines().count().min(expected.lines().count())) + 1;
    Err(format!("{} is out of date from line {line} on: run this test with {BLESS}=1", path.display()))
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n    promised: {}", self.group, self.check.replace('_', " "), self.promise)?;
        match &self.outcome {
            Outcome::Kept => write!(f, "\n    kept"),
            Outcome::Broken { seen } => write!(f, "\n    seen: {seen}"),
            Outcome::Skipped { reason } => write!(f, "\n    skipped: {reason}"),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "conformance of {}, {}, in {}", self.provider, self.stand_in, self.time)?;
        let width = self.findings.iter().map(|finding| finding.check.len()).max().unwrap_or_default();
        let mut group = "";
        for finding in &self.findings {
            if finding.group != group {
                group = &finding.group;
                writeln!(f, "\n{group}")?;
            }
            let name = finding.check.replace('_', " ");
            let calls = finding.calls.unwrap_or_default();
            let (word, more) = match &finding.outcome {
                Outcome::Kept => ("kept", String::new()),
                Outcome::Broken { seen } => {
                    ("BROKEN", format!("\n      promised: {}\n      seen: {seen}", finding.promise))
                }
                Outcome::Skipped { reason } => ("skipped", format!("  ({reason})")),
            };
            writeln!(
                f,
                "  {name:width$}  {word:7} {:>5} reads {:>4} writes{more}",
                calls.reads, calls.writes
            )?;
        }
        let (kept, broken, skipped) = (self.kept(), self.broken().count(), self.skipped().count());
        writeln!(f, "\n{kept} kept, {broken} broken, {skipped} skipped, in {:.2?}", self.took)
    }
}
