//! What the API server publishes in its ConfigMap, by upstream's keys.

use std::collections::BTreeMap;

use super::TrustError;
use crate::serve::auth::options::RequestHeader;

/// The ConfigMap, read.
#[derive(Debug, Clone, Default)]
pub(super) struct Published {
    /// The PEM of who signs clients' certificates.
    pub(super) client_ca: Option<String>,
    /// The PEM of who signs proxies' certificates, and what those proxies say.
    pub(super) request_header: Option<(String, RequestHeader)>,
    /// What it was read from.
    data: BTreeMap<String, String>,
}

impl PartialEq for Published {
    fn eq(&self, other: &Self) -> bool {
        self.data == other.data
    }
}

impl Eq for Published {}

impl Published {
    pub(super) fn read(data: BTreeMap<String, String>) -> Result<Self, TrustError> {
        let pem = |key: &str| data.get(key).filter(|pem| !pem.trim().is_empty()).cloned();
        let list = |key: &'static str| match data.get(key) {
            None => Ok(Vec::new()),
            Some(text) => serde_json::from_str(text).map_err(|source| TrustError::Malformed { key, source }),
        };
        let request_header = match pem("requestheader-client-ca-file") {
            None => None,
            Some(pem) => {
                let headers = RequestHeader {
                    client_ca_file: None,
                    allowed_names: list("requestheader-allowed-names")?,
                    username_headers: list("requestheader-username-headers")?,
                    uid_headers: list("requestheader-uid-headers")?,
                    group_headers: list("requestheader-group-headers")?,
                    extra_prefixes: list("requestheader-extra-headers-prefix")?,
                };
                Some((pem, headers))
            }
        };
        Ok(Self { client_ca: pem("client-ca-file"), request_header, data })
    }
}
