//! What happened, in order and with virtual timestamps: the requests, for counting, and the trace, for comparing
//! one run with another byte by byte.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::route::Verb;

/// A request as the server received it.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The request's number, from one.
    pub number: u64,
    /// Virtual time since the server started.
    pub at: Duration,
    /// What was asked for.
    pub verb: Verb,
    /// The kind, such as `Node`; the path for what is no kind.
    pub kind: String,
    /// The namespace; empty for cluster-scoped kinds.
    pub namespace: String,
    /// The object's name; empty for collections, and for creations the name in the body.
    pub name: String,
    /// The subresource, such as `status`; empty without one.
    pub subresource: String,
    /// The media type of the body, which tells the patch formats apart.
    pub content_type: String,
    /// The body as JSON; null without one.
    pub body: Value,
    /// The query of the URL.
    pub query: String,
    /// Who sent it.
    pub user_agent: String,
    /// The HTTP status; 0 while unanswered or when the answer was lost on the way.
    pub code: u16,
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.kind)?;
        for part in [&self.namespace, &self.name, &self.subresource] {
            if !part.is_empty() {
                write!(f, "/{part}")?;
            }
        }
        Ok(())
    }
}

/// Requests, to be narrowed down and counted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Requests(Vec<Arc<Request>>);

impl Requests {
    pub(crate) fn new(requests: Vec<Arc<Request>>) -> Self {
        Self(requests)
    }

    /// Those that satisfy `predicate`.
    #[must_use]
    pub fn filter(mut self, predicate: impl Fn(&Request) -> bool) -> Self {
        self.0.retain(|request| predicate(request));
        self
    }

    /// Those with the verb.
    #[must_use]
    pub fn verb(self, verb: Verb) -> Self {
        self.filter(|request| request.verb == verb)
    }

    /// Those that may change something.
    #[must_use]
    pub fn writes(self) -> Self {
        self.filter(|request| request.verb.is_write())
    }

    /// Those about the kind, such as `Node`.
    #[must_use]
    pub fn kind(self, kind: &str) -> Self {
        self.filter(|request| request.kind == kind)
    }

    /// Those about the object.
    #[must_use]
    pub fn name(self, name: &str) -> Self {
        self.filter(|request| request.name == name)
    }

    /// Those about the subresource.
    #[must_use]
    pub fn subresource(self, subresource: &str) -> Self {
        self.filter(|request| request.subresource == subresource)
    }

    /// Those sent by the user agent.
    #[must_use]
    pub fn user_agent(self, agent: &str) -> Self {
        self.filter(|request| request.user_agent == agent)
    }

    /// Those received at this virtual time or later.
    #[must_use]
    pub fn since(self, at: Duration) -> Self {
        self.filter(|request| request.at >= at)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In the order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = &Request> {
        self.into_iter()
    }

    /// The latest.
    pub fn last(&self) -> Option<&Request> {
        self.0.last().map(Arc::as_ref)
    }
}

/// Requests in the order of arrival.
type Iter<'a> = std::iter::Map<std::slice::Iter<'a, Arc<Request>>, fn(&'a Arc<Request>) -> &'a Request>;

impl<'a> IntoIterator for &'a Requests {
    type Item = &'a Request;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().map(Arc::as_ref)
    }
}

impl fmt::Display for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for request in self {
            writeln!(f, "{:>12.3} {request} -> {}", request.at.as_secs_f64(), request.code)?;
        }
        Ok(())
    }
}

/// Everything that the server did, line by line. Two runs with the same seed print the same trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace(Vec<String>);

impl Trace {
    pub(crate) fn push(&mut self, at: Duration, what: fmt::Arguments<'_>) {
        self.0.push(format!("{:>12.3} {what}", at.as_secs_f64()));
    }

    /// The lines.
    pub fn lines(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// The records behind the lock.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) requests: Vec<Arc<Request>>,
    pub(crate) trace: Trace,
}

impl Recorder {
    /// Takes a request down and gives it its number.
    pub(crate) fn received(&mut self, mut request: Request) -> u64 {
        let number = self.requests.len() as u64 + 1;
        request.number = number;
        let body = if request.body.is_null() { String::new() } else { format!(" {}", request.body) };
        let query = if request.query.is_empty() { String::new() } else { format!("?{}", request.query) };
        self.trace.push(request.at, format_args!("#{number} {request}{query}{body}"));
        self.requests.push(Arc::new(request));
        number
    }

    /// Takes the answer down.
    pub(crate) fn answered(&mut self, number: u64, at: Duration, code: u16, what: fmt::Arguments<'_>) {
        let index = usize::try_from(number).unwrap_or_default().wrapping_sub(1);
        if let Some(request) = self.requests.get_mut(index) {
            Arc::make_mut(request).code = code;
        }
        self.trace.push(at, format_args!("#{number} -> {what}"));
    }
}
