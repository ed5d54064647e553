//! Serde's view of a map, for every storey alike: a name, where it stands, and what can be read from it.

use serde::de::{DeserializeSeed, Deserializer, MapAccess};

use super::{Fault, key_deserializer};
use crate::gcfg::error::{Found, Place};

/// One name with what stands under it.
pub(super) struct Pair<D> {
    pub(super) key: String,
    /// Where a fault without a place of its own is reported.
    pub(super) place: Place,
    /// What an error says was found there.
    pub(super) found: Option<Found>,
    pub(super) value: D,
}

/// Pairs in the order in which serde is given them.
pub(super) struct Pairs<I, D> {
    rest: I,
    next: Option<(Place, Option<Found>, D)>,
    /// The place of the pair that was read last.
    pub(super) last: Option<Place>,
}

impl<I: Iterator<Item = Pair<D>>, D> Pairs<I, D> {
    pub(super) fn new(rest: I) -> Self {
        Self { rest, next: None, last: None }
    }
}

impl<'de, I, D> MapAccess<'de> for &mut Pairs<I, D>
where
    I: Iterator<Item = Pair<D>>,
    D: Deserializer<'de, Error = Fault>,
{
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        let Some(Pair { key, place, found, value }) = self.rest.next() else { return Ok(None) };
        self.last = Some(place.clone());
        let read = seed.deserialize(key_deserializer(key)).map_err(|fault| fault.at(&place, None))?;
        self.next = Some((place, found, value));
        Ok(Some(read))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let Some((place, found, value)) = self.next.take() else {
            return Err(serde::de::Error::custom("a value was asked for before its key"));
        };
        seed.deserialize(value).map_err(|fault| fault.at(&place, found.as_ref()))
    }
}
