//! Pools: which addresses may be given out, and to whom. Who has which is not known here.

use serde::Deserialize;
use serde_saphyr::Spanned;
use std::net::IpAddr;

use crate::config::{NAME_RULE, is_name};
use crate::problem::{Problems, line};

mod range;

pub use range::{BadRange, Range};

/// All pools, in the order of the file. No address is in two of them.
#[derive(Debug, Clone, Default)]
pub struct Pools(Vec<Pool>);

/// A set of addresses and who may have them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Its name, which annotations may ask for.
    pub name: String,
    /// Its addresses.
    pub ranges: Vec<Range>,
    /// Only Services in these namespaces; empty for all.
    pub namespaces: Vec<String>,
    /// Only Services of these classes; empty for Services without one, and for those of a class that no pool names.
    pub classes: Vec<String>,
    /// Whether it serves Services that ask for no pool and no address.
    pub auto_assign: bool,
    /// Whether the addresses are given out too that some networks treat as their own: those that end in .0 or .255,
    /// and the first one of an IPv6 network.
    pub use_edges: bool,
}

/// A pool as it is written.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PoolDocument {
    name: String,
    addresses: Vec<Spanned<String>>,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default)]
    classes: Vec<String>,
    #[serde(default = "yes")]
    auto_assign: bool,
    #[serde(default)]
    use_edges: bool,
}

fn yes() -> bool {
    true
}

/// A range of a pool and the line on which it stands.
struct Placed {
    range: Range,
    pool: String,
    line: u64,
}

impl Pools {
    /// Checks pools as they are written; what is wrong is noted.
    pub(crate) fn check(documents: Vec<Spanned<PoolDocument>>, problems: &mut Problems) -> Self {
        let mut placed: Vec<Placed> = Vec::new();
        let mut pools: Vec<(u64, Pool)> = Vec::new();
        for document in documents {
            let at = line(&document);
            let document = document.value;
            if !is_name(&document.name) {
                problems.note(at, format!("pool {:?}: {NAME_RULE}", document.name));
            }
            if let Some((other, _)) = pools.iter().find(|(_, pool)| pool.name == document.name) {
                problems.note(at, format!("pool {} is described at line {other} already", document.name));
            }
            if document.addresses.is_empty() {
                problems.note(at, format!("pool {} has no addresses", document.name));
            }
            let ranges = ranges_of(&document, &mut placed, problems);
            let PoolDocument { name, namespaces, classes, auto_assign, use_edges, .. } = document;
            pools.push((at, Pool { name, ranges, namespaces, classes, auto_assign, use_edges }));
        }
        Self(pools.into_iter().map(|(_, pool)| pool).collect())
    }

    /// Whether there is none: then no balancer can have an address.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &Pool> {
        self.0.iter()
    }

    /// The pool of this name.
    pub fn named(&self, name: &str) -> Option<&Pool> {
        self.iter().find(|pool| pool.name == name)
    }

    /// The pool that has this address.
    pub fn with(&self, address: IpAddr) -> Option<&Pool> {
        self.iter().find(|pool| pool.has(address))
    }

    /// The classes that pools are kept for.
    pub fn classes(&self) -> impl Iterator<Item = &str> {
        self.iter().flat_map(|pool| pool.classes.iter().map(String::as_str))
    }

    /// The pools that a Service may have an address from, the most particular ones first.
    pub fn for_service(&self, namespace: &str, class: Option<&str>) -> Vec<&Pool> {
        let mut open: Vec<&Pool> =
            self.iter().filter(|pool| self.closed_to(pool, namespace, class).is_none()).collect();
        open.sort_by_key(|pool| (pool.namespaces.is_empty(), pool.classes.is_empty()));
        open
    }

    /// Why a Service may not have an address from this pool; `None` if it may.
    pub fn closed_to(&self, pool: &Pool, namespace: &str, class: Option<&str>) -> Option<String> {
        if !pool.namespaces.is_empty() && !pool.namespaces.iter().any(|each| each == namespace) {
            return Some(format!(
                "pool {} is kept for the namespaces {}",
                pool.name,
                pool.namespaces.join(", ")
            ));
        }
        let named = |class: &str| pool.classes.iter().any(|each| each == class);
        match class {
            Some(class) if named(class) => None,
            Some(class) if pool.classes.is_empty() && !self.classes().any(|each| each == class) => None,
            None if pool.classes.is_empty() => None,
            Some(class) if pool.classes.is_empty() => {
                Some(format!("class {class} has pools of its own, and pool {} is none of them", pool.name))
            }
            _ => Some(format!("pool {} is kept for the classes {}", pool.name, pool.classes.join(", "))),
        }
    }
}

impl Pool {
    /// Whether this address is in it.
    pub fn has(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.contains(address))
    }
}

/// The ranges of one pool; bad ones and those that overlap are noted.
fn ranges_of(document: &PoolDocument, placed: &mut Vec<Placed>, problems: &mut Problems) -> Vec<Range> {
    let mut ranges = Vec::new();
    for text in &document.addresses {
        let range = match text.value.parse::<Range>() {
            Ok(range) => range,
            Err(error) => {
                problems.note(line(text), format!("pool {}: {error}", document.name));
                continue;
            }
        };
        if let Some(other) = placed.iter().find(|other| other.range.overlaps(&range)) {
            problems.note(
                line(text),
                format!(
                    "pool {}: {range} overlaps {} of pool {} at line {}",
                    document.name, other.range, other.pool, other.line
                ),
            );
        }
        placed.push(Placed { range, pool: document.name.clone(), line: line(text) });
        ranges.push(range);
    }
    ranges
}

#[cfg(test)]
mod tests;
