//! One bulk look-up: all pages of the inventory, then one answer per node.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use cloud_provider::{
    Doubt, Error, Evidence, Existence, Freshness, Instance, Instances, NodeRef, Power, ProviderId, Snapshot,
};

use super::{NAME, ProviderSettings, adoption};
use crate::api::{Api, ApiError};
use crate::objects::Machine;

pub(super) struct FakeInstances {
    api: Arc<dyn Api>,
    settings: Arc<ProviderSettings>,
    /// What was adopted already, by ID: the cloud is told only of what is new.
    adopted: Mutex<BTreeMap<String, Machine>>,
}

impl FakeInstances {
    pub(super) fn new(api: Arc<dyn Api>, settings: Arc<ProviderSettings>) -> Self {
        Self { api, settings, adopted: Mutex::default() }
    }

    async fn adopt(&self, nodes: &[NodeRef]) -> Result<(), Error> {
        if !self.settings.adopt {
            return Ok(());
        }
        let machines = nodes.iter().filter_map(|node| adoption::machine_for(node, &self.settings));
        let new: Vec<Machine> = {
            let adopted = self.adopted.lock().unwrap_or_else(PoisonError::into_inner);
            machines.filter(|machine| adopted.get(&machine.id) != Some(machine)).collect()
        };
        if new.is_empty() {
            return Ok(());
        }
        self.api.adopt(&new).await.map_err(|error| error.during(format!("adopting {} nodes", new.len())))?;
        let mut adopted = self.adopted.lock().unwrap_or_else(PoisonError::into_inner);
        adopted.extend(new.into_iter().map(|machine| (machine.id.clone(), machine)));
        Ok(())
    }

    /// The whole inventory. A failure of the first page is an error; later ones leave a list that proves presence only.
    async fn inventory(&self) -> Result<Snapshot, ApiError> {
        let mut seen = Snapshot::new(NAME);
        let mut token: Option<String> = None;
        loop {
            let listed = match self.api.list_instances(token.as_deref()).await {
                Ok(listed) => listed,
                Err(error) if token.is_none() => return Err(error),
                Err(error) => {
                    seen.mark_incomplete(format!("after {} instances, {error}", seen.len()));
                    return Ok(seen);
                }
            };
            for machine in listed.items {
                record(&mut seen, machine);
            }
            match listed.next {
                None => return Ok(seen),
                next if next == token => {
                    seen.mark_incomplete("a page of it names itself as the next");
                    return Ok(seen);
                }
                next => token = next,
            }
        }
    }

    /// Asks for one instance by its ID, which no list can get wrong.
    async fn confirm(&self, id: &str) -> Existence {
        let asked = format!("GET /v1/instances/{id}");
        match self.api.get_instance(id).await {
            Ok(machine) => match instance(machine) {
                Ok(found) => Existence::Found(Box::new(found)),
                Err(why) => Existence::Unknown(Doubt::BadProviderId(why)),
            },
            Err(ApiError::NotFound { .. }) => Existence::Absent(Evidence::NotFound { asked }),
            Err(error) => Existence::Unknown(Doubt::Failed(error.during(asked))),
        }
    }
}

#[async_trait]
impl Instances for FakeInstances {
    async fn lookup(&self, nodes: &[NodeRef], freshness: Freshness) -> Result<Vec<Existence>, Error> {
        if nodes.is_empty() {
            return Ok(Vec::new());
        }
        self.adopt(nodes).await?;
        let attempt = || format!("listing instances for {} nodes", nodes.len());
        let seen = self.inventory().await.map_err(|error| error.during(attempt()))?;
        let mut answers = seen.answers(nodes);
        // Lists lag behind: what is missing from one may be young. An answer that can cost a Node its life is worth a
        // call of its own; there are few of them.
        for (answer, node) in answers.iter_mut().zip(nodes) {
            let id = node.provider_id.as_deref().and_then(|id| id.parse::<ProviderId>().ok());
            if let (Freshness::Now, Existence::Absent(_), Some(id)) = (freshness, &*answer, id) {
                *answer = self.confirm(id.rest()).await;
            }
        }
        Ok(answers)
    }

    async fn list(&self) -> Result<Option<Snapshot>, Error> {
        self.inventory().await.map(Some).map_err(|error| error.during("listing all instances"))
    }
}

fn record(seen: &mut Snapshot, machine: Machine) {
    let name = machine.name.clone();
    match instance(machine) {
        Ok(instance) => seen.insert(instance, [name]),
        Err(why) => seen.mark_incomplete(why),
    }
}

fn instance(machine: Machine) -> Result<Instance, String> {
    let id = ProviderId::new(NAME, &machine.id).map_err(|error| error.to_string())?;
    let mut instance = Instance::new(id)
        .of_type(machine.instance_type)
        .located(machine.zone, machine.region)
        .power(if machine.stopped { Power::Off } else { Power::On });
    for (type_, address) in machine.addresses {
        instance = instance.address(&type_, address);
    }
    for (key, value) in machine.labels {
        instance = instance.label(key, value);
    }
    Ok(instance)
}
