//! Balancers that are not what the Service asks for.

use std::collections::BTreeSet;
use std::sync::Mutex;

use async_trait::async_trait;
use cloud_provider::load_balancer::{Agreement, Description, Identity, Observed, Spec};
use cloud_provider::{Changes, Decision, Error, LoadBalancers, Permit};
use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus};
use provider_fake::objects::{Address, Balancer, BalancerUpdate, NewAddress, NewBalancer, Settings};
use provider_fake::{Api, ApiError, Filter, Listed};

use super::between::Bend;
use super::gate::ajar;
use super::outside::Twist;
use super::{Flaw, between, outside};

type Status = Result<LoadBalancerStatus, Error>;
type Seen = Result<Option<Observed>, Error>;

pub(crate) fn flaws() -> Vec<Flaw> {
    let mut flaws = seen();
    flaws.extend(ensured());
    flaws.extend(updated());
    flaws
}

fn seen() -> Vec<Flaw> {
    vec![
        outside(
            "sees what is not there",
            "get_of_nothing_is_nothing",
            See(|seen| seen.or_else(|| Some(nothing()))),
        ),
        outside(
            "always sees a difference",
            "get_agrees_after_ensure",
            See(|seen| {
                seen.map(|seen| Observed { agreement: Agreement::Different(vec!["all".into()]), ..seen })
            }),
        ),
        outside(
            "never sees a difference",
            "drift_is_seen_and_repaired",
            See(|seen| seen.map(|seen| Observed { agreement: Agreement::Same, ..seen })),
        ),
        outside("repairs while it looks", "get_changes_nothing", LooksAndRepairs),
        outside(
            "remembers what was there once",
            "a_vanished_balancer_is_noticed_and_made_again",
            Nostalgic::default(),
        ),
        outside(
            "names balancers after the Service's name",
            "the_name_depends_on_the_service_alone",
            NamesByName,
        ),
        outside("describes no annotation", "the_descriptions_are_complete", Wordless),
    ]
}

fn ensured() -> Vec<Flaw> {
    vec![
        outside(
            "spells the ipMode wrongly",
            "the_status_is_well_formed",
            Tell(|ingress| {
                ingress.ip_mode = Some("vip".to_owned());
            }),
        ),
        outside(
            "tells an address of its own",
            "the_status_tells_the_addresses_that_the_cloud_gave",
            Tell(|ingress| {
                ingress.ip = Some("192.0.2.99".to_owned());
            }),
        ),
        outside("makes it anew each time", "ensure_twice_is_one_balancer", Anew),
        outside("makes one balancer for all", "two_services_get_two_balancers", OneForAll),
        outside("makes none without nodes", "a_balancer_without_nodes_is_made", WantsNodes),
        outside("waits for the cloud", "pending_work_is_not_waited_for", Waits),
        outside("serves the first family alone", "both_families_get_an_address", FirstFamily),
        between("forgets a port", "ensure_makes_what_the_service_asks_for", ForgetsAPort),
        between("makes a second one while lists lag", "a_list_that_lags_makes_no_second_balancer", Tokenless),
        between("makes TCP of everything", "udp_ports_are_served", TcpAlone),
    ]
}

fn updated() -> Vec<Flaw> {
    let keep = |name, caught_by, keep: fn(&Settings, &mut Settings)| between(name, caught_by, Keeps(keep));
    vec![
        keep("adds ports to the old ones", "changed_ports_replace_the_old_ones", |old, new| {
            new.listeners.extend(old.listeners.clone());
        }),
        keep("keeps the first node port", "changed_node_ports_are_followed", |old, new| {
            for listener in &mut new.listeners {
                let known = old.listeners.iter().find(|each| each.port == listener.port);
                listener.node_port = known.map_or(listener.node_port, |known| known.node_port);
            }
        }),
        keep("keeps source ranges", "source_ranges_are_set_changed_and_removed", |old, new| {
            new.source_ranges.extend(old.source_ranges.clone());
        }),
        keep("keeps affinity", "affinity_is_set_and_removed", |old, new| {
            new.affinity_seconds = new.affinity_seconds.or(old.affinity_seconds);
        }),
        keep("keeps what an annotation set", "a_removed_annotation_takes_its_setting_with_it", |old, new| {
            new.idle_seconds = new.idle_seconds.or(old.idle_seconds);
        }),
        between("adds backends to the old ones", "ensure_replaces_the_backends_exactly", Appends),
        between("ignores backends", "update_replaces_the_backends_exactly", Ignores),
        outside("ensures when it should update", "update_changes_nothing_but_backends", UpdatesAll),
        outside("updates what is the same", "update_to_the_same_backends_writes_nothing", Restless),
        outside("updates what is gone", "update_of_a_vanished_balancer_is_not_found", Careless),
    ]
}

fn nothing() -> Observed {
    Observed { status: LoadBalancerStatus::default(), agreement: Agreement::Untold }
}

struct See(fn(Option<Observed>) -> Option<Observed>);

#[async_trait]
impl Twist for See {
    async fn get(&self, inner: &dyn LoadBalancers, spec: &Spec) -> Seen {
        inner.get(spec).await.map(self.0)
    }
}

struct LooksAndRepairs;

#[async_trait]
impl Twist for LooksAndRepairs {
    async fn get(&self, inner: &dyn LoadBalancers, spec: &Spec) -> Seen {
        let seen = inner.get(spec).await?;
        if seen.is_some() {
            inner.ensure(spec, &Changes::through(ajar())).await?;
        }
        Ok(seen)
    }
}

#[derive(Default)]
struct Nostalgic(Mutex<Option<Observed>>);

#[async_trait]
impl Twist for Nostalgic {
    async fn ensure(&self, inner: &dyn LoadBalancers, spec: &Spec, changes: &Changes) -> Status {
        let status = inner.ensure(spec, changes).await?;
        let seen = inner.get(spec).await?;
        *self.0.lock().unwrap() = seen;
        Ok(status)
    }

    async fn get(&self, inner: &dyn LoadBalancers, spec: &Spec) -> Seen {
        let seen = inner.get(spec).await?;
        Ok(self.0.lock().unwrap().clone().or(seen))
    }
}

struct NamesByName;

impl Twist for NamesByName {
    fn name(&self, _: &dyn LoadBalancers, identity: &Identity) -> String {
        format!("{}-{}", identity.namespace, identity.name)
    }
}

struct Wordless;

impl Twist for Wordless {
    fn describe(&self, inner: &dyn LoadBalancers) -> Description {
        inner.describe().reading(&[])
    }
}

struct Tell(fn(&mut LoadBalancerIngress));

#[async_trait]
impl Twist for Tell {
    async fn ensure(&self, inner: &dyn LoadBalancers, spec: &Spec, changes: &Changes) -> Status {
        let mut status = inner.ensure(spec, changes).await?;
        status.ingress.iter_mut().flatten().for_each(self.0);
        Ok(status)
    }
}

struct Anew;

#[async_trait]
impl Twist for Anew {
    async fn ensure(&self, inner: &dyn LoadBalancers, spec: &Spec, changes: &Changes) -> Status {
        inner.delete(&spec.identity, None, changes).await?;
        inner.ensure(spec, changes).await
    }
}

struct OneForAll;

#[async_trait]
impl Twist for OneForAll {
    async fn ensure(&self, inner: &dyn LoadBalancers, spec: &Spec, changes: &Changes) -> Status {
        let mut spec = spec.clone();
        "00000000-0000-4000-8000-000000000000".clone_into(&mut spec.identity.uid);
        inner.ensure(&spec, changes).await
    }
}

struct FirstFamily;

#[async_trait]
impl Twist for FirstFamily {
    async fn ensure(&self, inner: &dyn LoadBalancers, spec: &Spec, changes: &Changes) -> Status {
        let mut spec = spec.clone();
        spec.families.truncate(1);
        inner.ensure(&spec, changes).await
    }
}

struct WantsNodes;

#[async_trait]
impl Twist for WantsNodes {
    async fn ensure(&self, inner: &dyn LoadBalancers, spec: &Spec, changes: &Changes) -> Status {
        if spec.nodes.is_empty() {
            return Err(Error::invalid_config("there are no nodes"));
        }
        inner.ensure(spec, changes).await
    }
}

struct Waits;

#[async_trait]
impl Twist for Waits {
    async fn ensure(&self, inner: &dyn LoadBalancers, spec: &Spec, changes: &Changes) -> Status {
        loop {
            match inner.ensure(spec, changes).await {
                Err(error) => match error.decision() {
                    Decision::RetryAfter { after } => tokio::time::sleep(*after).await,
                    _ => return Err(error),
                },
                done => return done,
            }
        }
    }
}

struct ForgetsAPort;

#[async_trait]
impl Bend for ForgetsAPort {
    async fn create_load_balancer(
        &self,
        api: &dyn Api,
        new: &NewBalancer,
        permit: &Permit,
    ) -> Result<Balancer, ApiError> {
        let mut new = new.clone();
        new.settings.listeners.pop();
        api.create_load_balancer(&new, permit).await
    }
}

/// Makes everything without a token, and finds nothing by one.
struct Tokenless;

#[async_trait]
impl Bend for Tokenless {
    async fn list_load_balancers(
        &self,
        api: &dyn Api,
        filter: &Filter,
        page: Option<&str>,
    ) -> Result<Listed<Balancer>, ApiError> {
        if matches!(filter, Filter::Token(_)) {
            return Ok(Listed { items: Vec::new(), next: None });
        }
        api.list_load_balancers(filter, page).await
    }

    async fn create_load_balancer(
        &self,
        api: &dyn Api,
        new: &NewBalancer,
        permit: &Permit,
    ) -> Result<Balancer, ApiError> {
        api.create_load_balancer(&NewBalancer { token: None, ..new.clone() }, permit).await
    }

    async fn create_address(
        &self,
        api: &dyn Api,
        new: &NewAddress,
        permit: &Permit,
    ) -> Result<Address, ApiError> {
        api.create_address(&NewAddress { token: None, ..new.clone() }, permit).await
    }
}

struct TcpAlone;

#[async_trait]
impl Bend for TcpAlone {
    async fn create_load_balancer(
        &self,
        api: &dyn Api,
        new: &NewBalancer,
        permit: &Permit,
    ) -> Result<Balancer, ApiError> {
        let mut new = new.clone();
        new.settings.listeners.iter_mut().for_each(|listener| "TCP".clone_into(&mut listener.protocol));
        api.create_load_balancer(&new, permit).await
    }
}

/// Keeps something of the old settings in the new ones.
struct Keeps(fn(&Settings, &mut Settings));

#[async_trait]
impl Bend for Keeps {
    async fn update_load_balancer(
        &self,
        api: &dyn Api,
        id: &str,
        update: &BalancerUpdate,
        permit: &Permit,
    ) -> Result<Balancer, ApiError> {
        let old = api.get_load_balancer(id).await?;
        let mut update = update.clone();
        (self.0)(&old.settings, &mut update.settings);
        api.update_load_balancer(id, &update, permit).await
    }
}

struct Appends;

#[async_trait]
impl Bend for Appends {
    async fn set_backends(
        &self,
        api: &dyn Api,
        id: &str,
        backends: &BTreeSet<String>,
        permit: &Permit,
    ) -> Result<Balancer, ApiError> {
        let old = api.get_load_balancer(id).await?;
        api.set_backends(id, &old.backends.union(backends).cloned().collect(), permit).await
    }
}

struct Ignores;

#[async_trait]
impl Bend for Ignores {
    async fn set_backends(
        &self,
        api: &dyn Api,
        id: &str,
        _: &BTreeSet<String>,
        _: &Permit,
    ) -> Result<Balancer, ApiError> {
        api.get_load_balancer(id).await
    }
}

struct UpdatesAll;

#[async_trait]
impl Twist for UpdatesAll {
    async fn update_backends(
        &self,
        inner: &dyn LoadBalancers,
        spec: &Spec,
        changes: &Changes,
    ) -> Result<(), Error> {
        inner.ensure(spec, changes).await.map(drop)
    }
}

struct Restless;

#[async_trait]
impl Twist for Restless {
    async fn update_backends(
        &self,
        inner: &dyn LoadBalancers,
        spec: &Spec,
        changes: &Changes,
    ) -> Result<(), Error> {
        let mut nobody = spec.clone();
        nobody.nodes.clear();
        inner.update_backends(&nobody, changes).await?;
        inner.update_backends(spec, changes).await
    }
}

struct Careless;

#[async_trait]
impl Twist for Careless {
    async fn update_backends(
        &self,
        inner: &dyn LoadBalancers,
        spec: &Spec,
        changes: &Changes,
    ) -> Result<(), Error> {
        match inner.update_backends(spec, changes).await {
            Err(error) if error.decision() == &Decision::NotFound => Ok(()),
            other => other,
        }
    }
}
