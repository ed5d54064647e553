//! Our tables as one value: what is wanted, and what was read back from the kernel, in the same form.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The name of our tables, in each family.
///
/// INVARIANT: whoever cleans up finds our tables by this name, also those of an older version.
pub(super) const TABLE: &str = "nephos";

/// All our tables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Ruleset {
    /// By family: only those that have something in them.
    pub(super) tables: BTreeMap<Family, Table>,
}

/// The family of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
    /// Both families: everything that rewrites addresses.
    Inet,
    /// IPv4 alone: where a packet is passed on unmodified, which no table of both families can do.
    Ip,
    /// The same for IPv6.
    Ip6,
}

/// One table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Table {
    /// By name.
    pub(super) chains: BTreeMap<String, Chain>,
    /// Sets and maps, by name.
    pub(super) sets: BTreeMap<String, Set>,
    /// Named counters.
    pub(super) counters: BTreeSet<String>,
}

/// One chain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Chain {
    /// Where packets come in; `None` for one that others jump to.
    pub(super) hook: Option<Hook>,
    /// In order.
    pub(super) rules: Vec<Rule>,
}

/// Where the packets of a base chain come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hook {
    /// `nat` or `filter`.
    pub(super) kind: String,
    /// `prerouting` and so on.
    pub(super) at: String,
    /// Lower is earlier.
    pub(super) priority: i32,
}

/// One rule. The kernel gives back the comment to the letter and the rest in words of its own, so the comment ends with a
/// digest of the text, and two rules are the same if their comments are.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    /// What `nft` reads; empty for a rule that was read back.
    pub(super) text: String,
    /// Whose it is, and the digest.
    pub(super) comment: String,
}

/// A set or a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Set {
    /// Filled by us: key and, in a map, value, as `nft` writes them.
    Filled {
        /// What `nft` reads to make it; empty if it was read back.
        declaration: Declaration,
        /// The elements.
        elements: BTreeMap<String, Option<String>>,
    },
    /// Filled by packets: only that it is there is ours.
    Dynamic {
        /// What `nft` reads to make it; empty if it was read back.
        declaration: Declaration,
    },
}

/// What makes a set. Its name stands for it, so two are always the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Declaration {
    /// `set` or `map`.
    pub(super) word: &'static str,
    /// The part in braces.
    pub(super) text: String,
}

impl PartialEq for Declaration {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Declaration {}

impl Rule {
    /// A rule of somebody, in `nft`'s words.
    pub(super) fn new(whose: &str, text: impl Into<String>) -> Self {
        let text = text.into();
        let comment = format!("{} {:016x}", shortened(whose), digest(&text));
        Self { text, comment }
    }
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.comment == other.comment
    }
}

impl Eq for Rule {}

impl Ruleset {
    /// Adds what is in another one, which has nothing of ours.
    pub(super) fn extend(&mut self, other: &Self) {
        for (family, table) in &other.tables {
            self.tables.entry(*family).or_default().extend(table);
        }
    }
}

impl Set {
    /// What makes it.
    pub(super) fn declaration(&self) -> &Declaration {
        match self {
            Self::Filled { declaration, .. } | Self::Dynamic { declaration } => declaration,
        }
    }

    /// What we put in.
    pub(super) fn elements(&self) -> Option<&BTreeMap<String, Option<String>>> {
        match self {
            Self::Filled { elements, .. } => Some(elements),
            Self::Dynamic { .. } => None,
        }
    }
}

impl Table {
    /// Puts an element into a set that the frame declares.
    pub(super) fn put(&mut self, set: &str, key: String, value: Option<String>) {
        let empty = || Set::Filled { declaration: Declaration::default(), elements: [].into() };
        if let Set::Filled { elements, .. } = self.sets.entry(set.to_owned()).or_insert_with(empty) {
            elements.insert(key, value);
        }
    }

    /// Adds what is in another one, which has no chain and no element of ours.
    fn extend(&mut self, other: &Self) {
        self.chains.extend(other.chains.iter().map(|(name, chain)| (name.clone(), chain.clone())));
        self.counters.extend(other.counters.iter().cloned());
        for (name, set) in &other.sets {
            match (self.sets.get_mut(name), set) {
                (Some(Set::Filled { elements, .. }), Set::Filled { elements: more, .. }) => {
                    elements.extend(more.iter().map(|(key, value)| (key.clone(), value.clone())));
                }
                _ => drop(self.sets.insert(name.clone(), set.clone())),
            }
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inet => "inet",
            Self::Ip => "ip",
            Self::Ip6 => "ip6",
        })
    }
}

impl Family {
    /// All of them.
    pub(super) const ALL: [Self; 3] = [Self::Inet, Self::Ip, Self::Ip6];
}

/// The kernel keeps 127 bytes of a comment, and no quotation mark can stand in one. The name of a Service and its
/// namespace may together be longer.
fn shortened(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii() && *c != '"').take(100).collect()
}

/// FNV-1a: the same in every version of this program, so that rules outlive it.
pub(super) fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
