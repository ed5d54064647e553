//! The providers that a binary knows: an explicit list, checked once.

use std::path::Path;

use crate::cloud::Cloud;
use crate::config::CloudConfig;
use crate::context::Context;
use crate::error::Error;
use crate::provider::Provider;

/// The name that means "the cloud is somebody else's business".
pub const EXTERNAL: &str = "external";

/// The providers that a binary knows.
#[derive(Debug, Clone)]
pub struct Registry {
    providers: Vec<Provider>,
}

/// Why a list of providers, or a choice from it, cannot stand.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Two providers have the same name.
    #[error("cloud provider {0:?} is registered twice")]
    Duplicate(String),
    /// A provider's name cannot be the scheme of a provider ID, or means something else.
    #[error("cloud provider {0:?} cannot have that name")]
    BadName(String),
    /// No provider has this name.
    #[error("unknown cloud provider {name:?}{hint}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        hint: String,
    },
    /// The provider could not be built.
    #[error("could not init cloud provider {name:?}")]
    Build {
        /// The provider.
        name: String,
        /// Why.
        #[source]
        source: Error,
    },
    /// The config file could not be read.
    #[error("could not open the configuration of cloud provider {name:?}")]
    Config {
        /// The provider.
        name: String,
        /// Why.
        #[source]
        source: Error,
    },
}

/// What a value of `--cloud-provider` means.
#[derive(Debug, Clone, Copy)]
pub enum Choice {
    /// Nothing was named: there is no cloud.
    None,
    /// `external`: the cloud is somebody else's business.
    External,
    /// This provider.
    Provider(Provider),
}

impl Registry {
    /// Checks the list: no name twice, and only names that can be the scheme of a provider ID.
    pub fn new(providers: impl IntoIterator<Item = Provider>) -> Result<Self, RegistryError> {
        let mut known: Vec<Provider> = Vec::new();
        for provider in providers {
            let name = provider.name;
            let bad = name == EXTERNAL || crate::ProviderId::new(name, "x").is_err();
            if bad {
                return Err(RegistryError::BadName(name.to_owned()));
            }
            if known.iter().any(|other| other.name == name) {
                return Err(RegistryError::Duplicate(name.to_owned()));
            }
            known.push(provider);
        }
        Ok(Self { providers: known })
    }

    /// The providers, in the order of the list.
    pub fn providers(&self) -> &[Provider] {
        &self.providers
    }

    /// Finds a provider by name.
    pub fn choose(&self, name: &str) -> Result<Choice, RegistryError> {
        match name {
            "" => Ok(Choice::None),
            EXTERNAL => Ok(Choice::External),
            _ => self
                .providers
                .iter()
                .find(|provider| provider.name == name)
                .map(|provider| Choice::Provider(*provider))
                .ok_or_else(|| RegistryError::Unknown { name: name.to_owned(), hint: self.hint(name) }),
        }
    }

    /// Reads the config file, if one is named, and builds the provider of this name. `None` for no name and for
    /// `external`; the config file is then not even opened.
    pub async fn build(
        &self,
        name: &str,
        config: Option<&Path>,
        context: Context,
    ) -> Result<Option<Cloud>, RegistryError> {
        let Choice::Provider(provider) = self.choose(name)? else { return Ok(None) };
        let config = config
            .map(CloudConfig::read)
            .transpose()
            .map_err(|source| RegistryError::Config { name: name.to_owned(), source })?;
        let cloud = (provider.build)(context.with_config(config))
            .await
            .map_err(|source| RegistryError::Build { name: name.to_owned(), source })?;
        Ok(Some(cloud))
    }

    fn hint(&self, name: &str) -> String {
        let names: Vec<&str> = self.providers.iter().map(|provider| provider.name).collect();
        match crate::nearest::nearest(name, names.iter().copied()) {
            Some(near) => format!("; did you mean {near:?}?"),
            None if names.is_empty() => String::new(),
            None => format!("; this binary knows {}", names.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;

    const A: Provider = Provider::new("alpha", "a cloud", |context| {
        Box::pin(async move {
            match context.config {
                Some(config) if config.bytes() == b"bad" => Err(Error::invalid_config("parsing the config")),
                Some(_) | None => Ok(Cloud::new("alpha")),
            }
        })
    });
    const B: Provider = Provider::new("beta", "another", |_| Box::pin(async { Ok(Cloud::new("beta")) }));

    fn build(name: &str, config: Option<&Path>) -> Result<Option<Cloud>, RegistryError> {
        block_on(Registry::new([A, B]).unwrap().build(name, config, Context::inert()))
    }

    /// Proves: IFACE-41
    #[test]
    fn a_name_twice_is_an_error_and_not_the_end_of_the_process() {
        let error = Registry::new([A, B, A]).unwrap_err();
        assert_eq!(error.to_string(), "cloud provider \"alpha\" is registered twice");
    }

    #[test]
    fn a_name_that_cannot_be_a_scheme_is_refused() {
        for name in ["", "external", "a/b", "a b"] {
            let provider = Provider { name, ..A };
            assert!(matches!(Registry::new([provider]), Err(RegistryError::BadName(_))), "{name:?}");
        }
    }

    /// Proves: IFACE-42, IFACE-44
    #[test]
    fn an_unknown_name_is_an_error_with_a_suggestion() {
        assert_eq!(
            build("alhpa", None).unwrap_err().to_string(),
            "unknown cloud provider \"alhpa\"; did you mean \"alpha\"?"
        );
        assert_eq!(
            build("openstack", None).unwrap_err().to_string(),
            "unknown cloud provider \"openstack\"; this binary knows alpha, beta"
        );
    }

    /// Proves: IFACE-44, IFACE-46
    #[test]
    fn no_name_and_external_are_no_cloud_and_open_no_file() {
        let nowhere = Some(Path::new("/nowhere/cloud.conf"));
        assert!(build("", nowhere).unwrap().is_none());
        assert!(build("external", nowhere).unwrap().is_none());
    }

    /// Proves: IFACE-43, IFACE-44
    #[test]
    fn the_config_is_read_handed_over_and_its_errors_are_named() {
        assert!(build("alpha", None).unwrap().is_some(), "no config is an explicit nothing");

        let error = build("alpha", Some(Path::new("/nowhere/cloud.conf"))).unwrap_err();
        assert_eq!(error.to_string(), "could not open the configuration of cloud provider \"alpha\"");

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cloud.conf");
        std::fs::write(&path, "bad").unwrap();
        let error = build("alpha", Some(&path)).unwrap_err();
        assert_eq!(error.to_string(), "could not init cloud provider \"alpha\"");
        assert!(
            matches!(error, RegistryError::Build { source, .. } if source.to_string() == "parsing the config")
        );
    }
}
