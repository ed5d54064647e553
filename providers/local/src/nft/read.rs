//! Our tables as the kernel has them, from what `nft --json list table` says.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::ruleset::{Declaration, Family, Hook, Rule, Ruleset, Set, TABLE, Table};

/// The answer of `nft`: a list of objects, each under the name of its kind. What a rule does is left out unread: it is most
/// of the text, and the comment stands for it.
#[derive(Debug, Deserialize)]
pub(super) struct Listing {
    nftables: Vec<Item>,
}

/// One object. Whatever else may be in a table is not from us.
#[derive(Debug, Deserialize)]
struct Item {
    table: Option<Object>,
    chain: Option<Object>,
    rule: Option<Object>,
    set: Option<Object>,
    map: Option<Object>,
    counter: Option<Object>,
}

/// What all objects have, and what some have.
#[derive(Debug, Deserialize)]
struct Object {
    family: String,
    #[serde(default)]
    table: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    chain: String,
    #[serde(default)]
    comment: String,
    #[serde(rename = "type", default)]
    kind: Value,
    hook: Option<String>,
    #[serde(default)]
    prio: i32,
    #[serde(default)]
    flags: Value,
    #[serde(default)]
    elem: Vec<Value>,
    #[serde(default)]
    packets: u64,
    #[serde(default)]
    bytes: u64,
}

/// A counter as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Count {
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

impl Listing {
    /// Reads what `nft` wrote.
    pub(super) fn parse(text: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(text)
    }

    /// Adds the tables of this listing.
    pub(super) fn add_to(self, ruleset: &mut Ruleset) {
        let family =
            |object: &Object| Family::ALL.into_iter().find(|family| family.to_string() == object.family);
        for item in self.nftables {
            if let Some(table) = item.table.filter(|table| table.name == TABLE)
                && let Some(family) = family(&table)
            {
                ruleset.tables.entry(family).or_default();
            }
            let parts = [
                (Kind::Chain, item.chain),
                (Kind::Rule, item.rule),
                (Kind::Set("set"), item.set),
                (Kind::Set("map"), item.map),
                (Kind::Counter, item.counter),
            ];
            for (kind, object) in parts {
                let Some(object) = object.filter(|object| object.table == TABLE) else { continue };
                if let Some(family) = family(&object) {
                    add(ruleset.tables.entry(family).or_default(), kind, object);
                }
            }
        }
    }

    /// The counters in this listing, by name.
    pub(super) fn counters(self) -> BTreeMap<String, Count> {
        let counters = self.nftables.into_iter().filter_map(|item| item.counter);
        let count = |object: Object| (object.name, Count { packets: object.packets, bytes: object.bytes });
        counters.map(count).collect()
    }
}

/// What an object is.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Chain,
    Rule,
    Set(&'static str),
    Counter,
}

fn add(table: &mut Table, kind: Kind, object: Object) {
    match kind {
        Kind::Chain => {
            let kind = object.kind.as_str().unwrap_or_default().to_owned();
            let hook = object.hook.map(|at| Hook { kind, at, priority: object.prio });
            table.chains.entry(object.name).or_default().hook = hook;
        }
        Kind::Rule => {
            let rule = Rule { text: String::new(), comment: object.comment };
            table.chains.entry(object.chain).or_default().rules.push(rule);
        }
        Kind::Counter => {
            table.counters.insert(object.name);
        }
        Kind::Set(word) => {
            let declaration = Declaration { word, text: String::new() };
            let set = if is_dynamic(&object.flags) {
                Set::Dynamic { declaration }
            } else {
                let elements = object.elem.iter().map(|element| entry(element, word)).collect();
                Set::Filled { declaration, elements }
            };
            table.sets.insert(object.name, set);
        }
    }
}

/// Whether packets fill a set. Only such a set of ours has a timeout; older versions of `nft` do not tell it otherwise.
fn is_dynamic(flags: &Value) -> bool {
    let tells = |flag: &Value| flag == "dynamic" || flag == "timeout";
    tells(flags) || flags.as_array().is_some_and(|flags| flags.iter().any(tells))
}

/// An element: its key, and in a map its value. A value that is a plain word is the name of an object.
fn entry(element: &Value, word: &str) -> (String, Option<String>) {
    match element.as_array().map(Vec::as_slice) {
        Some([key, Value::String(name)]) if word == "map" => (text(key), Some(format!("\"{name}\""))),
        Some([key, value]) if word == "map" => (text(key), Some(text(value))),
        _ => (text(element), None),
    }
}

/// A value as we would have written it; in the kernel's words if we never would.
fn text(value: &Value) -> String {
    if let Some(text) = value.as_str() {
        return text.to_owned();
    }
    if let Some(parts) = value.get("concat").and_then(Value::as_array) {
        return parts.iter().map(text).collect::<Vec<_>>().join(" . ");
    }
    if let Some(target) = value.get("goto").and_then(|verdict| verdict.get("target")?.as_str()) {
        return format!("goto {target}");
    }
    value.to_string()
}
