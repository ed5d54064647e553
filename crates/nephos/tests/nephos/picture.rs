//! What a cluster and its cloud look like, field by field, in words that are the same in every run: what the API server
//! or the cloud chose (UIDs, IDs, addresses, networks) is called by whom it belongs to, and times are left out.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Namespace, Node, Service};
use kube::api::ListParams;
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde_json::{Value, json};

use crate::scene::Scene;

/// What every write changes, or the time at which it came.
const VARYING: [&str; 8] = [
    "creationTimestamp",
    "generation",
    "lastHeartbeatTime",
    "lastTransitionTime",
    "managedFields",
    "resourceVersion",
    "timeAdded",
    "selfLink",
];

/// The objects by kind and name; two of one name stand together, so that none is lost.
pub(crate) type Picture = BTreeMap<String, Vec<Value>>;

/// Takes the picture.
pub(crate) async fn picture(scene: &Scene, client: &kube::Client) -> Picture {
    let all = ListParams::default();
    let system = Api::<Namespace>::all(client.clone()).get("kube-system").await.expect("reading a namespace");
    let nodes = Api::<Node>::all(client.clone()).list(&all).await.expect("listing nodes").items;
    let services = Api::<Service>::all(client.clone()).list(&all).await.expect("listing services").items;
    let services: Vec<Service> =
        services.into_iter().filter(|service| service.name_any() != "kubernetes").collect();
    let contents = scene.world.contents();

    let mut words = Words::default();
    words.identified(&system, "the cluster");
    for node in &nodes {
        let name = node.name_any();
        words.identified(node, &name);
        let spec = node.spec.clone().unwrap_or_default();
        for cidr in spec.pod_cidr.into_iter().chain(spec.pod_cidrs.unwrap_or_default()) {
            // It is also part of the names of routes.
            words.parts.push((cidr, format!("<network of {name}>")));
        }
    }
    for service in &services {
        let name = service.name_any();
        words.identified(service, &name);
        let status = service.status.clone().and_then(|status| status.load_balancer);
        for ingress in status.and_then(|status| status.ingress).unwrap_or_default() {
            words.call(&ingress.ip.unwrap_or_default(), format!("<address of {name}>"));
        }
    }
    for (id, name) in (contents.balancers.iter().map(|each| (&each.id, &each.name)))
        .chain(contents.addresses.iter().map(|each| (&each.id, &each.name)))
        .chain(contents.routes.iter().map(|each| (&each.id, &each.name)))
    {
        let name = words.word(name);
        words.call(id, format!("<ID of {name}>"));
    }

    let nodes = nodes.iter().map(|node| ("node", node.name_any(), value(node)));
    let services = services.iter().map(|service| ("service", service.name_any(), value(service)));
    let mut shown: Vec<(&str, String, Value)> = nodes.chain(services).collect();
    shown.extend(contents.machines.iter().map(|each| ("machine", each.name.clone(), value(each))));
    shown.extend(contents.addresses.iter().map(|each| ("address", each.name.clone(), value(each))));
    shown.extend(contents.balancers.iter().map(|each| ("balancer", each.name.clone(), value(each))));
    shown.extend(contents.routes.iter().map(|each| ("route", each.name.clone(), value(each))));
    shown.extend(contents.disks.iter().map(|each| ("disk", each.name.clone(), value(each))));
    let mut picture = Picture::new();
    for (kind, name, object) in shown {
        picture.entry(format!("{kind} {}", words.word(&name))).or_default().push(words.told(object));
    }
    picture
}

/// What is in one picture and not in the other; nothing if they are the same.
pub(crate) fn differences(expected: &Picture, found: &Picture) -> Vec<String> {
    let keys: std::collections::BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
    keys.into_iter()
        .filter(|key| expected.get(*key) != found.get(*key))
        .map(|key| {
            let shown = |picture: &Picture| json!(picture.get(key)).to_string();
            format!("{key}\n  expected {}\n  found    {}", shown(expected), shown(found))
        })
        .collect()
}

fn value(object: &impl Serialize) -> Value {
    serde_json::to_value(object).expect("an object")
}

/// How what was chosen for this run is called.
#[derive(Default)]
struct Words {
    whole: BTreeMap<String, String>,
    parts: Vec<(String, String)>,
}

impl Words {
    fn call(&mut self, chosen: &str, word: String) {
        if !chosen.is_empty() {
            self.whole.insert(chosen.to_owned(), word);
        }
    }

    /// A UID is also part of names and tags, and the name of a balancer is made of its digits.
    fn identified(&mut self, object: &impl Resource, name: &str) {
        let uid = object.meta().uid.clone().expect("a UID");
        let digits: String = uid.chars().filter(|c| *c != '-').take(31).collect();
        self.parts.push((uid, format!("<UID of {name}>")));
        self.parts.push((digits, format!("<digits of {name}>")));
    }

    fn word(&self, text: &str) -> String {
        let whole = self.whole.get(text).cloned();
        whole.unwrap_or_else(|| {
            self.parts.iter().fold(text.to_owned(), |text, (part, word)| text.replace(part.as_str(), word))
        })
    }

    fn told(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.word(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.told(item)).collect(),
            Value::Object(fields) => fields
                .into_iter()
                .filter(|(key, _)| !VARYING.contains(&key.as_str()))
                .map(|(key, value)| (self.word(&key), self.told(value)))
                .collect(),
            other => other,
        }
    }
}
