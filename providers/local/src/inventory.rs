//! The inventory: the file in which a person lists the machines of a site. It alone decides which of them exist.

use std::collections::BTreeMap;

use cloud_provider::well_known::address_types;
use cloud_provider::{Instance, Power, ProviderId, Snapshot};
use serde::Deserialize;
use serde_saphyr::Spanned;

use crate::NAME;
use crate::config::{Defaults, NAME_RULE, is_name};
use crate::problem::{Problems, line, read};

mod address;
mod watched;

use address::Address;
pub use watched::{InventoryFile, Look, Source, Watched};

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Document {
    machines: Vec<Spanned<Machine>>,
}

/// One machine as it is written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Machine {
    name: String,
    id: Option<String>,
    #[serde(default)]
    addresses: Vec<Spanned<Address>>,
    zone: Option<String>,
    region: Option<String>,
    #[serde(rename = "type")]
    type_: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    state: State,
}

/// What a person says of a machine's power.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    #[default]
    Running,
    Stopped,
}

/// Reads an inventory: the machines of this site, ready to be asked. `file` is what problems name.
pub fn parse(file: &str, text: &str, site: &str, defaults: &Defaults) -> Result<Snapshot, Problems> {
    let document: Document = read(file, text)?;
    let mut problems = Problems::none(file);
    let mut seen = Seen::default();
    let mut snapshot = Snapshot::new(NAME);
    for machine in document.machines {
        let at = line(&machine);
        let machine = machine.value;
        seen.examine(&machine, at, &mut problems);
        match ProviderId::new(NAME, &format!("{site}/{}", machine.id())) {
            Ok(id) => {
                let name = machine.name.clone();
                snapshot.insert(machine.instance(id, defaults), [name]);
            }
            Err(error) => problems.note(at, format!("machine {}: {error}", machine.name)),
        }
    }
    problems.or(snapshot)
}

/// What earlier machines of the file have, and on which line.
#[derive(Default)]
struct Seen {
    ids: BTreeMap<String, u64>,
    names: BTreeMap<String, u64>,
    addresses: BTreeMap<String, u64>,
}

impl Seen {
    fn examine(&mut self, machine: &Machine, at: u64, problems: &mut Problems) {
        if machine.name.is_empty() {
            problems.note(at, "a machine needs the name of its Node");
        }
        if !is_name(machine.id()) {
            problems.note(at, format!("the ID {:?}: {NAME_RULE}", machine.id()));
        }
        if let Some(other) = self.ids.insert(machine.id().to_owned(), at) {
            problems.note(at, format!("the machine at line {other} has the ID {:?} too", machine.id()));
        }
        if let Some(other) = self.names.insert(machine.name.clone(), at) {
            problems.note(at, format!("the machine at line {other} has the name {:?} too", machine.name));
        }
        for address in &machine.addresses {
            let at = line(address);
            if let Err(why) = address.value.check() {
                problems.note(at, why);
            }
            if let Some(other) = self.addresses.insert(address.value.text.clone(), at) {
                problems.note(at, format!("{} stands at line {other} already", address.value.text));
            }
        }
    }
}

impl Machine {
    /// The ID; a machine without one is known by its name.
    fn id(&self) -> &str {
        self.id.as_deref().unwrap_or(&self.name)
    }

    fn instance(self, id: ProviderId, defaults: &Defaults) -> Instance {
        let or = |own: Option<String>, default: &str| own.unwrap_or_else(|| default.to_owned());
        let mut instance = Instance::new(id)
            .of_type(or(self.type_, &defaults.instance_type))
            .located(or(self.zone, &defaults.zone), or(self.region, &defaults.region))
            .power(match self.state {
                State::Running => Power::On,
                State::Stopped => Power::Off,
            });
        for address in self.addresses {
            instance = instance.address(&address.value.type_, address.value.text);
        }
        if !instance.addresses.iter().any(|address| address.type_ == address_types::HOSTNAME) {
            instance = instance.address(address_types::HOSTNAME, self.name);
        }
        for (key, value) in self.labels {
            instance = instance.label(key, value);
        }
        instance
    }
}

#[cfg(test)]
mod tests;
