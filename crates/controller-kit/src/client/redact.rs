//! Cuts credentials out of errors. kube puts the whole command line, environment and output of a credential plugin
//! into its error, and a YAML error quotes the kubeconfig line it stumbled over.

use std::error::Error as StdError;

use kube::client::AuthError;
use kube::config::KubeconfigError;
use tower::BoxError;

/// A credential plugin of the kubeconfig did not give a credential. What it printed is not repeated here.
#[derive(Debug, Clone, thiserror::Error)]
#[error("running the credential plugin: {why}")]
pub struct ExecPluginFailed {
    why: String,
}

/// The kubeconfig is no valid YAML, or not of the right shape. The offending line may hold a credential.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the kubeconfig cannot be parsed (the text is withheld because it may hold credentials)")]
pub(super) struct Unparsable;

/// An error that may be logged.
pub(super) fn redacted(error: kube::Error) -> BoxError {
    let why = chain(&error).find_map(|cause| cause.downcast_ref()).map(safe_words);
    match why {
        Some(why) => Box::new(ExecPluginFailed { why }),
        None => Box::new(error),
    }
}

/// The same for an error in reading the configuration.
pub(super) fn redacted_kubeconfig(error: KubeconfigError) -> BoxError {
    match error {
        KubeconfigError::Parse(_) => Box::new(Unparsable),
        other => Box::new(other),
    }
}

fn safe_words(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecRun { out, .. } => format!("it failed with {}", out.status),
        AuthError::AuthExecParse(_) => "its output cannot be parsed".to_owned(),
        AuthError::AuthExec(_) | AuthError::ExecPluginFailed => "it gave no credential".to_owned(),
        AuthError::InvalidBasicAuth(_) | AuthError::InvalidBearerToken(_) => {
            "the credential has characters that no HTTP header may have".to_owned()
        }
        AuthError::AuthExecStart(source) => format!("it could not be started: {source}"),
        AuthError::ReadTokenFile(source, path) => {
            format!("the token file {} could not be read: {source}", path.display())
        }
        AuthError::MissingCommand => "no command is given".to_owned(),
        _ => "the credential could not be obtained".to_owned(),
    }
}

fn chain<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&cause| cause.source())
}
