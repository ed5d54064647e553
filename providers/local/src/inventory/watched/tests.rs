use std::path::Path;

use cloud_provider::{Context, Decision, Existence, NodeRef};

use super::*;

async fn watch(path: &Path) -> Result<Watched, Error> {
    let source = Arc::new(InventoryFile(path.to_owned()));
    Watched::open(source, "lab", Defaults::default(), Context::inert().metrics).await
}

fn knows(look: &Look, name: &str) -> bool {
    let answer = look.good.answer(&NodeRef { name: name.into(), ..NodeRef::default() });
    matches!(answer, Existence::Found(_))
}

#[tokio::test]
async fn a_new_version_is_in_force_at_the_next_look() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("machines.yaml");
    std::fs::write(&path, "machines: [{name: a}]").unwrap();
    let watched = watch(&path).await.unwrap();
    assert!(knows(&watched.look().await, "a"));
    std::fs::write(&path, "machines: [{name: b}]").unwrap();
    let look = watched.look().await;
    assert!(knows(&look, "b") && !knows(&look, "a"));
}

#[tokio::test]
async fn a_broken_or_missing_file_leaves_the_last_good_in_force_until_it_is_repaired() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("machines.yaml");
    std::fs::write(&path, "machines: [{name: a}]").unwrap();
    let watched = watch(&path).await.unwrap();

    std::fs::write(&path, "machines:\n- {name: a}\n- {name: a}\n").unwrap();
    for _ in 0..2 {
        let look = watched.look().await;
        assert!(knows(&look, "a"));
        let trouble = look.trouble.unwrap();
        assert!(trouble.contains("machines.yaml:3: "), "{trouble}");
    }
    std::fs::remove_file(&path).unwrap();
    let look = watched.look().await;
    assert!(knows(&look, "a") && look.trouble.unwrap().contains("reading"));

    std::fs::write(&path, "machines:\n- {name: a}\n- {name: a}\n").unwrap();
    let trouble = watched.look().await.trouble.unwrap();
    assert!(trouble.contains(":3: "), "the same bytes again are still broken: {trouble}");
    std::fs::write(&path, "machines: [{name: c}]").unwrap();
    let look = watched.look().await;
    assert!(look.trouble.is_none() && knows(&look, "c"));
}

#[tokio::test]
async fn a_first_version_that_is_broken_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("machines.yaml");
    for contents in [None, Some("machines: [{}]")] {
        if let Some(contents) = contents {
            std::fs::write(&path, contents).unwrap();
        }
        let error = watch(&path).await.err().unwrap();
        assert_eq!(error.decision(), &Decision::InvalidConfig);
        assert!(error.report().contains("machines.yaml"), "{}", error.report());
    }
}
