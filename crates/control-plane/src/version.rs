//! Which releases of Kubernetes there are here, read from `hack/kube/versions.env` at compile time.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// INVARIANT: the one place that names versions; everything else is checked against it.
const PINS: &str = include_str!("../../../hack/kube/versions.env");

/// A release of Kubernetes or etcd, such as `1.36.4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    major: u32,
    minor: u32,
    patch: u32,
}

impl Version {
    /// Its minor release, such as `1.36`.
    pub fn minor(&self) -> String {
        format!("{}.{}", self.major, self.minor)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl FromStr for Version {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parts: Option<Vec<u32>> = text.split('.').map(|part| part.parse().ok()).collect();
        match parts.as_deref() {
            Some(&[major, minor, patch]) => Ok(Self { major, minor, patch }),
            _ => Err(Error::Versions(format!("{text:?} is not a version such as 1.36.4"))),
        }
    }
}

/// The releases whose Go modules are pinned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pins {
    /// What is started unless somebody asks for another.
    pub default: Version,
    /// The oldest supported release.
    pub oldest: Version,
    /// The newest supported release.
    pub newest: Version,
    /// The etcd under all of them.
    pub etcd: Version,
}

impl Pins {
    /// The pins of this checkout.
    pub fn load() -> Result<Self, Error> {
        let pin = |name: &str| {
            PINS.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
                .ok_or_else(|| Error::Versions(format!("no line {name}=")))?
                .trim()
                .parse()
        };
        Ok(Self {
            default: pin("KUBE")?,
            oldest: pin("KUBE_OLDEST")?,
            newest: pin("KUBE_NEWEST")?,
            etcd: pin("ETCD")?,
        })
    }

    /// Every pinned release of Kubernetes, oldest first.
    pub fn all(&self) -> Vec<Version> {
        let mut all = vec![self.oldest, self.default, self.newest];
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The release meant by `1.36.4`, `v1.36.4` or `1.36`.
    pub fn resolve(&self, asked: &str) -> Result<Version, Error> {
        let wanted = asked.trim().trim_start_matches('v');
        let all = self.all();
        all.iter().copied().find(|pin| pin.to_string() == wanted || pin.minor() == wanted).ok_or_else(|| {
            let pinned: Vec<String> = all.iter().map(Version::to_string).collect();
            Error::NotPinned { asked: asked.to_owned(), pinned: pinned.join(", ") }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_release_is_found_by_its_full_name_or_by_its_minor() {
        let pins = Pins::load().unwrap();
        for asked in [pins.newest.to_string(), format!("v{}", pins.newest), pins.newest.minor()] {
            assert_eq!(pins.resolve(&asked).unwrap(), pins.newest);
        }
    }

    #[test]
    fn a_release_without_pins_is_refused_with_the_list_of_those_that_have_them() {
        let pins = Pins::load().unwrap();
        let message = pins.resolve("1.12.0").unwrap_err().to_string();
        for version in pins.all() {
            assert!(message.contains(&version.to_string()), "{message}");
        }
    }

    #[test]
    fn every_pin_has_a_go_mod_that_requires_exactly_it_and_checksums_beside_it() {
        let kube = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hack/kube");
        let pins = Pins::load().unwrap();
        let mut modules: Vec<(String, String)> = Vec::new();
        for version in pins.all() {
            modules.push((version.minor(), format!("k8s.io/kubernetes v{version}")));
        }
        modules.push(("etcd".to_owned(), format!("go.etcd.io/etcd/server/v3 v{}", pins.etcd)));
        for (directory, requirement) in modules {
            let go_mod = std::fs::read_to_string(kube.join(&directory).join("go.mod")).unwrap();
            assert!(
                go_mod.contains(&format!("require {requirement}\n")),
                "{directory}/go.mod: {requirement}"
            );
            assert!(!go_mod.contains("toolchain"), "{directory}/go.mod asks for a Go toolchain of its own");
            let go_sum = std::fs::read_to_string(kube.join(&directory).join("go.sum")).unwrap();
            assert!(go_sum.contains(&format!("{requirement} h1:")), "{directory}/go.sum: {requirement}");
        }
    }
}
