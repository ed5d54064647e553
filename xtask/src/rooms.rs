//! Which crate may import which. The rules are a table, the check is a pure function over a list of edges;
//! [`metadata`] makes that list from what cargo says.
//!
//! Cargo itself only refuses cycles. These rules keep the contract small enough for a provider author to read,
//! keep the machinery free of clouds, and keep one provider from leaning on another.

pub mod entry_points;
pub mod metadata;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use rules::{CLOSURE_BANS, KUBERNETES_CHOOSERS, Who};

/// Where a package of this workspace lives; that decides which rule it falls under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Below `providers/`: one cloud.
    Provider,
    /// Anywhere else: known by name.
    Room,
}

/// How a package asks for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Linked into what is built.
    Normal,
    /// Run while building.
    Build,
    /// For tests, examples and benchmarks only.
    Dev,
}

/// One package asks for another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// The package whose manifest names the other.
    pub from: String,
    /// The package that is named.
    pub to: String,
    /// In which table of the manifest.
    pub kind: Kind,
}

/// Packages and the edges between them. A package that is not in `ours` comes from a registry; its versions
/// are not told apart, which can only make the check stricter.
#[derive(Debug, Default)]
pub struct Graph {
    /// The packages of this workspace.
    pub ours: BTreeMap<String, Place>,
    /// All edges, those between packages of registries included.
    pub edges: Vec<Edge>,
    /// Packages of ours whose manifest asks for a Kubernetes version of `k8s-openapi`, with the feature.
    pub kubernetes_choices: Vec<(String, String)>,
}

/// A rule that does not hold: what was found, which rule it offends and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach {
    found: String,
    rule: String,
    remedy: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}. Rule: {}. Remedy: {}.", self.found, self.rule, self.remedy)
    }
}

/// Every rule that the graph offends, in a stable order.
pub fn check(graph: &Graph) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for name in graph.ours.keys() {
        if rules::of(name, graph).is_none() {
            breaches.push(Breach {
                found: format!("`{name}` is a package of this workspace without a rule"),
                rule: "each room says what it may import".to_owned(),
                remedy: format!(
                    "add `{name}` to ROOMS in xtask/src/rooms/rules.rs and to the map in CONTRIBUTING.md"
                ),
            });
        }
    }
    let between_ours: BTreeSet<&Edge> = graph.edges.iter().filter(|edge| edge.joins_ours(graph)).collect();
    breaches.extend(between_ours.into_iter().filter_map(|edge| check_edge(edge, graph)));
    breaches.extend(check_closures(graph));
    breaches.extend(check_kubernetes_choices(graph));
    breaches
}

impl Edge {
    fn joins_ours(&self, graph: &Graph) -> bool {
        self.from != self.to && graph.ours.contains_key(&self.from) && graph.ours.contains_key(&self.to)
    }
}

fn check_edge(edge: &Edge, graph: &Graph) -> Option<Breach> {
    let room = rules::of(&edge.from, graph)?;
    let allowed = match edge.kind {
        Kind::Normal | Kind::Build => room.imports.iter().any(|who| who.is(&edge.to, graph)),
        Kind::Dev => room.imports.iter().chain(room.tests_import).any(|who| who.is(&edge.to, graph)),
    };
    let (kind, table) = match edge.kind {
        Kind::Normal => ("a dependency", "dependencies"),
        Kind::Build => ("a build-dependency", "build-dependencies"),
        Kind::Dev => ("a dev-dependency", "dev-dependencies"),
    };
    let as_a_test_tool =
        edge.kind != Kind::Dev && room.tests_import.iter().any(|who| who.is(&edge.to, graph));
    (!allowed).then(|| Breach {
        found: format!("`{}` imports `{}` as {kind}", edge.from, edge.to),
        rule: format!("{} ({})", room.why, room.describe_imports()),
        remedy: if as_a_test_tool {
            format!("move `{}` from [{table}] to [dev-dependencies] of `{}`", edge.to, edge.from)
        } else {
            format!(
                "remove `{}` from [{table}] of `{}` and move the code that needs it to a room that may import it",
                edge.to, edge.from
            )
        },
    })
}

/// What must not be reached through any number of normal edges.
fn check_closures(graph: &Graph) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for ban in CLOSURE_BANS {
        let roots: Vec<&str> = match ban.whose {
            Who::Named(name) => graph.ours.keys().map(String::as_str).filter(|ours| *ours == name).collect(),
            Who::AnyProvider => graph.providers().collect(),
            Who::Anybody => graph.ours.keys().map(String::as_str).collect(),
        };
        for root in roots {
            for banned in ban.crates {
                let Some(path) = graph.path(root, banned, ban.except) else { continue };
                breaches.push(Breach {
                    found: format!("`{root}` reaches `{banned}`: {}", path.join(" -> ")),
                    rule: ban.why.to_owned(),
                    remedy: ban.remedy.to_owned(),
                });
            }
        }
    }
    breaches
}

fn check_kubernetes_choices(graph: &Graph) -> impl Iterator<Item = Breach> {
    graph.kubernetes_choices.iter().filter(|(name, _)| !KUBERNETES_CHOOSERS.contains(&name.as_str())).map(
        |(name, feature)| Breach {
            found: format!("`{name}` asks for the feature `{feature}` of `k8s-openapi`"),
            rule: "only a binary chooses a Kubernetes version (docs/decisions/0002)".to_owned(),
            remedy: format!(
                "remove `{feature}` from the manifest of `{name}`; .cargo/config.toml chooses here"
            ),
        },
    )
}

impl Graph {
    fn providers(&self) -> impl Iterator<Item = &str> {
        self.ours.iter().filter(|(_, place)| **place == Place::Provider).map(|(name, _)| name.as_str())
    }

    /// The shortest chain of normal and build edges between two packages that leads through none of `except`.
    fn path(&self, from: &str, to: &str, except: &[&str]) -> Option<Vec<String>> {
        let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for edge in self.edges.iter().filter(|edge| edge.kind != Kind::Dev) {
            next.entry(&edge.from).or_default().push(&edge.to);
        }
        let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
        let mut queue = VecDeque::from([from]);
        while let Some(here) = queue.pop_front() {
            if except.contains(&here) {
                continue;
            }
            for there in next.get(here).into_iter().flatten() {
                if *there == from || came_from.contains_key(there) {
                    continue;
                }
                came_from.insert(there, here);
                if *there == to {
                    return Some(trace_back(&came_from, to));
                }
                queue.push_back(there);
            }
        }
        None
    }
}

fn trace_back(came_from: &BTreeMap<&str, &str>, to: &str) -> Vec<String> {
    let mut path = vec![to.to_owned()];
    let mut here = to;
    while let Some(before) = came_from.get(here) {
        path.push((*before).to_owned());
        here = before;
    }
    path.reverse();
    path
}
