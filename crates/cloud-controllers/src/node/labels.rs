//! Which labels a Node should have. Pure.
//!
//! A Node carries its zone, region and type twice, under the current and under the deprecated (beta) names. Upstream
//! writes both once and then lets the beta label win; [`Policy`] says whether we do that or keep the labels true.

use std::collections::BTreeMap;

use cloud_provider::Instance;
use cloud_provider::well_known::labels;

/// A Node's labels.
pub type Labels = BTreeMap<String, String>;

/// What becomes of the labels of a Node that is initialised already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// As upstream: written at initialisation and never again. A beta label that somebody edits takes its
    /// counterpart with it.
    #[default]
    SetOnce,
    /// Kept true: zone, region and type follow the cloud, lost additional labels come back, and the beta label
    /// follows its counterpart.
    Reconcile,
}

/// A label of the cloud's that is not written, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// The label.
    pub key: String,
    /// The value that the cloud wants.
    pub value: String,
    /// Why it is not written.
    pub why: &'static str,
}

/// The deprecated name of each label, and its name.
const PAIRS: [(&str, &str); 3] = [
    (labels::ZONE_BETA, labels::ZONE),
    (labels::REGION_BETA, labels::REGION),
    (labels::INSTANCE_TYPE_BETA, labels::INSTANCE_TYPE),
];

/// The labels to set when a Node is initialised: those that differ from what it has.
pub fn at_initialisation(current: &Labels, instance: &Instance) -> (Labels, Vec<Dropped>) {
    let (mut set, mut dropped) = facts(instance);
    let (more, not) = additional(current, instance);
    set.extend(more);
    dropped.extend(not);
    (changed(current, set), dropped)
}

/// The labels to set on an initialised Node whose instance was just seen.
pub fn at_refresh(current: &Labels, instance: &Instance, policy: Policy) -> (Labels, Vec<Dropped>) {
    if policy == Policy::SetOnce {
        return (mirror(current, policy), Vec::new());
    }
    let (mut set, mut dropped) = facts(instance);
    let (more, not) = additional(current, instance);
    set.extend(more);
    dropped.extend(not);
    let mut then = current.clone();
    then.extend(set.clone());
    set.extend(mirror(&then, policy));
    (changed(current, set), dropped)
}

/// The labels to set so that both names of a fact say the same, from the Node alone.
///
/// With [`Policy::SetOnce`] the beta label is the source, as upstream, and one that is missing is not made. With
/// [`Policy::Reconcile`] it is the other way round, and a beta label without a counterpart still makes one.
pub fn mirror(current: &Labels, policy: Policy) -> Labels {
    let mut set = Labels::new();
    for (beta, stable) in PAIRS {
        let (source, copy) = match policy {
            Policy::Reconcile if current.contains_key(stable) => (stable, beta),
            Policy::SetOnce | Policy::Reconcile => (beta, stable),
        };
        if let Some(value) = current.get(source) {
            set.insert(copy.to_owned(), value.clone());
        }
    }
    changed(current, set)
}

/// Zone, region and type under both names; what the cloud does not know sets and removes nothing.
fn facts(instance: &Instance) -> (Labels, Vec<Dropped>) {
    let values = [&instance.zone, &instance.region, &instance.instance_type];
    let (mut set, mut dropped) = (Labels::new(), Vec::new());
    for ((beta, stable), value) in PAIRS.into_iter().zip(values) {
        let Some(value) = value.as_deref().filter(|value| !value.is_empty()) else { continue };
        if is_value(value) {
            set.insert(beta.to_owned(), value.to_owned());
            set.insert(stable.to_owned(), value.to_owned());
        } else {
            let why = "the value cannot stand in a label";
            dropped.push(Dropped { key: stable.to_owned(), value: value.to_owned(), why });
        }
    }
    (set, dropped)
}

/// The provider's own labels, as far as they are its business.
fn additional(current: &Labels, instance: &Instance) -> (Labels, Vec<Dropped>) {
    let (mut set, mut dropped) = (Labels::new(), Vec::new());
    for (key, value) in &instance.additional_labels {
        let why = match current.get(key) {
            _ if is_reserved(key) => Some("labels of Kubernetes' own domains are not a provider's to set"),
            Some(has) if has != value => Some("the node has the label with another value"),
            Some(_) => continue,
            None if !is_key(key) => Some("the key cannot name a label"),
            None if !is_value(value) => Some("the value cannot stand in a label"),
            None => None,
        };
        match why {
            Some(why) => dropped.push(Dropped { key: key.clone(), value: value.clone(), why }),
            None => {
                set.insert(key.clone(), value.clone());
            }
        }
    }
    (set, dropped)
}

fn changed(current: &Labels, mut set: Labels) -> Labels {
    set.retain(|key, value| current.get(key) != Some(value));
    set
}

/// Upstream's pattern: `(^|\.)(kubernetes|k8s)\.io/`.
fn is_reserved(key: &str) -> bool {
    ["kubernetes.io/", "k8s.io/"]
        .into_iter()
        .any(|domain| key.match_indices(domain).any(|(at, _)| at == 0 || key[..at].ends_with('.')))
}

fn is_key(key: &str) -> bool {
    let (domain, name) = match key.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, key),
    };
    let label = |part: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !part.is_empty() && part.chars().all(inner) && !part.starts_with('-') && !part.ends_with('-')
    };
    let is_domain = |domain: &str| domain.len() <= 253 && domain.split('.').all(label);
    !name.is_empty() && is_value(name) && domain.is_none_or(is_domain)
}

/// Up to 63 letters, digits, `-`, `_` and `.`, a letter or digit at both ends; or nothing.
fn is_value(value: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let outer = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    value.len() <= 63
        && value.chars().all(inner)
        && outer(value.chars().next())
        && outer(value.chars().next_back())
}
