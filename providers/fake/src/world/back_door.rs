//! The back door: what tests and the server's `/admin/` do to the world without being a client of it.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use cloud_provider::ownership::OWNER_TAG;
use cloud_provider::well_known::address_types::INTERNAL_IP;

use super::World;
use super::contents::{Contents, Stock};
use super::ledger::{Call, Counters, Rule, Violation};
use super::shelf::Origin;
use crate::fault::Fault;
use crate::objects::{Address, Balancer, Disk, Machine, Object, RouteEntry};

/// # Back door
impl World {
    /// Puts an instance there, as if somebody had just started it: lists may not show it for a while.
    pub fn add_machine(&self, machine: Machine) {
        let age = self.age();
        let mut state = self.state();
        let shown_from = age + state.stock.lag.new;
        state.stock.put_machine(machine, shown_from);
    }

    /// Makes instances of these, which lists show at once. One that is there is brought up to date but keeps its power
    /// state; one that was removed by [`World::remove_machine`] stays away. An instance without an address gets one.
    pub fn adopt(&self, machines: &[Machine]) {
        let stock = &mut self.state().stock;
        for machine in machines {
            if stock.removed.contains(&machine.id) {
                continue;
            }
            let mut machine = machine.clone();
            let known = stock.machines.get(&machine.id).ok().map(|kept| kept.value.clone());
            if let Some(known) = &known {
                machine.stopped = known.stopped;
            }
            if !machine.addresses.iter().any(|(type_, _)| type_ == INTERNAL_IP) {
                let kept = known
                    .and_then(|known| known.addresses.into_iter().find(|(type_, _)| type_ == INTERNAL_IP));
                let address =
                    kept.unwrap_or_else(|| (INTERNAL_IP.to_owned(), stock.machine_ip().to_string()));
                machine.addresses.insert(0, address);
            }
            stock.put_machine(machine, Duration::ZERO);
        }
    }

    /// Takes an instance away, by ID: routes to it become black holes, its volumes are free. Whether it was there.
    pub fn remove_machine(&self, id: &str) -> bool {
        let age = self.age();
        let stock = &mut self.state().stock;
        stock.removed.insert(id.to_owned());
        let Some(machine) = stock.machines.remove(id, age, stock.lag) else { return false };
        for route in stock.routes.alive_mut().map(|kept| &mut kept.value) {
            route.blackhole |= route.node.as_deref() == Some(&machine.name);
        }
        for disk in stock.disks.alive_mut().map(|kept| &mut kept.value) {
            disk.attached.take_if(|(holder, _)| *holder == machine.name);
        }
        true
    }

    /// Stops or starts an instance, by ID. Whether it was there.
    pub fn set_stopped(&self, id: &str, stopped: bool) -> bool {
        self.change_machine(id, |machine| machine.stopped = stopped)
    }

    /// Changes an instance by hand, by ID. Whether it was there.
    pub fn change_machine(&self, id: &str, change: impl FnOnce(&mut Machine)) -> bool {
        self.state().stock.machines.get_mut(id).map(change).is_ok()
    }

    /// Plants a balancer; returns its ID. `maker` is the cluster that it truly belongs to, whatever its tags say: a
    /// change by any other is a violation. Without a maker it is anybody's who can prove it, as a former manager left it.
    /// Addresses on it that do not exist yet are reserved along with it, under its name and tags.
    pub fn plant_balancer(&self, mut balancer: Balancer, maker: Option<&str>) -> String {
        let stock = &mut self.state().stock;
        if balancer.id.is_empty() {
            balancer.id = stock.balancers.next_id();
        }
        for (id, ip) in &balancer.addresses {
            if stock.addresses.get(id).is_err() {
                let (name, tags) = (balancer.name.clone(), balancer.tags.clone());
                stock.addresses.insert(Address { id: id.clone(), name, ip: *ip, tags }, planted(maker));
            }
        }
        let id = balancer.id.clone();
        stock.balancers.insert(balancer, planted(maker));
        id
    }

    /// Plants a reserved address; see [`World::plant_balancer`].
    pub fn plant_address(&self, mut address: Address, maker: Option<&str>) -> String {
        let stock = &mut self.state().stock;
        if address.id.is_empty() {
            address.id = stock.addresses.next_id();
        }
        let id = address.id.clone();
        stock.addresses.insert(address, planted(maker));
        id
    }

    /// Plants a route; see [`World::plant_balancer`].
    pub fn plant_route(&self, mut route: RouteEntry, maker: Option<&str>) -> String {
        let stock = &mut self.state().stock;
        if route.id.is_empty() {
            route.id = stock.routes.next_id();
        }
        let id = route.id.clone();
        stock.routes.insert(route, planted(maker));
        id
    }

    /// Plants a volume; see [`World::plant_balancer`].
    pub fn plant_disk(&self, mut disk: Disk, maker: Option<&str>) -> String {
        let stock = &mut self.state().stock;
        if disk.id.is_empty() {
            disk.id = stock.disks.next_id();
        }
        let id = disk.id.clone();
        stock.disks.insert(disk, planted(maker));
        id
    }

    /// Edits a balancer by hand, by ID, as somebody at the cloud's console would. Whether it was there.
    pub fn change_balancer(&self, id: &str, change: impl FnOnce(&mut Balancer)) -> bool {
        self.state().stock.balancers.get_mut(id).map(change).is_ok()
    }

    /// Deletes a balancer by hand, by ID; its addresses stay. Whether it was there.
    pub fn remove_balancer(&self, id: &str) -> bool {
        let age = self.age();
        let stock = &mut self.state().stock;
        stock.balancers.remove(id, age, stock.lag).is_some()
    }

    /// Deletes a route by hand, by ID. Whether it was there.
    pub fn remove_route(&self, id: &str) -> bool {
        let age = self.age();
        let stock = &mut self.state().stock;
        stock.routes.remove(id, age, stock.lag).is_some()
    }

    /// Everything that exists.
    pub fn contents(&self) -> Contents {
        let age = self.age();
        self.state().stock.contents(age)
    }

    /// Arms a fault, behind those that are armed already. One that could never strike is refused.
    pub fn inject(&self, fault: Fault) -> Result<(), String> {
        fault.check()?;
        self.state().trouble.arm(fault);
        Ok(())
    }

    /// Disarms all faults.
    pub fn clear_faults(&self) {
        self.state().trouble.clear();
    }

    /// Has `listener` told of each call as it comes, before anything is done about it; it replaces the one before. It may
    /// use the back door, but must not wait.
    pub fn on_call(&self, listener: impl Fn(&Call) + Send + Sync + 'static) {
        *self.shared.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(listener));
    }

    pub(super) fn tell(&self, call: &Call) {
        let listener = self.shared.listener.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(listener) = listener {
            listener(call);
        }
    }

    /// How many calls there were since the start or the last reset.
    pub fn counters(&self) -> Counters {
        self.state().ledger.counters().clone()
    }

    /// Starts counting anew.
    pub fn reset_counters(&self) {
        self.state().ledger.reset_counters();
    }

    /// The last calls, oldest first.
    pub fn calls(&self) -> Vec<Call> {
        self.state().ledger.calls().cloned().collect()
    }

    /// The rules that clients broke, in words: `ownership: …`.
    pub fn violations(&self) -> Vec<String> {
        self.state().ledger.violations().iter().map(ToString::to_string).collect()
    }

    /// The rules that clients broke, as data.
    pub fn broken_rules(&self) -> Vec<Violation> {
        self.state().ledger.violations().to_vec()
    }

    /// Says that a Service (or another owner), by UID, is gone from its cluster for good: what is tagged for it now, or is
    /// made for it later, is a leak.
    pub fn owner_gone(&self, uid: &str) {
        let age = self.age();
        let mut state = self.state();
        state.stock.gone.insert(uid.to_owned());
        let left: Vec<String> = tagged_for(&state.stock, uid);
        for id in left {
            state.ledger.violation(age, Rule::Leak, format!("{id} is left of {uid}, which is gone"));
        }
    }

    /// What exists now for owners that are gone.
    pub fn leaks(&self) -> Vec<String> {
        let state = self.state();
        state.stock.gone.iter().flat_map(|uid| tagged_for(&state.stock, uid)).collect()
    }
}

fn planted(maker: Option<&str>) -> Origin {
    Origin { maker: maker.map(str::to_owned), token: None, shown_from: Duration::ZERO }
}

fn tagged_for(stock: &Stock, uid: &str) -> Vec<String> {
    fn ids<'a, T: Object>(objects: impl Iterator<Item = &'a T>, uid: &str) -> Vec<String> {
        objects
            .filter(|object| object.tags().get(OWNER_TAG).is_some_and(|owner| owner == uid))
            .map(|object| object.id().to_owned())
            .collect()
    }
    let mut all = ids(stock.addresses.alive().map(|kept| &kept.value), uid);
    all.extend(ids(stock.balancers.alive().map(|kept| &kept.value), uid));
    all.extend(ids(stock.routes.alive().map(|kept| &kept.value), uid));
    all.extend(ids(stock.disks.alive().map(|kept| &kept.value), uid));
    all
}
