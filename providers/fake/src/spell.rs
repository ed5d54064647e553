//! Durations as Go writes them, in YAML and in JSON.

use std::time::Duration;

use cloud_provider::gcfg::GoDuration;
use serde::{Deserialize, Deserializer, Serializer, de};

/// Writes `20ms`.
pub(crate) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&go(*duration))
}

/// Reads `20ms`; a negative duration is an error.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let read = GoDuration::deserialize(deserializer)?;
    read.to_std().ok_or_else(|| de::Error::custom(format!("{read} is below zero")))
}

fn go(duration: Duration) -> GoDuration {
    GoDuration::from_nanos(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
}

/// The same for a duration that may be missing.
pub(crate) mod maybe {
    use super::{Deserialize, Deserializer, Duration, GoDuration, Serializer, de, go};

    #[expect(clippy::ref_option, reason = "serde hands it over this way")]
    pub(crate) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => serializer.collect_str(&go(*duration)),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let Some(read) = Option::<GoDuration>::deserialize(deserializer)? else { return Ok(None) };
        read.to_std().map(Some).ok_or_else(|| de::Error::custom(format!("{read} is below zero")))
    }
}

/// The same for the values of a map.
pub(crate) mod map {
    use std::collections::BTreeMap;

    use serde::ser::SerializeMap;

    use super::{Deserialize, Deserializer, Duration, GoDuration, Serializer, de, go};

    pub(crate) fn serialize<S: Serializer>(
        durations: &BTreeMap<String, Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(durations.len()))?;
        for (key, duration) in durations {
            map.serialize_entry(key, &go(*duration).to_string())?;
        }
        map.end()
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<String, Duration>, D::Error> {
        BTreeMap::<String, GoDuration>::deserialize(deserializer)?
            .into_iter()
            .map(|(key, read)| {
                read.to_std()
                    .map(|duration| (key, duration))
                    .ok_or_else(|| de::Error::custom(format!("{read} is below zero")))
            })
            .collect()
    }
}
