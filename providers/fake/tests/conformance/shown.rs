//! The fake cloud's own data in the suite's words.

use std::collections::BTreeSet;

use cloud_provider::load_balancer::Protocol;
use provider_fake::objects::{self, Balancer, Machine};
use provider_fake::{Effect, Fault as Armed};
use serde::Serialize;
use testkit::conformance::stand_in::{
    Aim, Balancer as Shown, Calls, Contents, Detail, Fault, Instance, Object, Route, Volume,
};

/// An instance as the cloud's console shows it.
pub(crate) fn instance(machine: &Machine) -> Instance {
    Instance {
        provider_id: format!("{}://{}", provider_fake::NAME, machine.id),
        name: machine.name.clone(),
        instance_type: machine.instance_type.clone(),
        zone: machine.zone.clone(),
        region: machine.region.clone(),
        addresses: machine.addresses.clone(),
    }
}

/// Everything in the cloud.
pub(crate) fn contents(world: &provider_fake::Contents) -> Contents {
    let addresses = world.addresses.iter().map(|address| object("address", address, Detail::Part));
    let balancers = world.balancers.iter().map(|balancer| {
        // The cloud counts this down by itself.
        let still = Balancer { pending_for: None, ..balancer.clone() };
        object("load balancer", &still, Detail::Balancer(shown(balancer, &world.machines)))
    });
    let routes = world.routes.iter().map(|route| {
        let detail = Route { destination: route.destination, node: route.node.clone() };
        object("route", route, Detail::Route(detail))
    });
    let volumes = world.disks.iter().map(|disk| {
        let holders = disk.attached.iter().map(|(machine, _)| name_of(machine, &world.machines)).collect();
        object("volume", disk, Detail::Volume(Volume { bytes: disk.bytes, attached_to: holders }))
    });
    Contents { objects: addresses.chain(balancers).chain(routes).chain(volumes).collect() }
}

fn object<T: objects::Object + Serialize>(kind: &str, object: &T, detail: Detail) -> Object {
    Object {
        kind: kind.to_owned(),
        id: object.id().to_owned(),
        name: object.name().to_owned(),
        tags: Some(object.tags().clone()),
        detail,
        bytes: serde_json::to_string(object).unwrap(),
    }
}

fn shown(balancer: &Balancer, machines: &[Machine]) -> Shown {
    let listeners = balancer.settings.listeners.iter().map(|listener| {
        let protocol = match listener.protocol.as_str() {
            "UDP" => Protocol::Udp,
            "SCTP" => Protocol::Sctp,
            _ => Protocol::Tcp,
        };
        (protocol, listener.port, listener.node_port)
    });
    Shown {
        addresses: balancer.addresses.values().map(ToString::to_string).collect(),
        listeners: listeners.collect(),
        backends: balancer.backends.iter().map(|id| name_of(id, machines)).collect::<BTreeSet<_>>(),
        source_ranges: balancer.settings.source_ranges.clone(),
        affinity: balancer.settings.affinity_seconds,
    }
}

/// The name of an instance; volumes are attached by it in the first place.
fn name_of(id: &str, machines: &[Machine]) -> String {
    let machine = machines.iter().find(|machine| machine.id == id || machine.name == id);
    machine.map_or_else(|| format!("no instance has the ID {id}"), |machine| machine.name.clone())
}

/// A fault of the suite as the fake cloud spells it.
pub(crate) fn fault(fault: Fault, aim: Aim) -> Armed {
    let calls = match aim.calls {
        Calls::Reads => "reads",
        Calls::Writes => "writes",
        Calls::All => "*",
    };
    let armed = match fault {
        Fault::Unauthorized => Armed::new(calls, Effect::Unauthorized),
        Fault::Forbidden => Armed::new(calls, Effect::Forbidden),
        Fault::Throttled(after) => Armed { after, ..Armed::new(calls, Effect::Throttle) },
        Fault::LostAnswer => Armed::new(calls, Effect::LoseAnswer),
        Fault::Hangs => Armed::new(calls, Effect::Hang),
        Fault::QuotaExceeded => Armed::new(calls, Effect::Quota),
        Fault::TruncatedList => Armed::new("list_*", Effect::Fail).on_page(2),
        Fault::EmptyInventory => Armed::new("list_instances", Effect::Empty),
        Fault::Unavailable | Fault::TimesOut | Fault::Unreadable => Armed::new(calls, Effect::Fail),
    };
    Armed { skip: aim.after, times: aim.times, ..armed }
}
