//! The way of one call: it is counted, throttled, delayed, hit by a fault, carried out, and its answer bent or lost.

use std::future::pending;
use std::time::Duration;

use cloud_provider::{Permit, Verb};

use super::ledger::Rule;
use super::rules::By;
use super::shelf::Place;
use super::trouble::Strike;
use super::{State, World};
use crate::api::{ApiError, Listed, Operation};
use crate::fault::{Aim, Effect};
use crate::objects::{Address, Balancer, Disk, Machine, Object, RouteEntry};

/// What a write shows for itself.
#[derive(Debug, Clone, Copy)]
pub enum Warrant<'a> {
    /// The permit itself, in this process.
    Permit(&'a Permit),
    /// What a request over HTTP says of its permit; nothing if it says nothing.
    Told(Option<Verb>),
}

/// One call, before it is made.
pub(super) struct Asked<'a> {
    pub(super) caller: &'a str,
    pub(super) operation: Operation,
    /// What it is about: an ID, a name, or both. The first goes into the log.
    pub(super) objects: Vec<&'a str>,
    pub(super) page: Option<&'a str>,
    pub(super) warrant: Option<Warrant<'a>>,
}

impl World {
    pub(super) async fn call<T: Answer>(
        &self,
        asked: Asked<'_>,
        act: impl FnOnce(&mut State, By<'_>) -> Result<T, ApiError> + Send,
    ) -> Result<T, ApiError> {
        let mut flight = self.take_off(&asked);
        let result = self.carry_out(&asked, act).await;
        flight.outcome = result.as_ref().err().map_or("ok", ApiError::code);
        result
    }

    async fn carry_out<T: Answer>(
        &self,
        asked: &Asked<'_>,
        act: impl FnOnce(&mut State, By<'_>) -> Result<T, ApiError> + Send,
    ) -> Result<T, ApiError> {
        let strike = self.judge(asked)?;
        let mut latency = self.shared.config.latency_of(asked.operation);
        if let Some(Strike { effect: Effect::Slow, after: Some(after) }) = strike {
            latency += after;
        }
        if !latency.is_zero() {
            self.shared.clock.sleep(latency).await;
        }
        let effect = strike.map(|strike| strike.effect);
        match effect {
            Some(Effect::Hang) => return pending().await,
            Some(effect) => {
                let after = strike.and_then(|strike| strike.after);
                refusal(effect, after, asked).map_or(Ok(()), Err)?;
            }
            None => {}
        }
        let mut answer = self.act(asked, act)?;
        match effect {
            Some(Effect::LoseAnswer) => Err(ApiError::Lost),
            Some(Effect::HangAfter) => pending().await,
            Some(effect) => {
                answer.bend(effect, asked.page);
                Ok(answer)
            }
            None => Ok(answer),
        }
    }

    /// Whether the call is throttled, and which fault hits it.
    fn judge(&self, asked: &Asked<'_>) -> Result<Option<Strike>, ApiError> {
        let age = self.age();
        let page = if asked.operation.is_list() { Some(Place::parse(asked.page)?.number) } else { None };
        let aim =
            Aim { operation: asked.operation, objects: asked.objects.clone(), page, caller: asked.caller };
        let mut state = self.state();
        if let Some(Err(after)) = state.bucket.as_mut().map(|bucket| bucket.take(age)) {
            return Err(ApiError::Throttled { after: Some(after) });
        }
        Ok(state.trouble.strike(&aim, age))
    }

    fn act<T>(
        &self,
        asked: &Asked<'_>,
        act: impl FnOnce(&mut State, By<'_>) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let (now, config) = (self.age(), &self.shared.config);
        let by = By { caller: asked.caller, now, operation: asked.operation, config };
        // The lease is asked about outside the lock: the gate is somebody else's code.
        let complaint =
            asked.warrant.and_then(|warrant| warrant.complaint(asked.operation, config.expect_permits));
        let mut state = self.state();
        if let Some(what) = complaint {
            let object = asked.objects.first().unwrap_or(&"");
            let what = format!("{:?} called {} on {object:?} {what}", asked.caller, asked.operation);
            state.ledger.violation(now, Rule::Permit, what);
        }
        act(&mut state, by)
    }

    fn take_off(&self, asked: &Asked<'_>) -> Flight<'_> {
        let age = self.age();
        let object = asked.objects.first().unwrap_or(&"");
        let call = self.state().ledger.enter(age, asked.caller, asked.operation, object);
        let number = call.number;
        self.tell(&call);
        Flight { world: self, number, outcome: "cancelled" }
    }
}

/// A call under way. Dropped early, it was cancelled.
struct Flight<'a> {
    world: &'a World,
    number: u64,
    outcome: &'static str,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.world.state().ledger.leave(self.number, self.outcome);
    }
}

impl Warrant<'_> {
    /// What is wrong with it, in words.
    fn complaint(self, operation: Operation, expect_permits: bool) -> Option<String> {
        let verb = match self {
            Self::Permit(permit) if permit.check().is_err() => {
                return Some("when the lease may have passed on".to_owned());
            }
            Self::Permit(permit) => Some(permit.change().verb()),
            Self::Told(verb) => verb,
        };
        match verb {
            None => expect_permits.then(|| "without a permit".to_owned()),
            Some(verb) if operation.verb() != Some(verb) => Some(format!("with a permit to {verb}")),
            Some(_) => None,
        }
    }
}

/// The error that stands in for the call, for a fault that keeps it from being made.
fn refusal(effect: Effect, after: Option<Duration>, asked: &Asked<'_>) -> Option<ApiError> {
    let object = asked.objects.first().copied().unwrap_or_default();
    match effect {
        Effect::Fail => Some(ApiError::Failed { why: "internal error (500)".to_owned() }),
        Effect::Unauthorized => Some(ApiError::Unauthorized),
        Effect::Forbidden => Some(ApiError::Forbidden),
        Effect::Throttle => Some(ApiError::Throttled { after }),
        Effect::Quota => Some(ApiError::QuotaExceeded { kind: asked.operation.name().to_owned() }),
        Effect::Conflict => Some(ApiError::Conflict { why: "another change is under way (409)".to_owned() }),
        Effect::NotFound => Some(ApiError::not_found(object)),
        Effect::Empty | Effect::Foreign if asked.operation.name().starts_with("get_") => {
            Some(ApiError::not_found(object))
        }
        _ => None,
    }
}

/// An answer that a fault may bend.
pub(super) trait Answer: Send {
    /// Bends it; most answers stay as they are.
    fn bend(&mut self, _effect: Effect, _page: Option<&str>) {}
}

impl<T: Object> Answer for Listed<T> {
    fn bend(&mut self, effect: Effect, page: Option<&str>) {
        match effect {
            Effect::Empty => *self = Self { items: Vec::new(), next: None },
            Effect::Foreign => *self = Self { items: T::stranger().into_iter().collect(), next: None },
            Effect::Duplicate => self.items.extend(self.items.first().cloned()),
            Effect::RepeatPage => self.next = Some(page.unwrap_or("1:").to_owned()),
            _ => {}
        }
    }
}

impl Answer for () {}
impl Answer for Machine {}
impl Answer for Address {}
impl Answer for Balancer {}
impl Answer for RouteEntry {}
impl Answer for Disk {}
impl Answer for std::collections::BTreeMap<String, String> {
    fn bend(&mut self, effect: Effect, _: Option<&str>) {
        if matches!(effect, Effect::Empty | Effect::Foreign) {
            self.clear();
        }
    }
}
