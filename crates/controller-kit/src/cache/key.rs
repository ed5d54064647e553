//! The name under which an object is cached and queued.

use std::fmt;

/// Namespace and name; cluster-scoped objects have no namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    namespace: Option<Box<str>>,
    name: Box<str>,
}

impl Key {
    /// The key of a cluster-scoped object.
    pub fn cluster(name: impl Into<Box<str>>) -> Self {
        Self { namespace: None, name: name.into() }
    }

    /// The key of an object in a namespace.
    pub fn namespaced(namespace: impl Into<Box<str>>, name: impl Into<Box<str>>) -> Self {
        Self { namespace: Some(namespace.into()), name: name.into() }
    }

    /// The key of an object.
    pub fn of<K: kube::Resource>(object: &K) -> Self {
        let meta = object.meta();
        let namespace = meta.namespace.as_deref().filter(|namespace| !namespace.is_empty());
        Self { namespace: namespace.map(Into::into), name: meta.name.as_deref().unwrap_or_default().into() }
    }

    /// The namespace, unless the object belongs to the cluster.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// `namespace/name`, or `name`.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}
