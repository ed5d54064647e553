//! The config file: how this cloud behaves and how the provider uses it. Every key has a default; README.md has the
//! table of them, and a test compares the two.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use cloud_provider::{CloudConfig, Error};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

use crate::fault::{self, Fault};
use crate::objects::{self, Machine};
use crate::spell;

/// A slot of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Slot {
    /// Instances.
    Instances,
    /// Load balancers.
    LoadBalancers,
    /// Routes.
    Routes,
    /// Volumes.
    Volumes,
    /// Clusters.
    Clusters,
}

/// All that the file may say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// The cloud is another process at this URL: `http://127.0.0.1:4080`. Without it, it lives in this one.
    pub endpoint: Option<String>,
    /// How long a call to the endpoint may take.
    #[serde(with = "spell")]
    pub timeout: Duration,
    /// Whether every Node that is looked up becomes an instance, unless the back door removed it.
    pub adopt: bool,
    /// What the provider does not offer, though the cloud has it: to see what a manager makes of that.
    pub lacks: Vec<Slot>,
    /// The zones over which adopted instances and volumes are spread, by name.
    pub zones: Vec<String>,
    /// The region of adopted instances and of volumes.
    pub region: String,
    /// The type of adopted instances.
    pub instance_type: String,
    /// The values of `spec.loadBalancerClass` that the provider owns, besides Services without one.
    pub classes: Vec<String>,
    /// `VIP` or `Proxy`: the `ipMode` of the addresses in a Service's status.
    pub ip_mode: Option<IpMode>,
    /// The pod networks of the cluster: untagged routes inside them count as ours by upstream's rule.
    pub pod_networks: Vec<IpNet>,
    /// From what all chance comes.
    pub seed: u64,
    /// How long each call takes.
    #[serde(with = "spell")]
    pub latency: Duration,
    /// How long the calls take that a pattern names; the longest pattern wins.
    #[serde(with = "spell::map")]
    pub latencies: BTreeMap<String, Duration>,
    /// How many objects a page of a list has.
    pub page_size: usize,
    /// How many calls are answered before callers are throttled.
    pub rate_limit: Option<RateLimit>,
    /// How long a new balancer is pending.
    #[serde(with = "spell")]
    pub balancer_ready_after: Duration,
    /// How long lists do not show a new object.
    #[serde(with = "spell")]
    pub invisible_for: Duration,
    /// How long lists still show a deleted object.
    #[serde(with = "spell")]
    pub visible_after_delete: Duration,
    /// How many objects of a kind the account may have.
    pub quotas: Quotas,
    /// Whether a second object of one kind and name is refused.
    pub unique_names: bool,
    /// Whether a write over HTTP that shows no permit of the gate is noted as a violation; switch it off where
    /// clients that know no gate share the cloud.
    pub expect_permits: bool,
    /// Where IPv4 addresses for balancers come from.
    pub address_pool: Ipv4Net,
    /// Where IPv6 addresses for balancers come from.
    pub address_pool_v6: Ipv6Net,
    /// Instances that are there from the start.
    pub instances: Vec<Machine>,
    /// Clusters that the cloud knows, with the addresses of their control planes.
    pub clusters: BTreeMap<String, String>,
    /// What goes wrong from the start.
    pub faults: Vec<Fault>,
    /// How many calls the log keeps; older ones are dropped, and counted still.
    pub log_calls: usize,
}

/// How a balancer's address is to be treated by kube-proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum IpMode {
    /// Packets arrive with the balancer's address as destination.
    #[serde(rename = "VIP")]
    Vip,
    /// Packets arrive with the node's or the pod's address as destination.
    Proxy,
}

/// A bucket of calls.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RateLimit {
    /// So many calls a second, for ever.
    pub per_second: f64,
    /// So many at once.
    pub burst: u32,
}

/// How many objects of a kind the account may have; no number, no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Quotas {
    /// Load balancers.
    pub load_balancers: Option<usize>,
    /// Reserved addresses.
    pub addresses: Option<usize>,
    /// Routes.
    pub routes: Option<usize>,
    /// Volumes.
    pub volumes: Option<usize>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            endpoint: None,
            timeout: Duration::from_secs(30),
            adopt: true,
            lacks: Vec::new(),
            zones: vec![objects::default_zone()],
            region: objects::default_region(),
            instance_type: objects::default_type(),
            classes: Vec::new(),
            ip_mode: None,
            pod_networks: Vec::new(),
            seed: 0,
            latency: Duration::ZERO,
            latencies: BTreeMap::new(),
            page_size: 500,
            rate_limit: None,
            balancer_ready_after: Duration::ZERO,
            invisible_for: Duration::ZERO,
            visible_after_delete: Duration::ZERO,
            quotas: Quotas::default(),
            unique_names: false,
            expect_permits: true,
            address_pool: Ipv4Net::new_assert(Ipv4Addr::new(198, 18, 0, 0), 15),
            address_pool_v6: Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 64),
            instances: Vec::new(),
            clusters: BTreeMap::new(),
            faults: Vec::new(),
            log_calls: 100_000,
        }
    }
}

/// The keys that speak to the provider; all others speak to the cloud.
const PROVIDER_KEYS: [&str; 10] = [
    "endpoint",
    "timeout",
    "adopt",
    "lacks",
    "zones",
    "region",
    "instanceType",
    "classes",
    "ipMode",
    "podNetworks",
];

impl Config {
    /// Reads the file that `--cloud-config` named; without one, everything has its default.
    pub fn of(file: Option<&CloudConfig>) -> Result<Self, Error> {
        match file {
            Some(file) => Self::parse(&file.path().display().to_string(), file.text()?),
            None => Ok(Self::default()),
        }
    }

    /// Reads YAML; `file` is what errors name.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let attempt = format!("reading the fake cloud's config {file}");
        let config: Self = if text.trim().is_empty() {
            Self::default()
        } else {
            serde_saphyr::from_str(text).map_err(|error| Error::invalid_config(&*attempt).because(error))?
        };
        let problems = config.problems();
        if problems.is_empty() {
            Ok(config)
        } else {
            Err(Error::invalid_config(attempt).because(problems.join("; ")))
        }
    }

    /// Everything that is wrong with it, in words.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.page_size == 0 {
            problems.push("pageSize: a page needs room for at least one object".to_owned());
        }
        if self.zones.is_empty() {
            problems.push("zones: at least one is needed".to_owned());
        }
        if self.rate_limit.is_some_and(|limit| limit.per_second <= 0.0 || limit.burst == 0) {
            problems.push("rateLimit: perSecond and burst must be above zero".to_owned());
        }
        for pattern in self.latencies.keys() {
            problems.extend(fault::check_pattern(pattern).err().map(|why| format!("latencies: {why}")));
        }
        for (index, fault) in self.faults.iter().enumerate() {
            problems.extend(fault.check().err().map(|why| format!("faults[{index}]: {why}")));
        }
        problems.extend(self.misplaced());
        problems
    }

    /// With an endpoint, the cloud's own keys stand in the wrong file.
    fn misplaced(&self) -> Option<String> {
        self.endpoint.as_ref()?;
        let keys: Vec<String> = keys_of(self)
            .into_iter()
            .zip(keys_of(&Self::default()))
            .filter(|((key, given), (_, default))| given != default && !PROVIDER_KEYS.contains(&key.as_str()))
            .map(|((key, _), _)| key)
            .collect();
        (!keys.is_empty()).then(|| {
            format!(
                "{}: with an endpoint, this belongs into the config of the process there",
                keys.join(", ")
            )
        })
    }

    /// How long a call takes, before any fault.
    pub(crate) fn latency_of(&self, operation: crate::api::Operation) -> Duration {
        self.latencies
            .iter()
            .filter(|(pattern, _)| fault::matches(pattern, operation))
            .max_by_key(|(pattern, _)| pattern.len())
            .map_or(self.latency, |(_, latency)| *latency)
    }
}

/// Which of the zones something of this name is in: always the same one.
pub(crate) fn zone_of(zones: &[String], name: &str) -> String {
    // FNV-1a: stable across releases and machines, unlike the standard library's hasher.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let index = hash.checked_rem(zones.len() as u64).and_then(|index| usize::try_from(index).ok());
    index.and_then(|index| zones.get(index)).cloned().unwrap_or_default()
}

/// The keys as the file spells them, with their values.
fn keys_of(config: &Config) -> Vec<(String, serde_json::Value)> {
    match serde_json::to_value(config) {
        Ok(serde_json::Value::Object(map)) => map.into_iter().collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
