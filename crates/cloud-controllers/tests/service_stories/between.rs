//! Stands between the controller and the fake cloud: answers what that cloud never would, and watches that no two calls
//! for one load balancer are under way at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use cloud_provider::load_balancer::{Description, Family, Feature, Identity, Observed, Owned, Spec};
use cloud_provider::{Changes, ClusterIdentity, Error, LoadBalancers};
use k8s_openapi::api::core::v1::{LoadBalancerStatus, Service};
use tokio::time::Instant;

/// What comes instead of the cloud's answer.
pub(crate) enum Instead {
    Error(Error),
    Status(LoadBalancerStatus),
    Panic,
}

/// The script and the record; clones share them.
#[derive(Clone, Default)]
pub(crate) struct Script(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    instead: BTreeMap<&'static str, VecDeque<Instead>>,
    always: BTreeMap<&'static str, fn() -> Error>,
    missing: BTreeSet<Feature>,
    calls: Vec<(&'static str, String, Instant)>,
    /// The pods that the last call for a Service was given for its first port; `None` if it was given none at all.
    pods: BTreeMap<String, Option<Vec<String>>>,
    under_way: BTreeSet<String>,
    overlaps: Vec<String>,
}

impl Script {
    /// The next call of this name gets this instead of an answer.
    pub(crate) fn once(&self, call: &'static str, instead: Instead) {
        self.0.lock().unwrap().instead.entry(call).or_default().push_back(instead);
    }

    /// Every call of this name gets this error.
    pub(crate) fn always(&self, call: &'static str, error: fn() -> Error) {
        self.0.lock().unwrap().always.insert(call, error);
    }

    /// From now on every call reaches the cloud.
    pub(crate) fn clear(&self) {
        let mut state = self.0.lock().unwrap();
        state.instead.clear();
        state.always.clear();
    }

    /// The provider does not have this feature.
    pub(crate) fn lacks(&self, feature: Feature) {
        self.0.lock().unwrap().missing.insert(feature);
    }

    /// How many calls of this name were made.
    pub(crate) fn count(&self, call: &str) -> usize {
        self.0.lock().unwrap().calls.iter().filter(|(made, ..)| *made == call).count()
    }

    /// The calls that were made for a Service, with their times.
    pub(crate) fn calls_for(&self, name: &str) -> Vec<(&'static str, Instant)> {
        let state = self.0.lock().unwrap();
        state
            .calls
            .iter()
            .filter(|(_, service, _)| service == name)
            .map(|(call, _, at)| (*call, *at))
            .collect()
    }

    /// The pods that the last change of a Service's load balancer was given.
    pub(crate) fn pods_of(&self, name: &str) -> Option<Vec<String>> {
        self.0.lock().unwrap().pods.get(name).cloned().flatten()
    }

    fn note_pods(&self, spec: &Spec) {
        let pods = spec.endpoints.as_ref().map(|endpoints| {
            let behind = endpoints.behind(&spec.ports[0], Family::V4).into_iter();
            behind.map(|pod| format!("{}:{}", pod.address, pod.port)).collect()
        });
        self.0.lock().unwrap().pods.insert(spec.identity.name.clone(), pods);
    }

    /// Forgets the calls so far.
    pub(crate) fn forget(&self) {
        self.0.lock().unwrap().calls.clear();
    }

    /// Calls for one load balancer that began while another for it was under way.
    pub(crate) fn overlaps(&self) -> Vec<String> {
        self.0.lock().unwrap().overlaps.clone()
    }

    fn begins(&self, call: &'static str, identity: &Identity) -> (Option<Instead>, UnderWay) {
        let mut state = self.0.lock().unwrap();
        state.calls.push((call, identity.name.clone(), Instant::now()));
        if !state.under_way.insert(identity.uid.clone()) {
            let overlap = format!("{call} for {}/{}", identity.namespace, identity.name);
            state.overlaps.push(overlap);
        }
        let always = state.always.get(call).map(|error| Instead::Error(error()));
        let instead = state.instead.get_mut(call).and_then(VecDeque::pop_front).or(always);
        (instead, UnderWay { script: self.clone(), uid: identity.uid.clone() })
    }
}

struct UnderWay {
    script: Script,
    uid: String,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.script.0.lock().unwrap().under_way.remove(&self.uid);
    }
}

pub(crate) struct Between {
    pub(crate) inner: Arc<dyn LoadBalancers>,
    pub(crate) script: Script,
}

fn error<T>(instead: Instead) -> Result<T, Error> {
    match instead {
        Instead::Error(error) => Err(error),
        Instead::Status(_) => Err(Error::other("a status is no answer to this")),
        Instead::Panic => panic!("a bug in the provider"),
    }
}

#[async_trait]
impl LoadBalancers for Between {
    fn describe(&self) -> Description {
        let mut description = self.inner.describe();
        let missing = self.script.0.lock().unwrap().missing.clone();
        description.features.retain(|feature| !missing.contains(feature));
        description
    }

    async fn get(&self, spec: &Spec) -> Result<Option<Observed>, Error> {
        let (instead, _under_way) = self.script.begins("get", &spec.identity);
        match instead {
            Some(instead) => error(instead),
            None => self.inner.get(spec).await,
        }
    }

    async fn ensure(&self, spec: &Spec, changes: &Changes) -> Result<LoadBalancerStatus, Error> {
        let (instead, _under_way) = self.script.begins("ensure", &spec.identity);
        self.script.note_pods(spec);
        match instead {
            Some(Instead::Status(status)) => Ok(status),
            Some(instead) => error(instead),
            None => self.inner.ensure(spec, changes).await,
        }
    }

    async fn update_backends(&self, spec: &Spec, changes: &Changes) -> Result<(), Error> {
        let (instead, _under_way) = self.script.begins("update", &spec.identity);
        self.script.note_pods(spec);
        match instead {
            Some(instead) => error(instead),
            None => self.inner.update_backends(spec, changes).await,
        }
    }

    async fn delete(
        &self,
        identity: &Identity,
        service: Option<&Service>,
        changes: &Changes,
    ) -> Result<(), Error> {
        let (instead, _under_way) = self.script.begins("delete", identity);
        match instead {
            Some(instead) => error(instead),
            None => self.inner.delete(identity, service, changes).await,
        }
    }

    async fn list_owned(&self, cluster: &ClusterIdentity) -> Result<Vec<Owned>, Error> {
        self.inner.list_owned(cluster).await
    }
}
