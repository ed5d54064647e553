//! Reads the answer of `cargo metadata` into a [`Graph`]. Only the fields used here are named; cargo promises
//! that they stay within format version 1.

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde::Deserialize;

use super::{Edge, Graph, Kind, Place};

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
    workspace_root: String,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    manifest_path: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    features: Vec<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<NodeDependency>,
}

#[derive(Deserialize)]
struct NodeDependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    kind: Option<String>,
}

/// Makes the graph of a workspace.
pub fn read(json: &[u8]) -> anyhow::Result<Graph> {
    let metadata: Metadata = serde_json::from_slice(json).context("decoding the answer of cargo metadata")?;
    let mut graph = Graph::default();
    let mut names = BTreeMap::new();
    for package in &metadata.packages {
        names.insert(package.id.as_str(), package.name.as_str());
        if metadata.workspace_members.contains(&package.id) {
            graph.ours.insert(package.name.clone(), place(&metadata.workspace_root, &package.manifest_path));
            graph.kubernetes_choices.extend(kubernetes_choices(package));
        }
    }
    for node in &metadata.resolve.nodes {
        for dependency in &node.deps {
            let from = name_of(&names, &node.id)?;
            let to = name_of(&names, &dependency.pkg)?;
            let edges = dependency.dep_kinds.iter().map(|kind| Edge {
                from: from.to_owned(),
                to: to.to_owned(),
                kind: match kind.kind.as_deref() {
                    Some("dev") => Kind::Dev,
                    Some("build") => Kind::Build,
                    _ => Kind::Normal,
                },
            });
            graph.edges.extend(edges);
        }
    }
    Ok(graph)
}

fn name_of<'n>(names: &BTreeMap<&str, &'n str>, id: &str) -> anyhow::Result<&'n str> {
    names.get(id).copied().with_context(|| format!("cargo metadata resolves {id} without describing it"))
}

fn place(root: &str, manifest_path: &str) -> Place {
    let below_root = manifest_path.strip_prefix(root).unwrap_or(manifest_path);
    if below_root.trim_start_matches('/').starts_with("providers/") { Place::Provider } else { Place::Room }
}

fn kubernetes_choices(package: &Package) -> impl Iterator<Item = (String, String)> {
    let features = package.dependencies.iter().filter(|d| d.name == "k8s-openapi").flat_map(|d| &d.features);
    features
        .filter(|feature| feature.starts_with("v1_") || ["latest", "earliest"].contains(&feature.as_str()))
        .map(|feature| (package.name.clone(), feature.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = r#"{
      "workspace_root": "/src/w",
      "workspace_members": ["id-kit", "id-aws"],
      "packages": [
        {"id": "id-kit", "name": "controller-kit", "manifest_path": "/src/w/crates/controller-kit/Cargo.toml",
         "dependencies": [{"name": "k8s-openapi", "features": ["std", "v1_34"]}]},
        {"id": "id-aws", "name": "provider-aws", "manifest_path": "/src/w/providers/aws/Cargo.toml", "dependencies": []},
        {"id": "id-tokio", "name": "tokio", "manifest_path": "/registry/tokio/Cargo.toml", "dependencies": []}
      ],
      "resolve": {"nodes": [
        {"id": "id-kit", "deps": [{"pkg": "id-tokio", "dep_kinds": [{"kind": null}, {"kind": "dev"}]}]},
        {"id": "id-aws", "deps": [{"pkg": "id-kit", "dep_kinds": [{"kind": "build"}]}]},
        {"id": "id-tokio", "deps": []}
      ]}
    }"#;

    #[test]
    fn packages_edges_and_choices_are_read() {
        let graph = read(ANSWER.as_bytes()).unwrap();
        assert_eq!(graph.ours["controller-kit"], Place::Room);
        assert_eq!(graph.ours["provider-aws"], Place::Provider);
        assert_eq!(graph.ours.len(), 2, "tokio is not ours");
        let edges: Vec<_> = graph.edges.iter().map(|e| (e.from.as_str(), e.to.as_str(), e.kind)).collect();
        let expected = [
            ("controller-kit", "tokio", Kind::Normal),
            ("controller-kit", "tokio", Kind::Dev),
            ("provider-aws", "controller-kit", Kind::Build),
        ];
        assert_eq!(edges, expected);
        assert_eq!(graph.kubernetes_choices, [("controller-kit".to_owned(), "v1_34".to_owned())]);
    }

    #[test]
    fn an_edge_to_an_undescribed_package_is_an_error() {
        let error = read(ANSWER.replace(r#""id": "id-tokio", "name""#, r#""id": "id-x", "name""#).as_bytes())
            .unwrap_err();
        assert!(error.to_string().contains("id-tokio"), "{error}");
    }
}
