//! The intent on disk: written whole or not at all, so that a data plane serves from its first second after a crash.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::words::Words;
use super::{Intent, Refusal};

/// A file with the last intent.
#[derive(Debug, Clone)]
pub struct Store {
    path: PathBuf,
    words: Arc<Mutex<Words>>,
}

/// Why an intent could not be kept or found.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file cannot be read.
    #[error("reading the intent from {}", .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// The file does not hold an intent.
    #[error("understanding the intent in {}", .0.display())]
    Parse(PathBuf, #[source] serde_json::Error),
    /// The file holds an intent that cannot be served.
    #[error("checking the intent in {}", .0.display())]
    Refused(PathBuf, #[source] Refusal),
    /// The file cannot be written.
    #[error("writing the intent to {}", .0.display())]
    Write(PathBuf, #[source] io::Error),
}

impl Store {
    /// The file at this path; it need not exist.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), words: Arc::default() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The last intent; `None` if there never was one.
    pub fn read(&self) -> Result<Option<Intent>, StoreError> {
        let bytes = match fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|error| StoreError::Read(self.path.clone(), error))?,
        };
        let intent: Intent =
            serde_json::from_slice(&bytes).map_err(|error| StoreError::Parse(self.path.clone(), error))?;
        intent.check().map_err(|refusal| StoreError::Refused(self.path.clone(), refusal))?;
        Ok(Some(intent))
    }

    /// Keeps an intent: after this returns, it is what a power cut leaves behind.
    pub fn write(&self, intent: &Intent) -> Result<(), StoreError> {
        self.replace(intent).map_err(|error| StoreError::Write(self.path.clone(), error))
    }

    /// Puts the file aside under another name, which it tells: a person may want to look at it.
    pub fn put_aside(&self) -> Result<PathBuf, StoreError> {
        let mut name = self.path.clone().into_os_string();
        name.push(".unusable");
        let aside = PathBuf::from(name);
        match fs::rename(&self.path, &aside) {
            Ok(()) => Ok(aside),
            Err(error) => Err(StoreError::Write(aside, error)),
        }
    }

    fn replace(&self, intent: &Intent) -> io::Result<()> {
        let directory = match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        fs::create_dir_all(directory)?;
        let text = self.words.lock().unwrap_or_else(PoisonError::into_inner).of(intent)?;
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(&text)?;
        file.as_file().sync_all()?;
        file.persist(&self.path).map_err(|error| error.error)?;
        // The name itself is durable only when its directory is.
        File::open(directory)?.sync_all()
    }
}
