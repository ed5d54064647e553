//! Faults: what goes wrong, in which calls, when, and how often. Data; the world makes them happen.

use std::time::Duration;

use cloud_provider::nearest::nearest;
use serde::{Deserialize, Serialize};

use crate::api::Operation;
use crate::spell;

/// A fault, armed from the start or by the back door.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fault {
    /// Which calls: the name of one, a prefix as in `list_*`, `reads`, `writes`, or `*` for all.
    pub operation: String,
    /// What goes wrong.
    pub effect: Effect,
    /// Only calls about this object, by ID or name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// Only this page of a list; the first is 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<u64>,
    /// Only calls of this cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// How likely it is, from 0 to 1.
    #[serde(default = "certain")]
    pub probability: f64,
    /// So many matching calls go well first.
    #[serde(default)]
    pub skip: u64,
    /// So often at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// Not before the world is this old.
    #[serde(default, with = "spell")]
    pub from: Duration,
    /// Not once the world is this old.
    #[serde(default, with = "spell::maybe", skip_serializing_if = "Option::is_none")]
    pub until: Option<Duration>,
    /// The wait that `throttle` asks for, or by which `slow` delays.
    #[serde(default, with = "spell::maybe", skip_serializing_if = "Option::is_none")]
    pub after: Option<Duration>,
}

fn certain() -> f64 {
    1.0
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Effect {
    /// The cloud breaks (500) and does nothing.
    Fail,
    /// No answer ever comes, and nothing is done.
    Hang,
    /// It is done, and the answer is lost on the way.
    LoseAnswer,
    /// It is done, and no answer ever comes.
    HangAfter,
    /// The credential is not known (401).
    Unauthorized,
    /// The credential may not do this (403).
    Forbidden,
    /// Too many calls (429), with `after` as Retry-After.
    Throttle,
    /// The quota is used up.
    Quota,
    /// Something stands in the way (409).
    Conflict,
    /// The object is said not to exist.
    NotFound,
    /// Lists answer with success and nothing in them; a get finds nothing.
    Empty,
    /// The credential is another project's: lists show strangers; a get finds nothing.
    Foreign,
    /// A page shows an object twice.
    Duplicate,
    /// A page names itself as the next one.
    RepeatPage,
    /// It takes `after` longer.
    Slow,
}

impl Fault {
    /// A fault of these calls, every time.
    pub fn new(operation: impl Into<String>, effect: Effect) -> Self {
        Self {
            operation: operation.into(),
            effect,
            object: None,
            page: None,
            cluster: None,
            probability: 1.0,
            skip: 0,
            times: None,
            from: Duration::ZERO,
            until: None,
            after: None,
        }
    }

    /// A fault of the next such call alone.
    pub fn once(operation: impl Into<String>, effect: Effect) -> Self {
        Self::new(operation, effect).times(1)
    }

    /// Lets so many calls go well first.
    #[must_use]
    pub fn skip(mut self, calls: u64) -> Self {
        self.skip = calls;
        self
    }

    /// Happens so often at most.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Happens with this probability.
    #[must_use]
    pub fn with_probability(mut self, probability: f64) -> Self {
        self.probability = probability;
        self
    }

    /// Happens only to calls about this object.
    #[must_use]
    pub fn about(mut self, object: impl Into<String>) -> Self {
        self.object = Some(object.into());
        self
    }

    /// Happens only on this page of a list.
    #[must_use]
    pub fn on_page(mut self, page: u64) -> Self {
        self.page = Some(page);
        self
    }

    /// Happens only to calls of this cluster.
    #[must_use]
    pub fn for_cluster(mut self, cluster: impl Into<String>) -> Self {
        self.cluster = Some(cluster.into());
        self
    }

    /// Happens only while the world's age is in this window.
    #[must_use]
    pub fn within(mut self, from: Duration, until: Duration) -> Self {
        self.from = from;
        self.until = Some(until);
        self
    }

    /// Sets the wait that `throttle` asks for, or by which `slow` delays.
    #[must_use]
    pub fn after(mut self, after: Duration) -> Self {
        self.after = Some(after);
        self
    }

    /// Why this fault could never happen as it is written.
    pub fn check(&self) -> Result<(), String> {
        check_pattern(&self.operation)?;
        if !(0.0..=1.0).contains(&self.probability) {
            return Err(format!("probability {} is not between 0 and 1", self.probability));
        }
        if self.until.is_some_and(|until| until <= self.from) {
            return Err("until is not later than from".to_owned());
        }
        if self.effect == Effect::Slow && self.after.is_none() {
            return Err("slow needs after, the time by which calls are delayed".to_owned());
        }
        Ok(())
    }

    /// Whether a call is one of those meant, whenever it comes.
    pub(crate) fn aims_at(&self, call: &Aim<'_>) -> bool {
        matches(&self.operation, call.operation)
            && self.object.as_deref().is_none_or(|object| call.objects.contains(&object))
            && self.page.is_none_or(|page| call.page == Some(page))
            && self.cluster.as_deref().is_none_or(|cluster| cluster == call.caller)
    }

    /// Whether it may happen at this age of the world.
    pub(crate) fn is_in_season(&self, age: Duration) -> bool {
        age >= self.from && self.until.is_none_or(|until| age < until)
    }
}

/// What is known of a call when faults are chosen.
pub(crate) struct Aim<'a> {
    pub(crate) operation: Operation,
    pub(crate) objects: Vec<&'a str>,
    pub(crate) page: Option<u64>,
    pub(crate) caller: &'a str,
}

/// Says what is wrong with a pattern of operations.
pub(crate) fn check_pattern(pattern: &str) -> Result<(), String> {
    if Operation::ALL.iter().any(|operation| matches(pattern, *operation)) {
        return Ok(());
    }
    let known = Operation::ALL.iter().map(|operation| operation.name()).chain(["reads", "writes"]);
    let hint = nearest(pattern, known).map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
    Err(format!("{pattern:?} names no operation{hint}"))
}

/// Whether a pattern means this operation.
pub(crate) fn matches(pattern: &str, operation: Operation) -> bool {
    match pattern {
        "reads" => !operation.is_write(),
        "writes" => operation.is_write(),
        _ => match pattern.strip_suffix('*') {
            Some(prefix) => operation.name().starts_with(prefix),
            None => operation.name() == pattern,
        },
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("*", 24)]
    #[case("list_*", 6)]
    #[case("reads", 10)]
    #[case("writes", 14)]
    #[case("set_backends", 1)]
    #[case("set_backend", 0)]
    fn a_pattern_means_so_many_operations(#[case] pattern: &str, #[case] count: usize) {
        let meant = Operation::ALL.iter().filter(|operation| matches(pattern, **operation)).count();
        assert_eq!(meant, count);
        assert_eq!(check_pattern(pattern).is_ok(), count > 0);
    }

    #[rstest]
    #[case(
        Fault::new("create_rout", Effect::Fail),
        "\"create_rout\" names no operation; did you mean \"create_route\"?"
    )]
    #[case(Fault::new("*", Effect::Fail).with_probability(1.5), "probability 1.5 is not between 0 and 1")]
    #[case(Fault::new("*", Effect::Slow), "slow needs after, the time by which calls are delayed")]
    #[case(
        Fault::new("*", Effect::Fail).within(Duration::from_secs(5), Duration::from_secs(5)),
        "until is not later than from"
    )]
    fn a_fault_that_could_never_happen_is_refused(#[case] fault: Fault, #[case] why: &str) {
        assert_eq!(fault.check(), Err(why.to_owned()));
    }
}
