//! Which events are written: `-v`, `--vmodule`, and a handle that changes both at run time.

use std::sync::{Arc, PoisonError, RwLock};

use tracing::subscriber::Interest;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Filter};

use super::fields::Fields;

/// Libraries that log for their own developers: they speak up from [`FOREIGN`] on, and with warnings.
const LIBRARIES: &[&str] =
    &["h2", "hyper", "hyper_util", "kube_client", "kube_core", "kube_runtime", "rustls", "tokio", "tower"];

/// How much above our own events those of [`LIBRARIES`] stand: their `debug!` is `-v=8`, their `trace!` `-v=10`.
const FOREIGN: u8 = 4;

/// Never written, at any verbosity: this module of kube's client puts response bodies and request errors into its
/// events. Our own client logs each request without either.
const SILENT: &str = "kube_client::client";

/// The verbosity that a level stands for.
pub(super) fn implied_by(level: Level) -> u8 {
    match level {
        Level::ERROR | Level::WARN | Level::INFO => 0,
        Level::DEBUG => 4,
        Level::TRACE => 6,
    }
}

/// A `--vmodule` pattern that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed vmodule pattern {0:?}: expected pattern=level")]
pub struct VmoduleError(String);

#[derive(Debug, Clone)]
struct Pattern {
    glob: String,
    verbosity: u8,
}

#[derive(Debug)]
struct Settings {
    verbosity: u8,
    patterns: Vec<Pattern>,
}

impl Settings {
    /// The verbosity that holds for a place in the source.
    fn at(&self, metadata: &Metadata<'_>) -> u8 {
        let path = metadata.file().unwrap_or("").trim_end_matches(".rs");
        let base = super::base_name(path);
        let matching = self.patterns.iter().find(|pattern| {
            let subject = if pattern.glob.contains('/') { path } else { base };
            matches(pattern.glob.as_bytes(), subject.as_bytes())
        });
        matching.map_or(self.verbosity, |pattern| pattern.verbosity)
    }

    fn highest(&self) -> u8 {
        self.patterns.iter().map(|pattern| pattern.verbosity).fold(self.verbosity, u8::max)
    }
}

/// The filter; see [`Handle`] for changing it.
#[derive(Debug, Clone)]
pub(super) struct Verbosity(Arc<RwLock<Settings>>);

impl Verbosity {
    pub(super) fn new(verbosity: u8, vmodule: &str) -> Result<Self, VmoduleError> {
        let patterns = parse(vmodule)?;
        Ok(Self(Arc::new(RwLock::new(Settings { verbosity, patterns }))))
    }

    pub(super) fn handle(&self) -> Handle {
        Handle(self.clone())
    }

    /// Whether an event that says its verbosity itself is written. Asked by the layer and not as
    /// `Filter::event_enabled`: a refusal there leaves the registry's per-thread filter state behind for the next event.
    pub(super) fn admits(&self, metadata: &Metadata<'_>, fields: &Fields) -> bool {
        let Some(asked) = fields.verbosity else { return true };
        *metadata.level() <= Level::WARN || self.read(|settings| asked <= u64::from(settings.at(metadata)))
    }

    fn read<T>(&self, question: impl FnOnce(&Settings) -> T) -> T {
        question(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
        tracing::callsite::rebuild_interest_cache();
    }

    fn shows(&self, metadata: &Metadata<'_>) -> bool {
        if within(metadata.target(), SILENT) {
            return false;
        }
        if *metadata.level() <= Level::WARN {
            return true;
        }
        let foreign = LIBRARIES.iter().any(|library| within(metadata.target(), library));
        let asked = implied_by(*metadata.level()) + if foreign { FOREIGN } else { 0 };
        self.read(|settings| asked <= settings.at(metadata))
    }
}

/// Whether a target is a module or lies below it.
fn within(target: &str, module: &str) -> bool {
    target.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

impl<S> Filter<S> for Verbosity {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.shows(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.shows(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let highest = self.read(Settings::highest);
        Some(match highest {
            0..4 => LevelFilter::INFO,
            4..6 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        })
    }
}

/// Changes what is written while the process runs; clones change the same log.
#[derive(Debug, Clone)]
pub struct Handle(Verbosity);

impl Handle {
    /// The verbosity in force.
    pub fn verbosity(&self) -> u8 {
        self.0.read(|settings| settings.verbosity)
    }

    /// Sets `-v`.
    pub fn set_verbosity(&self, verbosity: u8) {
        self.0.change(|settings| settings.verbosity = verbosity);
    }

    /// Sets `--vmodule`; a malformed list changes nothing.
    pub fn set_vmodule(&self, vmodule: &str) -> Result<(), VmoduleError> {
        let patterns = parse(vmodule)?;
        self.0.change(|settings| settings.patterns = patterns);
        Ok(())
    }
}

fn parse(vmodule: &str) -> Result<Vec<Pattern>, VmoduleError> {
    let pairs = vmodule.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let malformed = || VmoduleError(pair.to_owned());
            let (glob, level) = pair.split_once('=').ok_or_else(malformed)?;
            let verbosity = level.parse().map_err(|_| malformed())?;
            if glob.is_empty() {
                return Err(malformed());
            }
            Ok(Pattern { glob: glob.trim_end_matches(".rs").to_owned(), verbosity })
        })
        .collect()
}

/// Whether a glob with `*` and `?` covers a whole text.
fn matches(glob: &[u8], text: &[u8]) -> bool {
    match (glob.split_first(), text.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => {
            matches(rest, text) || text.split_first().is_some_and(|(_, tail)| matches(glob, tail))
        }
        (Some((b'?', rest)), Some((_, tail))) => matches(rest, tail),
        (Some((wanted, rest)), Some((found, tail))) => wanted == found && matches(rest, tail),
        _ => false,
    }
}
