//! From a URL to what is asked for: verb, kind, namespace, name, subresource and parameters.

use std::collections::BTreeMap;
use std::fmt;

use http::Method;

use super::kinds::{self, KINDS, Kind, KindId};
use super::status_error::StatusError;

/// What a request asks for, in RBAC's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read many objects.
    List,
    /// Follow changes.
    Watch,
    /// Create an object (POST).
    Create,
    /// Replace an object (PUT).
    Update,
    /// Change an object (PATCH).
    Patch,
    /// Delete an object.
    Delete,
    /// Delete many objects.
    DeleteCollection,
}

impl Verb {
    /// Whether the verb may change something.
    pub fn is_write(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }

    /// As RBAC spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The query of a URL.
pub(crate) type Parameters = BTreeMap<String, String>;

/// Where a URL leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// `/version`.
    Version,
    /// `/healthz`, `/livez`, `/readyz`.
    Health,
    /// A stored kind, one object or the whole collection.
    Object(ObjectTarget),
    /// A create-only review, by its kind.
    Review(&'static str),
    /// `serviceaccounts/{name}/token`.
    Token {
        /// The account's namespace.
        namespace: String,
        /// The account's name.
        name: String,
    },
}

/// One object or a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectTarget {
    /// Which kind.
    pub(crate) kind: KindId,
    /// Empty for cluster-scoped kinds and for lists over all namespaces.
    pub(crate) namespace: String,
    /// Absent for collections.
    pub(crate) name: Option<String>,
    /// Such as `status`.
    pub(crate) subresource: Option<String>,
}

impl ObjectTarget {
    /// The kind's row of the table.
    pub(crate) fn kind(&self) -> &'static Kind {
        &KINDS[self.kind]
    }
}

const REVIEWS: &[(&str, &str, &str)] = &[
    ("authentication.k8s.io", "tokenreviews", "TokenReview"),
    ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
    ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
];

/// Finds what a path leads to.
pub(crate) fn target(path: &str) -> Result<Target, StatusError> {
    let parts: Vec<String> = path.split('/').filter(|p| !p.is_empty()).map(percent_decoded).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["version"] => Ok(Target::Version),
        ["healthz" | "livez" | "readyz", ..] => Ok(Target::Health),
        ["api", version, rest @ ..] => resource("", version, rest),
        ["apis", group, version, rest @ ..] => resource(group, version, rest),
        _ => Err(StatusError::no_such_resource()),
    }
}

fn resource(group: &str, version: &str, rest: &[&str]) -> Result<Target, StatusError> {
    let (namespace, rest) = match rest {
        // `namespaces/x` and its subresources are about the Namespace itself.
        ["namespaces", _, "status" | "finalize"] | ["namespaces", _] => ("", rest),
        ["namespaces", namespace, inner @ ..] => (*namespace, inner),
        all => ("", all),
    };
    let (plural, name, subresource) = match rest {
        [plural] => (*plural, None, None),
        [plural, name] => (*plural, Some((*name).to_owned()), None),
        [plural, name, subresource] => (*plural, Some((*name).to_owned()), Some((*subresource).to_owned())),
        _ => return Err(StatusError::no_such_resource()),
    };
    if let Some((_, _, kind)) =
        REVIEWS.iter().find(|(g, p, _)| *g == group && *p == plural && version == "v1" && name.is_none())
    {
        return Ok(Target::Review(kind));
    }
    let Some(kind) = kinds::at(group, version, plural) else {
        return Err(StatusError::no_such_resource());
    };
    if KINDS[kind].namespaced == namespace.is_empty() && (name.is_some() || !KINDS[kind].namespaced) {
        return Err(StatusError::no_such_resource());
    }
    match (plural, subresource.as_deref(), name) {
        ("serviceaccounts", Some("token"), Some(name)) => {
            Ok(Target::Token { namespace: namespace.to_owned(), name })
        }
        (_, Some("status"), _) if KINDS[kind].status.is_none() => Err(StatusError::no_such_resource()),
        (_, Some(other), _) if other != "status" && (plural, other) != ("namespaces", "finalize") => {
            Err(StatusError::no_such_resource())
        }
        (_, _, name) => {
            Ok(Target::Object(ObjectTarget { kind, namespace: namespace.to_owned(), name, subresource }))
        }
    }
}

/// The verb that a method means here.
pub(crate) fn verb(method: &Method, target: &Target, parameters: &Parameters) -> Result<Verb, StatusError> {
    let named = match target {
        Target::Object(object) => object.name.is_some(),
        Target::Token { .. } | Target::Review(_) => {
            return if method == Method::POST {
                Ok(Verb::Create)
            } else {
                Err(StatusError::method_not_allowed())
            };
        }
        Target::Version | Target::Health => return Ok(Verb::Get),
    };
    let watching = parameters.get("watch").is_some_and(|w| w == "true" || w == "1");
    match (method.as_str(), named) {
        ("GET", false) if watching => Ok(Verb::Watch),
        ("GET", false) => Ok(Verb::List),
        ("GET", true) => Ok(Verb::Get),
        ("POST", false) => Ok(Verb::Create),
        ("PUT", true) => Ok(Verb::Update),
        ("PATCH", true) => Ok(Verb::Patch),
        ("DELETE", true) => Ok(Verb::Delete),
        ("DELETE", false) => Ok(Verb::DeleteCollection),
        _ => Err(StatusError::method_not_allowed()),
    }
}

/// The parameters of a query.
pub(crate) fn parameters(query: Option<&str>) -> Parameters {
    form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned().collect()
}

fn percent_decoded(part: &str) -> String {
    // A `+` stands for itself in a path and for a space in a query; apart from this the encodings are the same.
    let escaped = part.replace('+', "%2B");
    form_urlencoded::parse(escaped.as_bytes()).next().map(|(name, _)| name.into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_leads_to(path: &str, (kind, namespace, name, subresource): Parts<'_>) {
        let Ok(Target::Object(found)) = target(path) else { panic!("{path} leads to no object") };
        assert_eq!((found.kind().kind, found.namespace.as_str()), (kind, namespace), "{path}");
        assert_eq!((found.name.as_deref(), found.subresource.as_deref()), (name, subresource), "{path}");
    }

    type Parts<'a> = (&'a str, &'a str, Option<&'a str>, Option<&'a str>);

    #[test]
    fn paths_lead_to_kinds_names_and_subresources() {
        assert_leads_to("/api/v1/nodes", ("Node", "", None, None));
        assert_leads_to("/api/v1/nodes/a/status", ("Node", "", Some("a"), Some("status")));
        assert_leads_to("/api/v1/services", ("Service", "", None, None));
        assert_leads_to("/api/v1/namespaces/x/services/s", ("Service", "x", Some("s"), None));
        assert_leads_to("/api/v1/namespaces/x", ("Namespace", "", Some("x"), None));
        let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l";
        assert_leads_to(lease, ("Lease", "kube-system", Some("l"), None));
        assert_leads_to("/api/v1/nodes/a%2Bb", ("Node", "", Some("a+b"), None));
    }

    #[test]
    fn paths_that_the_real_server_does_not_know_are_not_found() {
        for path in
            ["/", "/api/v2/nodes", "/api/v1/gnomes", "/api/v1/namespaces/x/nodes/a", "/api/v1/services/s"]
        {
            assert_eq!(target(path).map_err(|e| e.code), Err(404), "{path}");
        }
    }

    #[test]
    fn a_watch_is_a_list_with_a_parameter() {
        let nodes = target("/api/v1/nodes").unwrap();
        let verb_of = |query| verb(&Method::GET, &nodes, &parameters(Some(query))).unwrap();
        assert_eq!(verb_of("&watch=true&resourceVersion=5"), Verb::Watch);
        assert_eq!(verb_of("limit=5"), Verb::List);
    }
}
