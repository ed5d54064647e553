//! One kind of objects: IDs that count up, lists that may lag behind, tokens that never do.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::api::{ApiError, Filter, Listed};
use crate::objects::Object;

pub(super) struct Shelf<T> {
    kind: &'static str,
    made: u64,
    kept: BTreeMap<String, Kept<T>>,
}

/// An object with what the cloud knows of it and does not show.
pub(super) struct Kept<T> {
    pub(super) value: T,
    /// The cluster that truly made it, whatever its tags say; nothing if anybody may take it.
    pub(super) maker: Option<String>,
    token: Option<String>,
    shown_from: Duration,
    gone_at: Option<Duration>,
}

/// How far lists lag behind.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Lag {
    pub(super) new: Duration,
    pub(super) deleted: Duration,
}

/// Where an object comes from.
pub(super) struct Origin {
    pub(super) maker: Option<String>,
    pub(super) token: Option<String>,
    /// When lists begin to show it.
    pub(super) shown_from: Duration,
}

impl<T: Object> Shelf<T> {
    pub(super) fn new(kind: &'static str) -> Self {
        Self { kind, made: 0, kept: BTreeMap::new() }
    }

    /// The next ID: the kind and a number, so that the order of IDs is the order of creation.
    pub(super) fn next_id(&mut self) -> String {
        self.made += 1;
        format!("{}-{:06}", self.kind, self.made)
    }

    pub(super) fn insert(&mut self, value: T, origin: Origin) {
        let Origin { maker, token, shown_from } = origin;
        let id = value.id().to_owned();
        self.kept.insert(id, Kept { value, maker, token, shown_from, gone_at: None });
    }

    pub(super) fn remove(&mut self, id: &str, now: Duration, lag: Lag) -> Option<T> {
        self.kept.retain(|_, kept| kept.gone_at.is_none_or(|gone| gone + lag.deleted > now));
        let kept = self.kept.get_mut(id).filter(|kept| kept.gone_at.is_none())?;
        kept.gone_at = Some(now);
        kept.token = None;
        Some(kept.value.clone())
    }

    /// What exists, whether or not lists show it.
    pub(super) fn alive(&self) -> impl Iterator<Item = &Kept<T>> {
        self.kept.values().filter(|kept| kept.gone_at.is_none())
    }

    pub(super) fn alive_mut(&mut self) -> impl Iterator<Item = &mut Kept<T>> {
        self.kept.values_mut().filter(|kept| kept.gone_at.is_none())
    }

    pub(super) fn len(&self) -> usize {
        self.alive().count()
    }

    pub(super) fn get(&self, id: &str) -> Result<&Kept<T>, ApiError> {
        self.kept
            .get(id)
            .filter(|kept| kept.gone_at.is_none())
            .ok_or_else(|| ApiError::not_found(format!("{} {id}", self.kind)))
    }

    pub(super) fn get_mut(&mut self, id: &str) -> Result<&mut T, ApiError> {
        let kind = self.kind;
        self.kept
            .get_mut(id)
            .filter(|kept| kept.gone_at.is_none())
            .map(|kept| &mut kept.value)
            .ok_or_else(|| ApiError::not_found(format!("{kind} {id}")))
    }

    pub(super) fn by_token(&self, token: Option<&str>) -> Option<&T> {
        let token = token?;
        self.alive().find(|kept| kept.token.as_deref() == Some(token)).map(|kept| &kept.value)
    }

    /// One page of what lists show now.
    pub(super) fn page(
        &self,
        filter: &Filter,
        place: &Place,
        size: usize,
        now: Duration,
        lag: Lag,
    ) -> Listed<T> {
        let mut rest = self
            .kept
            .range::<str, _>((std::ops::Bound::Excluded(place.last.as_str()), std::ops::Bound::Unbounded))
            .map(|(_, kept)| kept)
            .filter(|kept| kept.is_shown(filter, now, lag));
        let items: Vec<T> = rest.by_ref().take(size).map(|kept| kept.value.clone()).collect();
        let next = items
            .last()
            .filter(|_| rest.next().is_some())
            .map(|last| Place { number: place.number + 1, last: last.id().to_owned() }.to_string());
        Listed { items, next }
    }
}

impl<T: Object> Kept<T> {
    fn is_shown(&self, filter: &Filter, now: Duration, lag: Lag) -> bool {
        let lists_show = self.shown_from <= now && self.gone_at.is_none_or(|gone| now < gone + lag.deleted);
        match filter {
            Filter::All => lists_show,
            Filter::Named(name) => lists_show && self.value.name() == name,
            Filter::Tagged(key, value) => lists_show && self.value.tags().get(key) == Some(value),
            Filter::Token(token) => self.gone_at.is_none() && self.token.as_ref() == Some(token),
        }
    }
}

/// Where a page begins: its number and the ID after which it starts. Clients see it as a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) number: u64,
    pub(super) last: String,
}

impl Place {
    pub(super) fn parse(token: Option<&str>) -> Result<Self, ApiError> {
        let Some(token) = token else { return Ok(Self { number: 1, last: String::new() }) };
        token
            .split_once(':')
            .and_then(|(number, last)| Some(Self { number: number.parse().ok()?, last: last.to_owned() }))
            .ok_or_else(|| ApiError::Invalid { why: format!("{token:?} is no page token of ours") })
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.number, self.last)
    }
}
