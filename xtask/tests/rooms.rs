//! Holds this workspace to the import rules of its rooms, as cargo sees them. What the rules are and that the
//! check can fail is proved in `src/rooms/tests.rs`.

use xtask::repository::Repository;
use xtask::rooms::{self, Breach, Graph, Place, entry_points, metadata};

fn workspace() -> anyhow::Result<Graph> {
    metadata::read(&Repository::containing_this_crate().cargo_metadata()?)
}

fn assert_kept(breaches: &[Breach]) {
    let sentences: Vec<String> = breaches.iter().map(ToString::to_string).collect();
    assert!(sentences.is_empty(), "import rules are broken:\n\n{}\n", sentences.join("\n\n"));
}

#[test]
fn every_room_imports_only_what_it_may() {
    assert_kept(&rooms::check(&workspace().unwrap()));
}

#[test]
fn a_provider_names_the_manager_only_in_its_main() {
    assert_kept(&entry_points::check(&Repository::containing_this_crate().rust_sources().unwrap()));
}

/// Without this, an answer of cargo that was read wrongly would let every rule hold over nothing.
#[test]
fn the_graph_holds_the_rooms_and_what_they_are_known_to_import() {
    let graph = workspace().unwrap();
    assert_eq!(graph.ours["cloud-provider"], Place::Room);
    assert_eq!(graph.ours["provider-fake"], Place::Provider);
    for (from, to) in
        [("provider-fake", "cloud-provider"), ("controller-kit", "tokio"), ("kube-client", "hyper")]
    {
        assert!(graph.edges.iter().any(|e| e.from == from && e.to == to), "{from} -> {to} is missing");
    }
}

/// The whole way from manifests on disk to the sentence, over a small workspace that breaks two rules.
#[test]
fn a_workspace_that_breaks_the_rules_is_caught() {
    let directory = tempfile::tempdir().unwrap();
    let repository = Repository::at(directory.path());
    let package =
        |name: &str| format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
    let kit = package("controller-kit") + "[dependencies]\ncloud-provider.path = \"../cloud-provider\"\n";
    let locked = |name: &str| format!("\n[[package]]\nname = \"{name}\"\nversion = \"0.1.0\"\n");
    let lock = "version = 4\n".to_owned()
        + &locked("cloud-provider")
        + &locked("cloud-utils")
        + &locked("controller-kit")
        + "dependencies = [\n \"cloud-provider\",\n]\n";
    for (path, text) in [
        ("Cargo.toml", "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\"]\n"),
        ("Cargo.lock", lock.as_str()),
        ("crates/cloud-provider/Cargo.toml", package("cloud-provider").as_str()),
        ("crates/cloud-utils/Cargo.toml", package("cloud-utils").as_str()),
        ("crates/controller-kit/Cargo.toml", kit.as_str()),
        ("crates/cloud-provider/src/lib.rs", ""),
        ("crates/cloud-utils/src/lib.rs", ""),
        ("crates/controller-kit/src/lib.rs", ""),
    ] {
        repository.write(path, text).unwrap();
    }

    let graph = metadata::read(&repository.cargo_metadata().unwrap()).unwrap();
    let sentences: Vec<String> = rooms::check(&graph).iter().map(ToString::to_string).collect();

    assert_eq!(sentences.len(), 2, "{sentences:?}");
    assert!(
        sentences[0].starts_with("`cloud-utils` is a package of this workspace without a rule"),
        "{sentences:?}"
    );
    assert!(
        sentences[1].starts_with("`controller-kit` imports `cloud-provider` as a dependency"),
        "{sentences:?}"
    );
}
