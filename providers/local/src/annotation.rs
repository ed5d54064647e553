//! What a Service's annotations ask for, read and checked. What cannot be read is refused with the key that is wrong.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use cloud_provider::Error;
use cloud_provider::gcfg::GoDuration;
use cloud_provider::load_balancer::AnnotationType;
use cloud_provider::nearest::nearest;
use k8s_openapi::api::core::v1::Service;

use crate::intent::{Algorithm, ClientAddress, HealthCheck, ProxyProtocol, Settings};

mod table;

pub use table::{ANNOTATIONS, PREFIX};

/// What a Service's annotations ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The pool to take addresses from.
    pub pool: Option<String>,
    /// The addresses to have.
    pub addresses: Vec<IpAddr>,
    /// The key under which it may share an address.
    pub share_key: Option<String>,
    /// How backends are asked whether they serve.
    pub check: Check,
    /// The settings, apart from what the Service itself says.
    pub settings: Settings,
}

/// How backends are asked whether they serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Check {
    /// At the Service's health check port if it has one, else by a TCP connection.
    #[default]
    Auto,
    /// By a TCP connection.
    Tcp,
    /// Not at all.
    None,
}

impl Asked {
    /// Reads the annotations of a Service.
    pub fn of(service: &Service) -> Result<Self, Error> {
        let none = BTreeMap::new();
        let read = Reader(service.metadata.annotations.as_ref().unwrap_or(&none));
        let usual = Settings::default();
        let pace = HealthCheck::default();
        Ok(Self {
            pool: read.one_of_several(&table::POOL)?.map(str::to_owned),
            addresses: read.addresses()?,
            share_key: read.one_of_several(&table::SHARE_KEY)?.map(str::to_owned),
            check: match read.word(table::HEALTH_CHECK)? {
                Some("tcp") => Check::Tcp,
                Some("none") => Check::None,
                _ => Check::Auto,
            },
            settings: Settings {
                algorithm: match read.word(table::BALANCE)? {
                    Some(table::LEAST_CONNECTIONS) => Algorithm::LeastConnections,
                    Some(table::SOURCE_HASH) => Algorithm::SourceHash,
                    _ => Algorithm::RoundRobin,
                },
                proxy_protocol: match read.word(table::PROXY_PROTOCOL)? {
                    Some("v1") => Some(ProxyProtocol::V1),
                    Some("v2") => Some(ProxyProtocol::V2),
                    _ => None,
                },
                client_address: match read.word(table::CLIENT_ADDRESS)? {
                    Some("kept") => ClientAddress::Kept,
                    _ => ClientAddress::Replaced,
                },
                health_check: HealthCheck {
                    interval: read.duration(table::HEALTH_INTERVAL, pace.interval)?,
                    timeout: read.duration(table::HEALTH_TIMEOUT, pace.timeout)?,
                    healthy_after: read.positive(table::HEALTHY_AFTER, pace.healthy_after)?,
                    unhealthy_after: read.positive(table::UNHEALTHY_AFTER, pace.unhealthy_after)?,
                    ..pace
                },
                idle_timeout: read.duration(table::IDLE_TIMEOUT, usual.idle_timeout)?,
                udp_idle_timeout: read.duration(table::UDP_IDLE_TIMEOUT, usual.udp_idle_timeout)?,
                connection_limit: read.number(table::MAX_CONNECTIONS, usual.connection_limit)?,
                drain_timeout: read.duration(table::DRAIN_TIMEOUT, usual.drain_timeout)?,
                ..usual
            },
        })
    }
}

/// The key under which a Service may share its address, as far as it can be read.
pub fn share_key(service: &Service) -> Option<String> {
    let annotations = service.metadata.annotations.as_ref()?;
    Reader(annotations).one_of_several(&table::SHARE_KEY).ok()?.map(str::to_owned)
}

/// The annotations that carry our prefix and mean nothing, each in a sentence for an Event.
pub fn misspelt(service: &Service) -> Vec<String> {
    let own = || ANNOTATIONS.iter().filter_map(|known| known.key.strip_prefix(PREFIX));
    let names = service.metadata.annotations.iter().flatten().filter_map(|(key, _)| key.strip_prefix(PREFIX));
    names
        .filter(|name| own().all(|known| known != *name))
        .map(|name| match nearest(name, own()) {
            Some(meant) => {
                format!("The annotation {PREFIX}{name} means nothing: did you mean {PREFIX}{meant}?")
            }
            None => format!("The annotation {PREFIX}{name} means nothing"),
        })
        .collect()
}

/// Reads values out of a Service's annotations. An empty value counts as none.
struct Reader<'a>(&'a BTreeMap<String, String>);

impl<'a> Reader<'a> {
    fn text(&self, key: &str) -> Option<&'a str> {
        self.0.get(key).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// The value of an annotation that has several spellings. Two spellings with different values contradict.
    fn one_of_several(&self, keys: &[&str]) -> Result<Option<&'a str>, Error> {
        let mut said = keys.iter().filter_map(|key| self.text(key).map(|value| (*key, value)));
        let Some((first, value)) = said.next() else { return Ok(None) };
        match said.find(|(_, other)| *other != value) {
            Some((other, _)) => Err(Error::invalid_config(format!(
                "the annotations {first} and {other} contradict each other"
            ))),
            None => Ok(Some(value)),
        }
    }

    fn addresses(&self) -> Result<Vec<IpAddr>, Error> {
        let Some(list) = self.one_of_several(&table::ADDRESSES)? else { return Ok(Vec::new()) };
        list.split(',')
            .map(|entry| {
                entry.trim().parse::<IpAddr>().map_err(|_| {
                    Error::invalid_config(format!(
                        "reading the requested addresses: {entry:?} is no IP address"
                    ))
                })
            })
            .collect()
    }

    /// One of the words that the table allows.
    fn word(&self, key: &str) -> Result<Option<&'a str>, Error> {
        let Some(value) = self.text(key) else { return Ok(None) };
        let type_ = ANNOTATIONS.iter().find(|known| known.key == key).map(|known| known.type_);
        let Some(AnnotationType::OneOf(words)) = type_ else { return Ok(Some(value)) };
        if words.contains(&value) {
            return Ok(Some(value));
        }
        let hint = match nearest(value, words.iter().copied()) {
            Some(meant) => format!("did you mean {meant}?"),
            None => format!("expected one of {}", words.join(", ")),
        };
        Err(Error::invalid_config(format!("reading the annotation {key}: {value:?} is unknown: {hint}")))
    }

    fn duration(&self, key: &str, default: Duration) -> Result<Duration, Error> {
        let Some(value) = self.text(key) else { return Ok(default) };
        let read = value.parse::<GoDuration>().ok().and_then(GoDuration::to_std);
        read.filter(|duration| !duration.is_zero()).ok_or_else(|| {
            Error::invalid_config(format!(
                "reading the annotation {key}: {value:?} is no duration above zero, as in 15s or 1h30m"
            ))
        })
    }

    fn number(&self, key: &str, default: u32) -> Result<u32, Error> {
        let Some(value) = self.text(key) else { return Ok(default) };
        value.parse().map_err(|_| {
            Error::invalid_config(format!("reading the annotation {key}: {value:?} is no whole number"))
        })
    }

    fn positive(&self, key: &str, default: u32) -> Result<u32, Error> {
        match self.number(key, default)? {
            0 => Err(Error::invalid_config(format!("reading the annotation {key}: at least 1 is needed"))),
            number => Ok(number),
        }
    }
}

#[cfg(test)]
mod tests;
