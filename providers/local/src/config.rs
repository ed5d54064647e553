//! The config file: the site, where its machines are listed, which addresses it may give out, and what forwards.
//!
//! It is checked as a whole: a file with a problem is refused with every line that is wrong, and whatever was in force
//! stays so.

use std::path::{Path, PathBuf};

use cloud_provider::{CloudConfig, Error};
use serde::Deserialize;
use serde_saphyr::Spanned;

use crate::pool::{PoolDocument, Pools};
use crate::problem::{Problems, line, read};

/// A config that was found good.
#[derive(Debug, Clone)]
pub struct Config {
    /// The site: the first part of every provider ID.
    pub site: String,
    /// Where the machines are told.
    pub machines: Machines,
    /// What holds for machines that say nothing of their own.
    pub defaults: Defaults,
    /// The values of `spec.loadBalancerClass` that are this provider's, in order.
    pub classes: Vec<String>,
    /// The addresses for load balancers.
    pub pools: Pools,
    /// What forwards.
    pub data_plane: DataPlaneChoice,
    /// Whether this machine's routes lead to the pods of each node. Nobody's route table is touched unasked.
    pub routes: bool,
}

/// Where the machines are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Machines {
    /// Each Node is its own machine, as its kubelet registered it. None is ever gone.
    Adopt,
    /// A file lists them all.
    Inventory(PathBuf),
}

/// What holds for machines that say nothing of their own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Defaults {
    /// The zone.
    pub zone: String,
    /// The region.
    pub region: String,
    /// The type.
    pub instance_type: String,
}

/// What forwards traffic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataPlaneChoice {
    /// A proxy in the manager's own process: for demonstrations, because it ends with the manager.
    InProcess,
    /// The process behind this unix socket: `nephos local proxy`.
    Socket(PathBuf),
    /// The kernel of this machine.
    Kernel(KernelChoice),
}

/// How the kernel forwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelChoice {
    /// The file that keeps the last intent.
    pub state: PathBuf,
    /// Where the virtual addresses are put and announced.
    pub addresses: AddressChoice,
}

/// Where the virtual addresses are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressChoice {
    /// On the interface that has the network of an address.
    Found,
    /// On this interface.
    Interface(String),
    /// Nowhere here: others lead them to this machine.
    Routed,
}

/// Where the intent of the kernel's data plane is kept, unless somebody says otherwise.
pub const STATE: &str = "/var/lib/nephos/local-nft.json";

/// The site when nobody names one.
///
/// INVARIANT: it stands in the provider IDs of clusters that run without a config file.
const DEFAULT_SITE: &str = "here";

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Document {
    site: Option<Spanned<String>>,
    adopt: Option<Spanned<bool>>,
    inventory: Option<Spanned<PathBuf>>,
    zone: String,
    region: String,
    instance_type: String,
    load_balancer_classes: Vec<Spanned<String>>,
    pools: Vec<Spanned<PoolDocument>>,
    data_plane: DataPlaneDocument,
    routes: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct DataPlaneDocument {
    kind: Kind,
    socket: Option<Spanned<PathBuf>>,
    state: Option<Spanned<PathBuf>>,
    interface: Option<Spanned<String>>,
    announce: Option<Spanned<bool>>,
}

/// The kinds of data plane that there are.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    #[default]
    Proxy,
    Nft,
}

impl Config {
    /// Reads the file that `--cloud-config` named; without one, the Nodes are adopted and no addresses are given out.
    pub fn of(file: Option<&CloudConfig>) -> Result<Self, Error> {
        let Some(file) = file else { return Self::parse(Path::new("no file"), "") };
        Self::parse(file.path(), file.text()?)
    }

    /// Reads YAML; paths in it are taken from the folder of `path`.
    pub fn parse(path: &Path, text: &str) -> Result<Self, Error> {
        let file = path.display().to_string();
        read::<Document>(&file, text)
            .and_then(|document| document.check(&file, path.parent()))
            .map_err(|problems| problems.refuse("reading the config of provider local"))
    }
}

impl Document {
    fn check(self, file: &str, folder: Option<&Path>) -> Result<Config, Problems> {
        let mut problems = Problems::none(file);
        let beside = |path: PathBuf| folder.map_or_else(|| path.clone(), |folder| folder.join(&path));
        let site = match self.site {
            None => DEFAULT_SITE.to_owned(),
            Some(site) => {
                if !is_name(&site.value) {
                    let problem = format!("site {:?}: {NAME_RULE}", site.value);
                    problems.note(line(&site), problem);
                }
                site.value
            }
        };
        let machines = match (self.inventory, self.adopt) {
            (Some(_), Some(adopt)) if adopt.value => {
                problems.note(line(&adopt), "adopt and inventory exclude each other: a machine that the inventory does not list would never be gone");
                Machines::Adopt
            }
            (Some(path), _) => Machines::Inventory(beside(path.value)),
            (None, Some(adopt)) if !adopt.value => {
                problems.note(line(&adopt), "without adopt, an inventory is needed");
                Machines::Adopt
            }
            (None, _) => Machines::Adopt,
        };
        let pools = Pools::check(self.pools, &mut problems);
        let mut classes: Vec<String> =
            self.load_balancer_classes.into_iter().map(|each| each.value).collect();
        classes.extend(pools.classes().map(str::to_owned));
        classes.sort();
        classes.dedup();
        let data_plane = self.data_plane.check(&mut problems, beside);
        let defaults = Defaults { zone: self.zone, region: self.region, instance_type: self.instance_type };
        problems.or(Config { site, machines, defaults, classes, pools, data_plane, routes: self.routes })
    }
}

impl DataPlaneDocument {
    fn check(self, problems: &mut Problems, beside: impl Fn(PathBuf) -> PathBuf) -> DataPlaneChoice {
        match self.kind {
            Kind::Proxy => {
                for (key, line) in [
                    ("state", self.state.as_ref().map(line)),
                    ("interface", self.interface.as_ref().map(line)),
                    ("announce", self.announce.as_ref().map(line)),
                ] {
                    if let Some(line) = line {
                        problems.note(
                            line,
                            format!("dataPlane.{key} is for kind nft; the proxy has its own arguments"),
                        );
                    }
                }
                let socket = self.socket.map(|path| DataPlaneChoice::Socket(beside(path.value)));
                socket.unwrap_or(DataPlaneChoice::InProcess)
            }
            Kind::Nft => {
                if let Some(socket) = &self.socket {
                    problems.note(
                        line(socket),
                        "dataPlane.socket is for kind proxy: the kernel needs no process",
                    );
                }
                let announce = self.announce.as_ref().is_none_or(|announce| announce.value);
                let addresses = match self.interface {
                    Some(interface) if !announce => {
                        problems.note(
                            line(&interface),
                            "dataPlane.interface is for addresses that are announced",
                        );
                        AddressChoice::Routed
                    }
                    Some(interface) => AddressChoice::Interface(interface.value),
                    None if announce => AddressChoice::Found,
                    None => AddressChoice::Routed,
                };
                let state = self.state.map_or_else(|| PathBuf::from(STATE), |path| beside(path.value));
                DataPlaneChoice::Kernel(KernelChoice { state, addresses })
            }
        }
    }
}

/// What [`is_name`] asks for, in words.
pub(crate) const NAME_RULE: &str =
    "letters, digits, '-', '_' and '.' are allowed, and at least one is needed";

/// Whether a text can be part of a provider ID or name a pool.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

#[cfg(test)]
mod tests;
