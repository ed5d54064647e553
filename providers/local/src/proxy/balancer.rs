//! One balancer as it is now: its listeners, its backends, and those that drain.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::Shared;
use super::backend::{Asked, Backend};
use super::group::Group;
use super::listen::Listening;
use super::scope::{Names, Scope};
use crate::health;
use crate::intent::status::{BackendStatus, BalancerStatus};
use crate::intent::{self, Delivery, Listener, PortKey, Protocol, Settings};

/// How often a draining backend is looked at, so that it is forgotten soon after its last connection.
const DRAIN_LOOK: Duration = Duration::from_secs(1);

/// One balancer as it is now.
#[derive(Debug)]
pub(super) struct Balancer {
    pub(super) scope: Arc<Scope>,
    addresses: Vec<IpAddr>,
    ports: BTreeMap<PortKey, LivePort>,
    listeners: BTreeMap<Listener, Listening>,
    draining: Vec<Draining>,
}

#[derive(Debug)]
struct LivePort {
    group: Arc<Group>,
    delivery: Delivery,
    /// The tasks that ask the backends, by address.
    checks: HashMap<SocketAddr, JoinHandle<()>>,
}

/// A backend that left the intent and still has connections.
#[derive(Debug)]
struct Draining {
    key: PortKey,
    backend: Arc<Backend>,
    /// Ends its connections when the time is over; ends itself when there are none.
    deadline: JoinHandle<()>,
}

impl Balancer {
    /// Opens a balancer.
    pub(super) fn open(wanted: intent::Balancer, shared: Arc<Shared>) -> Self {
        let names = Names { namespace: wanted.namespace, name: wanted.name };
        let mut balancer = Self {
            scope: Scope::new(shared, names, wanted.settings),
            addresses: wanted.addresses.into_iter().collect(),
            ports: BTreeMap::new(),
            listeners: BTreeMap::new(),
            draining: Vec::new(),
        };
        for (key, port) in wanted.ports {
            balancer.add_port(key, port);
        }
        balancer
    }

    /// Ends everything at once: when this returns, every address and port is free.
    pub(super) async fn close(mut self) {
        self.scope.closed.cancel();
        for (_, port) in std::mem::take(&mut self.ports) {
            port.checks.into_values().for_each(|check| check.abort());
        }
        for (_, listening) in std::mem::take(&mut self.listeners) {
            listening.close(Duration::ZERO).await;
        }
        self.draining.iter().for_each(|draining| draining.deadline.abort());
    }

    /// Stops to take clients; those who are here may stay.
    pub(super) async fn stop_listening(&mut self) {
        for (_, listening) in std::mem::take(&mut self.listeners) {
            listening.close(Duration::MAX).await;
        }
    }

    /// Puts other settings in force.
    pub(super) fn configure(&mut self, settings: Settings) {
        self.scope.configure(settings);
    }

    /// Listens at a further address.
    pub(super) fn add_address(&mut self, address: IpAddr) {
        self.addresses.push(address);
        self.listen_everywhere();
    }

    /// Closes an address.
    pub(super) async fn remove_address(&mut self, address: IpAddr) {
        self.addresses.retain(|other| *other != address);
        self.close_listeners(|listener| listener.address == address).await;
    }

    /// Serves a further port.
    pub(super) fn add_port(&mut self, key: PortKey, port: intent::Port) {
        let live =
            LivePort { group: Arc::new(Group::new()), delivery: port.delivery, checks: HashMap::new() };
        self.ports.insert(key, live);
        for backend in port.backends {
            self.add_backend(key, backend);
        }
        self.listen_everywhere();
    }

    /// Closes a port. Its TCP connections may go on as those of a backend that left.
    pub(super) async fn remove_port(&mut self, key: PortKey) {
        self.close_listeners(|listener| listener.key() == key).await;
        let sockets = self.ports.get(&key).map(|port| port.group.backends()).unwrap_or_default();
        for backend in sockets {
            self.remove_backend(key, backend.socket());
        }
        self.ports.remove(&key);
    }

    /// Reaches the backends of a port in another way.
    pub(super) async fn deliver(&mut self, key: PortKey, delivery: Delivery) {
        if let Some(port) = self.ports.get_mut(&key) {
            port.delivery = delivery;
        }
        self.close_listeners(|listener| listener.key() == key).await;
        self.listen_everywhere();
    }

    /// Puts a backend into the choice. One that still drains comes back with what it has.
    pub(super) fn add_backend(&mut self, key: PortKey, wanted: intent::Backend) {
        self.forget_drained();
        let returned = self
            .draining
            .iter()
            .position(|draining| draining.key == key && draining.backend.socket() == wanted.socket())
            .map(|index| self.draining.swap_remove(index));
        let backend = if let Some(Draining { backend, deadline, .. }) = returned {
            deadline.abort();
            backend.update(wanted);
            backend.set_draining(false);
            backend
        } else {
            let known = health::before_the_first_answer(key.protocol, &self.scope.settings().health_check);
            Backend::new(wanted, known, self.scope.closed.child_token())
        };
        let Some(port) = self.ports.get_mut(&key) else { return };
        let patient = Arc::new(Asked { backend: Arc::clone(&backend), scope: Arc::clone(&self.scope) });
        let check = health::watch(patient, key.protocol, self.scope.round());
        port.checks.insert(backend.socket(), tokio::spawn(check));
        port.group.add(backend);
    }

    /// Gives a backend another weight or node name.
    pub(super) fn update_backend(&mut self, key: PortKey, wanted: intent::Backend) {
        if let Some(backend) = self.ports.get(&key).and_then(|port| port.group.get(wanted.socket())) {
            backend.update(wanted);
        }
    }

    /// Takes a backend out of the choice. Its TCP connections may go on for the drain timeout; its UDP clients go
    /// elsewhere with their next datagram.
    pub(super) fn remove_backend(&mut self, key: PortKey, socket: SocketAddr) {
        self.forget_drained();
        let Some(port) = self.ports.get_mut(&key) else { return };
        if let Some(check) = port.checks.remove(&socket) {
            check.abort();
        }
        let Some(backend) = port.group.remove(socket) else { return };
        backend.set_draining(true);
        let drain = self.scope.settings().drain_timeout;
        if key.protocol == Protocol::Udp || drain.is_zero() {
            backend.cut.cancel();
            return;
        }
        let deadline = tokio::spawn(drain_out(Arc::clone(&backend), drain));
        self.draining.push(Draining { key, backend, deadline });
    }

    fn forget_drained(&mut self) {
        self.draining.retain(|draining| !draining.deadline.is_finished());
    }

    /// Opens what should be open and is not.
    fn listen_everywhere(&mut self) {
        for (key, port) in &self.ports {
            // A proxy ends the client's connection, so it cannot pass it on with the address unmodified.
            if port.delivery == Delivery::Unmodified {
                continue;
            }
            for listener in self.addresses.iter().map(|address| key.at(*address)) {
                self.listeners.entry(listener).or_insert_with(|| {
                    Listening::open(listener, Arc::clone(&self.scope), Arc::clone(&port.group))
                });
            }
        }
    }

    async fn close_listeners(&mut self, concerned: impl Fn(&Listener) -> bool) {
        let drain = self.scope.settings().drain_timeout;
        let (closing, kept) =
            std::mem::take(&mut self.listeners).into_iter().partition(|(listener, _)| concerned(listener));
        self.listeners = kept;
        let closing: BTreeMap<Listener, Listening> = closing;
        for (_, listening) in closing {
            listening.close(drain).await;
        }
    }

    /// Every backend, those that drain included.
    pub(super) fn backends(&self) -> Vec<(PortKey, Arc<Backend>)> {
        let chosen = self
            .ports
            .iter()
            .flat_map(|(key, port)| port.group.backends().into_iter().map(|backend| (*key, backend)));
        let draining = self.draining.iter().filter(|draining| !draining.deadline.is_finished());
        chosen.chain(draining.map(|draining| (draining.key, Arc::clone(&draining.backend)))).collect()
    }

    /// Its state.
    pub(super) fn status(&self) -> BalancerStatus {
        let unmodified =
            self.ports.iter().filter(|(_, port)| port.delivery == Delivery::Unmodified).map(|(key, _)| {
                format!("port {key} has no node port, and a proxy cannot forward with the address unmodified")
            });
        BalancerStatus {
            listeners: self.listeners.values().map(Listening::status).collect(),
            backends: self
                .backends()
                .into_iter()
                .map(|(port, backend)| backend_status(port, &backend))
                .collect(),
            problems: self.scope.problems(Instant::now()).into_iter().chain(unmodified).collect(),
        }
    }
}

fn backend_status(port: PortKey, backend: &Backend) -> BackendStatus {
    BackendStatus {
        port,
        backend: backend.wanted(),
        health: backend.health(),
        connections: Some(backend.active()),
        draining: backend.is_draining(),
    }
}

/// Returns when the backend has no connection left, or cuts them when the time is over.
async fn drain_out(backend: Arc<Backend>, drain: Duration) {
    let empty = async {
        while backend.active() > 0 {
            sleep(DRAIN_LOOK).await;
        }
    };
    tokio::select! {
        () = empty => {}
        () = backend.cut.cancelled() => {}
        () = sleep(drain) => backend.cut.cancel(),
    }
}
