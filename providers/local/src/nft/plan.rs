//! The way from the tables that are to those that are wanted, as one transaction. Pure.

use std::fmt::Write as _;

use super::ruleset::{Chain, Family, Rule, Ruleset, Set, TABLE, Table};

/// What `nft` must read to make `wanted` of `now`; empty if nothing is to be done. The kernel takes it whole or not at all.
pub(super) fn plan(now: &Ruleset, wanted: &Ruleset) -> String {
    let mut script = Script::default();
    let nothing = Table::default();
    for family in Family::ALL {
        script.family = Some(family);
        match (now.tables.get(&family), wanted.tables.get(&family)) {
            (None, None) => {}
            (Some(_), None) => script.line(&format!("delete table {family} {TABLE}")),
            (None, Some(wanted)) => {
                script.line(&format!("add table {family} {TABLE}"));
                script.change(&nothing, wanted);
            }
            (Some(now), Some(wanted)) if is_alien(now, wanted) => {
                script.line(&format!("delete table {family} {TABLE}"));
                script.line(&format!("add table {family} {TABLE}"));
                script.change(&nothing, wanted);
            }
            (Some(now), Some(wanted)) => script.change(now, wanted),
        }
    }
    script.text
}

/// Whether something of ours is of another kind than it must be, which no change can mend.
fn is_alien(now: &Table, wanted: &Table) -> bool {
    let chains = wanted
        .chains
        .iter()
        .any(|(name, chain)| now.chains.get(name).is_some_and(|held| held.hook != chain.hook));
    let sets = wanted.sets.iter().any(|(name, set)| {
        now.sets.get(name).is_some_and(|held| {
            held.elements().is_some() != set.elements().is_some()
                || (held.declaration().word, set.declaration().word) == ("set", "map")
                || (held.declaration().word, set.declaration().word) == ("map", "set")
        })
    });
    chains || sets
}

#[derive(Default)]
struct Script {
    text: String,
    family: Option<Family>,
}

impl Script {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// `<what> <family> nephos <name><rest>`.
    fn say(&mut self, what: &str, name: &str, rest: &str) {
        let Some(family) = self.family else { return };
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{what} {family} {TABLE} {name}{rest}");
    }

    /// What is referred to comes before what refers to it, and goes after.
    fn change(&mut self, now: &Table, wanted: &Table) {
        for counter in wanted.counters.difference(&now.counters) {
            self.say("add counter", counter, "");
        }
        for (name, set) in wanted.sets.iter().filter(|(name, _)| !now.sets.contains_key(*name)) {
            let declaration = set.declaration();
            self.say(&format!("add {}", declaration.word), name, &format!(" {{ {} }}", declaration.text));
        }
        for (name, chain) in wanted.chains.iter().filter(|(name, _)| !now.chains.contains_key(*name)) {
            self.say("add chain", name, &hook(chain));
        }
        for (name, chain) in &wanted.chains {
            let held = now.chains.get(name).map(|chain| chain.rules.as_slice()).unwrap_or_default();
            self.rules(name, held, &chain.rules);
        }
        for (name, set) in &wanted.sets {
            self.elements(name, now.sets.get(name), set);
        }
        let gone: Vec<&String> =
            now.chains.keys().filter(|name| !wanted.chains.contains_key(*name)).collect();
        for (name, set) in now.sets.iter().filter(|(name, _)| !wanted.sets.contains_key(*name)) {
            // A map that goes may lead to chains that go too.
            if set.declaration().word == "map" {
                self.say("flush map", name, "");
            }
        }
        for name in &gone {
            self.say("flush chain", name, "");
        }
        for name in &gone {
            self.say("delete chain", name, "");
        }
        for (name, set) in now.sets.iter().filter(|(name, _)| !wanted.sets.contains_key(*name)) {
            self.say(&format!("delete {}", set.declaration().word), name, "");
        }
        for counter in now.counters.difference(&wanted.counters) {
            self.say("delete counter", counter, "");
        }
    }

    fn rules(&mut self, chain: &str, now: &[Rule], wanted: &[Rule]) {
        if now == wanted {
            return;
        }
        if !now.is_empty() {
            self.say("flush chain", chain, "");
        }
        for rule in wanted {
            self.say("add rule", chain, &format!(" {} comment \"{}\"", rule.text, rule.comment));
        }
    }

    fn elements(&mut self, set: &str, now: Option<&Set>, wanted: &Set) {
        let Some(wanted) = wanted.elements() else { return };
        let now = now.and_then(Set::elements);
        let held = |key: &String| now.and_then(|now| now.get(key));
        let gone: Vec<&str> = now
            .into_iter()
            .flatten()
            .filter(|(key, value)| wanted.get(*key) != Some(*value))
            .map(|(key, _)| key.as_str())
            .collect();
        let new: Vec<String> = wanted
            .iter()
            .filter(|(key, value)| held(key) != Some(*value))
            .map(|(key, value)| match value {
                Some(value) => format!("{key} : {value}"),
                None => key.clone(),
            })
            .collect();
        if !gone.is_empty() {
            self.say("delete element", set, &format!(" {{ {} }}", gone.join(", ")));
        }
        if !new.is_empty() {
            self.say("add element", set, &format!(" {{ {} }}", new.join(", ")));
        }
    }
}

fn hook(chain: &Chain) -> String {
    chain.hook.as_ref().map_or_else(String::new, |hook| {
        format!(" {{ type {} hook {} priority {}; policy accept; }}", hook.kind, hook.at, hook.priority)
    })
}
