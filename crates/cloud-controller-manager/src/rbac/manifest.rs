//! Rights as the YAML of roles and bindings, for `kubectl apply`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cloud_provider::well_known::leases;

use super::{Grant, Grants, MANAGER};

/// The order in which people read verbs.
const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// Roles and bindings for the manager's service account, and for those of its controllers.
pub fn manifest(grants: &Grants, account: &str, namespace: &str) -> String {
    let mut text = String::new();
    for (who, granted) in grants {
        let (name, account, home) = match *who {
            MANAGER => (format!("system:{account}"), account, namespace),
            controller => (format!("system:{account}:{controller}"), controller, leases::NAMESPACE),
        };
        let mut places: BTreeMap<Option<&str>, Vec<&Grant>> = BTreeMap::new();
        for grant in granted {
            places.entry(grant.namespace.as_deref()).or_default().push(grant);
        }
        for (place, grants) in places {
            role(&mut text, &name, place, &grants);
            binding(&mut text, &name, place, account, home);
        }
    }
    text
}

fn role(text: &mut String, name: &str, namespace: Option<&str>, grants: &[&Grant]) {
    let kind = if namespace.is_some() { "Role" } else { "ClusterRole" };
    head(text, kind, name, namespace);
    text.push_str("rules:\n");
    for (key, verbs) in merged(grants) {
        let _ = writeln!(text, "- apiGroups: [{:?}]\n  resources: [{:?}]", key.group, key.resource);
        if let Some(name) = key.name {
            let _ = writeln!(text, "  resourceNames: [{name:?}]");
        }
        let verbs: Vec<String> = verbs.iter().map(|verb| format!("{verb:?}")).collect();
        let _ = writeln!(text, "  verbs: [{}]", verbs.join(", "));
    }
}

fn binding(text: &mut String, role: &str, namespace: Option<&str>, account: &str, home: &str) {
    let (kind, of) =
        if namespace.is_some() { ("RoleBinding", "Role") } else { ("ClusterRoleBinding", "ClusterRole") };
    head(text, kind, role, namespace);
    let _ = writeln!(text, "roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: {of}\n  name: {role:?}");
    let _ = writeln!(text, "subjects:\n- kind: ServiceAccount\n  name: {account:?}\n  namespace: {home:?}");
}

fn head(text: &mut String, kind: &str, name: &str, namespace: Option<&str>) {
    let _ = writeln!(
        text,
        "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata:\n  name: {name:?}"
    );
    if let Some(namespace) = namespace {
        let _ = writeln!(text, "  namespace: {namespace:?}");
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    group: &'a str,
    resource: &'a str,
    name: Option<&'a str>,
}

/// One rule per thing, with all its verbs.
fn merged<'a>(grants: &[&'a Grant]) -> BTreeMap<Key<'a>, Vec<&'static str>> {
    let mut rules: BTreeMap<Key<'a>, Vec<&'static str>> = BTreeMap::new();
    for grant in grants {
        let key =
            Key { group: grant.right.group, resource: grant.right.resource, name: grant.name.as_deref() };
        let verbs = rules.entry(key).or_default();
        verbs.extend(grant.right.verbs);
        verbs.sort_by_key(|verb| VERBS.iter().position(|known| known == verb));
        verbs.dedup();
    }
    rules
}
