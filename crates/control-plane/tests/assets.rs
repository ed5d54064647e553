//! Where programs come from, with a stand-in for `go` that writes empty programs and counts how often it is asked.

#![expect(clippy::unwrap_used, reason = "a test ends where it fails, in its fixtures too")]

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use control_plane::assets::Progress;
use control_plane::{Assets, Environment, Error, Program};
use tempfile::TempDir;

/// A directory for everything a test needs, with a `go` in it.
struct Bench {
    directory: TempDir,
    told: Arc<Mutex<Vec<String>>>,
}

impl Bench {
    /// `build` is the shell code that stands for `go build`; `$output` is the argument of `-o`.
    fn with_go(version: &str, build: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let script = format!(
            "#!/bin/sh\n\
             if [ \"$1\" = env ]; then echo {version}; exit; fi\n\
             while [ \"$1\" != -o ]; do shift; done\n\
             output=$2\n\
             echo build >> {}/builds\n\
             {build}\n",
            directory.path().display()
        );
        write_program(&directory.path().join("bin/go"), &script);
        Self { directory, told: Arc::default() }
    }

    fn environment(&self) -> Environment {
        let mut path = OsString::from(self.directory.path().join("bin"));
        path.push(":/usr/bin:/bin");
        Environment { cache: Some(self.cache()), path: Some(path), ..Environment::default() }
    }

    fn cache(&self) -> PathBuf {
        self.directory.path().join("cache")
    }

    fn progress(&self) -> Progress {
        let told = Arc::clone(&self.told);
        Arc::new(move |line| told.lock().unwrap().push(line.to_owned()))
    }

    fn builds(&self) -> usize {
        std::fs::read_to_string(self.directory.path().join("builds")).unwrap_or_default().lines().count()
    }

    /// The directories in the cache; lock files stay.
    fn cached(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.cache().join("nephos/kube")).unwrap().flatten();
        let directories = entries.filter(|entry| entry.path().is_dir());
        directories.map(|entry| entry.file_name().into_string().unwrap()).collect()
    }

    async fn obtain(&self) -> Result<Assets, Error> {
        Assets::obtain(&self.environment(), &self.progress()).await
    }
}

/// Writes all the programs that one `go build` is asked for.
const BUILDS: &str = "case $output in */) touch ${output}kube-apiserver ${output}kube-controller-manager ${output}kubectl;; \
                      *) touch $output;; esac";

fn write_program(path: &Path, script: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, script).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn without_go_it_says_what_to_install() {
    let bench = Bench::with_go("go1.26.8", BUILDS);
    let nowhere = tempfile::tempdir().unwrap();
    let environment = Environment { path: Some(nowhere.path().into()), ..bench.environment() };
    let error = Assets::obtain(&environment, &bench.progress()).await.unwrap_err();
    assert!(matches!(error, Error::MissingGo { .. }), "{error}");
    let message = error.to_string();
    for hint in ["install Go 1.26", "https://go.dev/dl", "KUBEBUILDER_ASSETS"] {
        assert!(message.contains(hint), "{hint} is not in: {message}");
    }
}

#[tokio::test]
async fn with_a_go_that_is_too_old_it_says_so() {
    let bench = Bench::with_go("go1.25.9", BUILDS);
    let message = bench.obtain().await.unwrap_err().to_string();
    assert!(message.contains("needs Go 1.26") && message.contains("go1.25.9"), "{message}");
    assert_eq!(bench.builds(), 0);
}

#[tokio::test]
async fn a_failed_build_shows_what_go_said_and_leaves_nothing_in_the_cache() {
    let bench = Bench::with_go("go1.26.8", "touch $output; echo 'checksum mismatch' >&2; exit 1");
    let error = bench.obtain().await.unwrap_err();
    assert!(matches!(&error, Error::Build { output, .. } if output.contains("checksum mismatch")), "{error}");
    assert_eq!(bench.cached(), Vec::<String>::new());
}

#[tokio::test]
async fn several_who_come_at_once_build_once_and_who_comes_later_not_at_all() {
    let bench = Bench::with_go("go1.26.8", &format!("sleep 0.3; {BUILDS}"));
    let together = tokio::join!(bench.obtain(), bench.obtain(), bench.obtain());
    for assets in [together.0, together.1, together.2] {
        let assets = assets.unwrap();
        for program in [Program::Etcd, Program::ApiServer, Program::ControllerManager, Program::Kubectl] {
            assert!(assets.program(program).unwrap().is_file());
        }
    }
    bench.obtain().await.unwrap();
    assert_eq!(bench.builds(), 2, "etcd once and Kubernetes once");
    let told = bench.told.lock().unwrap().join("\n");
    assert!(told.contains("another process is building"), "{told}");
    assert!(told.contains("building Kubernetes 1."), "{told}");
}

#[tokio::test]
async fn programs_that_were_built_from_other_pins_are_built_again() {
    let bench = Bench::with_go("go1.26.8", BUILDS);
    let assets = bench.obtain().await.unwrap();
    std::fs::write(assets.directory().join("stamp"), "of other pins").unwrap();
    let leftover = assets.directory().join("of-the-old-build");
    std::fs::write(&leftover, "").unwrap();
    bench.obtain().await.unwrap();
    assert_eq!(bench.builds(), 4);
    assert!(!leftover.exists());
    let version = bench.environment().version().unwrap().to_string();
    assert_eq!(bench.cached(), [version]);
}

#[tokio::test]
async fn a_directory_that_somebody_names_is_used_as_it_is() {
    let bench = Bench::with_go("go1.26.8", BUILDS);
    let server = bench.directory.path().join("assets/kube-apiserver");
    write_program(&server, "#!/bin/sh\necho Kubernetes v1.2.3\n");
    let environment =
        Environment { assets: Some(server.parent().unwrap().to_owned()), ..bench.environment() };
    let assets = Assets::obtain(&environment, &bench.progress()).await.unwrap();
    assert_eq!(assets.program(Program::ApiServer).unwrap(), server);
    let missing = assets.program(Program::Etcd).unwrap_err().to_string();
    assert!(missing.contains("etcd") && missing.contains("KUBEBUILDER_ASSETS"), "{missing}");
    assert_eq!(bench.builds(), 0);

    let asked = environment.version().unwrap().to_string();
    let environment = Environment { kube: Some(asked.clone()), ..environment };
    let error = Assets::obtain(&environment, &bench.progress()).await.unwrap_err();
    assert!(matches!(&error, Error::WrongAssets { found, .. } if found.contains("1.2.3")), "{error}");
}
