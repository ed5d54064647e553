//! The cloud config file: bytes and a path. Each cloud reads its own format out of it, [`gcfg`](crate::gcfg) or YAML, as
//! its users know it.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// What stands in the file given by `--cloud-config`. It often holds passwords: its `Debug` shows only the path.
#[derive(Clone, PartialEq, Eq)]
pub struct CloudConfig {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl CloudConfig {
    /// A config that is not in a file, for tests; `path` is what errors will name.
    pub fn from_bytes(path: impl Into<PathBuf>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), bytes: bytes.into() }
    }

    /// Reads the file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let bytes = std::fs::read(path).map_err(|error| {
            Error::invalid_config(format!("reading the cloud config {}", path.display())).because(error)
        })?;
        Ok(Self { path: path.to_owned(), bytes })
    }

    /// The file's path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file's contents.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The file's contents as text.
    pub fn text(&self) -> Result<&str, Error> {
        std::str::from_utf8(&self.bytes).map_err(|error| {
            Error::invalid_config(format!("reading the cloud config {} as text", self.path.display()))
                .because(error)
        })
    }
}

impl fmt::Debug for CloudConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CloudConfig({})", self.path.display())
    }
}

/// Watches a config file by comparing its bytes: mounted Secrets and ConfigMaps are swapped by symbolic links, which
/// no change of time stamp need show.
///
/// The last good config stays in force: a version counts as taken only when [`ConfigFile::accept`] says so, and a
/// broken one is offered once, not at every look.
#[derive(Debug)]
pub struct ConfigFile {
    in_force: CloudConfig,
    refused: Option<CloudConfig>,
}

impl ConfigFile {
    /// Starts from the config that is in force.
    pub fn new(in_force: CloudConfig) -> Self {
        Self { in_force, refused: None }
    }

    /// The config that is in force.
    pub fn in_force(&self) -> &CloudConfig {
        &self.in_force
    }

    /// Reads the file again. `Some` is a version that was not offered before: build from it, then [`accept`] or
    /// [`refuse`] it. A file that cannot be read is an error, and the last good one stays.
    ///
    /// [`accept`]: ConfigFile::accept
    /// [`refuse`]: ConfigFile::refuse
    pub fn look(&mut self) -> Result<Option<CloudConfig>, Error> {
        let read = CloudConfig::read(&self.in_force.path)?;
        if read == self.in_force {
            self.refused = None;
            return Ok(None);
        }
        Ok(Some(read).filter(|read| self.refused.as_ref() != Some(read)))
    }

    /// The offered version is good: it is in force from now on.
    pub fn accept(&mut self, config: CloudConfig) {
        self.in_force = config;
        self.refused = None;
    }

    /// The offered version is broken: it is not offered again until the file changes once more.
    pub fn refuse(&mut self, config: CloudConfig) {
        self.refused = Some(config);
    }

    /// Whether the file holds a version that was refused.
    pub fn is_stale(&self) -> bool {
        self.refused.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Decision;

    fn file(contents: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cloud.conf");
        std::fs::write(&path, contents).unwrap();
        (dir, path)
    }

    #[test]
    fn a_missing_file_is_an_error_that_names_the_path() {
        let error = CloudConfig::read(Path::new("/nowhere/cloud.conf")).unwrap_err();
        assert_eq!(error.decision(), &Decision::InvalidConfig);
        assert!(error.report().contains("/nowhere/cloud.conf"));
    }

    #[test]
    fn debug_never_shows_the_contents() {
        let config = CloudConfig::from_bytes("cloud.conf", "password = hunter2");
        assert_eq!(format!("{config:?}"), "CloudConfig(cloud.conf)");
    }

    #[test]
    fn a_new_version_is_offered_until_it_is_taken_or_refused() {
        let (_dir, path) = file("a = 1");
        let mut watched = ConfigFile::new(CloudConfig::read(&path).unwrap());
        assert_eq!(watched.look().unwrap(), None);

        std::fs::write(&path, "broken").unwrap();
        let offered = watched.look().unwrap().unwrap();
        watched.refuse(offered);
        assert_eq!(watched.look().unwrap(), None, "a refused version is offered once");
        assert!(watched.is_stale());
        assert_eq!(watched.in_force().bytes(), b"a = 1");

        std::fs::write(&path, "a = 2").unwrap();
        let offered = watched.look().unwrap().unwrap();
        watched.accept(offered);
        assert!(!watched.is_stale());
        assert_eq!(watched.in_force().bytes(), b"a = 2");
    }

    #[test]
    fn going_back_to_the_version_in_force_ends_the_staleness() {
        let (_dir, path) = file("a = 1");
        let mut watched = ConfigFile::new(CloudConfig::read(&path).unwrap());
        std::fs::write(&path, "broken").unwrap();
        let offered = watched.look().unwrap().unwrap();
        watched.refuse(offered);
        std::fs::write(&path, "a = 1").unwrap();
        assert_eq!(watched.look().unwrap(), None);
        assert!(!watched.is_stale());
    }

    /// Proves: IFACE-45
    #[test]
    fn an_unreadable_file_leaves_the_last_good_in_force() {
        let (_dir, path) = file("a = 1");
        let mut watched = ConfigFile::new(CloudConfig::read(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        assert!(watched.look().is_err());
        assert_eq!(watched.in_force().bytes(), b"a = 1");
    }
}
