//! Where the programs come from: a directory that somebody names, our cache, or a build from pinned Go modules.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Error;
use crate::version::{Pins, Version};

mod build;
mod lock;

/// Told, line by line, what is going on while programs are built.
pub type Progress = Arc<dyn Fn(&str) + Send + Sync>;

/// A program of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The store.
    Etcd,
    /// The API server.
    ApiServer,
    /// The controllers that know no cloud.
    ControllerManager,
    /// The command line.
    Kubectl,
}

impl Program {
    const ALL: [Self; 4] = [Self::Etcd, Self::ApiServer, Self::ControllerManager, Self::Kubectl];

    /// Its file name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Kubectl => "kubectl",
        }
    }
}

/// What the environment of a process says about where programs are.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `KUBEBUILDER_ASSETS`: a directory that holds the programs; nothing is built then.
    pub assets: Option<PathBuf>,
    /// `NEPHOS_KUBE`: the release to use, such as `1.36.4` or `1.36`.
    pub kube: Option<String>,
    /// `XDG_CACHE_HOME`, or `.cache` in the home directory.
    pub cache: Option<PathBuf>,
    /// `PATH`, to find `go` on.
    pub path: Option<OsString>,
}

impl Environment {
    /// The environment of this process.
    pub fn of_process() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let home = || set("HOME").map(|home| PathBuf::from(home).join(".cache"));
        Self {
            assets: set("KUBEBUILDER_ASSETS").map(PathBuf::from),
            kube: set("NEPHOS_KUBE").map(|version| version.to_string_lossy().into_owned()),
            cache: set("XDG_CACHE_HOME").map(PathBuf::from).or_else(home),
            path: set("PATH"),
        }
    }

    /// The release that is asked for.
    pub fn version(&self) -> Result<Version, Error> {
        let pins = Pins::load()?;
        self.kube.as_deref().map_or(Ok(pins.default), |asked| pins.resolve(asked))
    }

    /// The directory that the programs are in, or will be in once they are built.
    pub fn directory(&self) -> Result<PathBuf, Error> {
        match &self.assets {
            Some(directory) => Ok(directory.clone()),
            None => Ok(self.cache()?.join(self.version()?.to_string())),
        }
    }

    fn cache(&self) -> Result<PathBuf, Error> {
        self.cache.as_ref().map(|cache| cache.join("nephos/kube")).ok_or_else(|| Error::Io {
            attempt: "looking for the cache directory: set XDG_CACHE_HOME or HOME".to_owned(),
            source: std::io::ErrorKind::NotFound.into(),
        })
    }
}

/// A directory that holds the programs of one release.
#[derive(Clone, Debug)]
pub struct Assets {
    directory: PathBuf,
    remedy: &'static str,
}

impl Assets {
    /// Finds the programs, or builds them, which takes some minutes the first time. Several processes that come at
    /// the same time build once.
    pub async fn obtain(environment: &Environment, progress: &Progress) -> Result<Self, Error> {
        let directory = environment.directory()?;
        if environment.assets.is_some() {
            let remedy =
                "KUBEBUILDER_ASSETS must name a directory with the programs; unset it to have them built";
            let assets = Self { directory, remedy };
            assets.check_release(environment).await?;
            return Ok(assets);
        }
        build::ensure(environment, &directory, progress).await?;
        Ok(Self { directory, remedy: "remove the directory to have it built again" })
    }

    /// Where they are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The path of one of them.
    pub fn program(&self, program: Program) -> Result<PathBuf, Error> {
        let path = self.directory.join(program.name());
        if path.is_file() {
            return Ok(path);
        }
        Err(Error::MissingProgram {
            program: program.name(),
            directory: self.directory.clone(),
            remedy: self.remedy,
        })
    }

    /// A test that asks for one release and silently gets another would prove nothing.
    async fn check_release(&self, environment: &Environment) -> Result<(), Error> {
        if environment.kube.is_none() {
            return Ok(());
        }
        let asked = environment.version()?;
        let server = self.program(Program::ApiServer)?;
        let answer = tokio::process::Command::new(&server).arg("--version").kill_on_drop(true).output();
        let answer = answer.await.map_err(Error::io(format!("running {} --version", server.display())))?;
        let found = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
        if found.ends_with(&format!("v{asked}")) {
            return Ok(());
        }
        Err(Error::WrongAssets { asked, found, directory: self.directory.clone() })
    }
}

/// Writes progress to standard error, where a test runner does not hide it.
pub fn on_stderr() -> Progress {
    Arc::new(|line| {
        use std::io::Write;
        _ = writeln!(std::io::stderr(), "control-plane: {line}");
    })
}
