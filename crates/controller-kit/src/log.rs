//! What the process says about itself: klog's text and component-base's JSON, at klog's verbosity levels.
//!
//! Write events with tracing's macros. `info!`, `debug!` and `trace!` stand for `-v` 0, 4 and 6; a field `v` says it
//! more exactly: `info!(v = 2, node = %name, "initialised")`. Spans carry what all events inside share (the
//! controller, the object's key). Secrets are kept in [`Secret`], which no formatter can print.

mod fields;
mod json;
mod secret;
mod text;
mod verbosity;

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use tracing::{Event, Subscriber, span};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Scope};

use self::fields::Fields;
pub use self::secret::Secret;
use self::verbosity::Verbosity;
pub use self::verbosity::{Handle, VmoduleError};
use crate::clock::SharedClock;

/// The shape of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// klog's text.
    #[default]
    Text,
    /// One JSON object per line, with component-base's keys.
    Json,
}

/// The format is neither `text` nor `json`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown logging format {0:?}: expected text or json")]
pub struct FormatError(String);

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(FormatError(other.to_owned())),
        }
    }
}

/// What `--logging-format`, `-v` and `--vmodule` said.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The shape of a line.
    pub format: Format,
    /// Lines above this level are not written.
    pub verbosity: u8,
    /// Other levels for some files: `node*=4,client=8`.
    pub vmodule: String,
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// `--vmodule` is malformed.
    #[error("reading the vmodule patterns")]
    Vmodule(#[source] VmoduleError),
    /// Something else has already installed a subscriber.
    #[error("installing the log subscriber")]
    AlreadySet(#[source] tracing::subscriber::SetGlobalDefaultError),
}

/// Writes all events of this process to standard error; the handle changes the verbosity while it runs.
pub fn init(options: &Options, clock: SharedClock) -> Result<Handle, InitError> {
    let (layer, handle) = layer(options, clock, std::io::stderr).map_err(InitError::Vmodule)?;
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::set_global_default(subscriber).map_err(InitError::AlreadySet)?;
    Ok(handle)
}

/// The same as a layer, for a subscriber of one's own or a test that reads what was written.
pub fn layer<S, W>(
    options: &Options,
    clock: SharedClock,
    writer: W,
) -> Result<(impl Layer<S> + use<S, W>, Handle), VmoduleError>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let verbosity = Verbosity::new(options.verbosity, &options.vmodule)?;
    let handle = verbosity.handle();
    let lines = Lines {
        format: options.format,
        verbosity: verbosity.clone(),
        clock,
        writer,
        process: std::process::id(),
    };
    Ok((lines.with_filter(verbosity), handle))
}

/// Turns each event into one line.
struct Lines<W> {
    format: Format,
    verbosity: Verbosity,
    clock: SharedClock,
    writer: W,
    process: u32,
}

/// Where in the source the event stands.
struct Caller<'a>(&'a str, u32);

impl fmt::Display for Caller<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0, self.1)
    }
}

/// All that a formatter may print of an event.
struct Line<'a> {
    time: jiff::Timestamp,
    process: u32,
    level: tracing::Level,
    caller: Caller<'a>,
    fields: Fields,
}

impl<S, W> Layer<S> for Lines<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + 'static,
{
    fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &span::Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &span::Id, values: &span::Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        for span in context.event_scope(event).into_iter().flat_map(Scope::from_root) {
            if let Some(of_span) = span.extensions().get::<Fields>() {
                fields.extend(of_span);
            }
        }
        event.record(&mut fields);
        let metadata = event.metadata();
        if !self.verbosity.admits(metadata, &fields) {
            return;
        }
        let line = Line {
            time: self.clock.now(),
            process: self.process,
            level: *metadata.level(),
            caller: Caller(metadata.file().map_or("???", base_name), metadata.line().unwrap_or(1)),
            fields,
        };
        let text = match self.format {
            Format::Text => text::format(&line),
            Format::Json => json::format(&line),
        };
        // A log that cannot be written has nowhere to say so.
        let _ = std::io::Write::write_all(&mut self.writer.make_writer_for(metadata), text.as_bytes());
    }
}

fn base_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// An error and all its sources on one line, for a log field or a condition message.
///
/// A source whose text its parent already ends with is not repeated: some libraries print their source themselves. Of
/// an answer that cannot be decoded only the place is told, because the decoder would quote it.
pub fn report<'a>(error: &'a (dyn Error + 'static)) -> impl fmt::Display + 'a {
    Report(error)
}

struct Report<'a>(&'a (dyn Error + 'static));

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = words(self.0);
        f.write_str(&said)?;
        let mut next = self.0.source();
        while let Some(error) = next {
            let text = words(error);
            if !said.ends_with(&text) {
                write!(f, ": {text}")?;
            }
            said = text;
            next = error.source();
        }
        Ok(())
    }
}

/// What an error says, without what it quotes.
fn words(error: &(dyn Error + 'static)) -> String {
    if let Some(json) = error.downcast_ref::<serde_json::Error>() {
        return format!("unexpected JSON at line {} column {}", json.line(), json.column());
    }
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::SerdeError(_)) => "decoding the answer of the API server".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
