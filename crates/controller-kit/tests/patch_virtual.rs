//! Finalizer patches on the API server in virtual time, in every interleaving with other controllers.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::BTreeSet;

use controller_kit::patch::service::{add_finalizer, remove_finalizer};
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use proptest::prelude::*;
use testkit::{ApiServer, Verb, service};

const OURS: &str = "service.kubernetes.io/load-balancer-cleanup";

/// One step in the life of a Service on which several controllers keep finalizers.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// We read the Service: our copy is as old as this from now on.
    Read,
    Add,
    Remove,
    ForeignAdd(u8),
    ForeignRemove(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Read),
        Just(Step::Add),
        Just(Step::Remove),
        (0..3_u8).prop_map(Step::ForeignAdd),
        (0..3_u8).prop_map(Step::ForeignRemove),
    ]
}

fn finalizers(service: &Service) -> BTreeSet<String> {
    service.metadata.finalizers.iter().flatten().cloned().collect()
}

async fn life(steps: Vec<Step>) {
    let server = ApiServer::new(1);
    let services: Api<Service> = Api::default_namespaced(server.client());
    let mut copy = server.create(&service("web").load_balancer().port(80).build());
    let (mut theirs, mut ours, mut writes) = (BTreeSet::new(), false, 0);
    for step in steps {
        let patch = match step {
            Step::Read => {
                copy = server.get("default", "web").unwrap();
                None
            }
            Step::Add => add_finalizer(&copy, OURS).inspect(|_| ours = true),
            Step::Remove => remove_finalizer(&copy, OURS).inspect(|_| ours = false),
            Step::ForeignAdd(id) | Step::ForeignRemove(id) => {
                let name = format!("them.io/{id}");
                let present = matches!(step, Step::ForeignAdd(_));
                if present {
                    theirs.insert(name.clone())
                } else {
                    theirs.remove(&name)
                };
                server.modify("default", "web", |service: &mut Service| {
                    let list = service.metadata.finalizers.get_or_insert_default();
                    list.retain(|other| *other != name);
                    list.extend(present.then_some(name));
                });
                None
            }
        };
        if let Some(patch) = patch {
            patch.apply(&services, "web").await.unwrap();
            writes += 1;
        }
        let mut expected = theirs.clone();
        expected.extend(ours.then(|| OURS.to_owned()));
        assert_eq!(finalizers(&server.get("default", "web").unwrap()), expected);
    }
    let sent = server.requests().verb(Verb::Patch);
    assert_eq!((sent.count(), sent.clone().subresource("status").count()), (writes, writes));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn foreign_finalizers_survive_whatever_our_copy_is_worth(steps in prop::collection::vec(step(), 0..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(life(steps));
    }
}
