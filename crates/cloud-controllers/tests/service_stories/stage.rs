//! A cluster without Services, a cloud without load balancers, and processes between them that start, stop and crash.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cloud_controllers::around::gate::Mode;
use cloud_controllers::around::{
    Budget, Deadlines, DecisionLog, LeaseGate, Metrics as CallMetrics, budget, surround,
};
use cloud_controllers::service::{Balancers, Controller, Metrics, Parts, Settings};
use cloud_provider::{Cloud, ClusterId, ClusterIdentity, Context};
use controller_kit::cache::{self, Cache, Scope, trim};
use controller_kit::clock::{SharedClock, TokioClock as WallClock};
use controller_kit::events;
use controller_kit::leader::Leadership;
use controller_kit::lifecycle::Shutdown;
use controller_kit::random::Randomness;
use controller_kit::{queue, worker};
use k8s_openapi::api::core::v1::{Event, Service};
use prometheus_client::registry::Registry;
use provider_fake::clock::TokioClock;
use provider_fake::objects::Balancer;
use provider_fake::{Config, World};
use testkit::{ApiServer, EPOCH, Requests, node, service};
use tokio::task::AbortHandle;

use crate::between::{Between, Script};

pub(crate) const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
pub(crate) const CLUSTER: &str = "cluster-1";

pub(crate) struct Stage {
    pub(crate) server: ApiServer,
    pub(crate) world: World,
    pub(crate) script: Script,
    pub(crate) budget: budget::Settings,
    pub(crate) deadlines: Deadlines,
    pub(crate) mode: Mode,
    pub(crate) clock: SharedClock,
    /// Whether the provider asks for the pods behind Services without node ports.
    pub(crate) pods: bool,
    seed: u64,
}

/// One life of the controller, with caches of its own. Dropped, it ends where it stands, as in a crash.
pub(crate) struct Process {
    stop: Shutdown,
    tasks: Arc<Mutex<Vec<AbortHandle>>>,
    pub(crate) registry: Registry,
}

pub(crate) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) fn cluster() -> ClusterIdentity {
    ClusterIdentity::new("kubernetes", ClusterId::NamespaceUid(CLUSTER.to_owned()))
}

impl Stage {
    /// With two nodes, `a` and `b`.
    pub(crate) fn new(seed: u64, config: Config) -> Self {
        let stage = Self {
            server: ApiServer::new(seed),
            world: World::new(Config { seed, ..config }, Arc::new(TokioClock::start())),
            script: Script::default(),
            budget: budget::Settings::default(),
            deadlines: Deadlines::default(),
            mode: Mode::Act,
            clock: Arc::new(WallClock::starting_at(EPOCH)),
            pods: false,
            seed,
        };
        // Every cluster has this one.
        stage.server.create(&service("kubernetes").cluster_ip().port(443).build());
        stage.add_node("a", "10.0.0.1");
        stage.add_node("b", "10.0.0.2");
        stage
    }

    pub(crate) fn add_node(&self, name: &str, ip: &str) {
        self.server
            .create(&node(name).provider_id(&format!("fake://{name}")).internal_ip(ip).ready().build());
    }

    /// Starts the controller, as a new process would that leads and goes on leading.
    pub(crate) fn start(&self, settings: Settings) -> Process {
        self.start_as(settings, Leadership::unconditional())
    }

    /// The same for a process with this leadership.
    pub(crate) fn start_as(&self, settings: Settings, leadership: Leadership) -> Process {
        let mut registry = Registry::default();
        let random = Randomness::seeded(self.seed);
        let calls = CallMetrics::unregistered();
        let cloud = self.world.cloud(&Context::inert().with_cluster(cluster()));
        let inner = cloud.load_balancers.unwrap();
        let between = Between { inner, script: self.script.clone() };
        let cloud = Cloud::new("fake").with_load_balancers(Arc::new(between));
        let budget = Budget::new("fake", self.budget.clone(), &calls);
        let surrounded = surround(cloud, budget, self.deadlines, &calls);
        let log = DecisionLog::new(self.clock.clone());
        let gate = LeaseGate::new("fake", leadership, self.mode, log, &calls);

        let cache_metrics = cache::Metrics::register(&mut registry);
        let client = self.server.client_as("cache");
        let nodes = Cache::new(
            client.clone(),
            Scope::default(),
            trim::node(["none"]),
            random.clone(),
            &cache_metrics,
        );
        let services =
            Cache::new(client.clone(), Scope::default(), trim::service(), random.clone(), &cache_metrics);
        let slices =
            Cache::new(client, Scope::default(), trim::endpoint_slice(), random.clone(), &cache_metrics);
        let (recorder, writer) = events::recorder(
            "test",
            self.server.client_as("events"),
            self.clock.clone(),
            random.clone(),
            &events::Metrics::register(&mut registry),
        );
        let parts = Parts {
            client: self.server.client_as("service"),
            services: services.clone(),
            nodes: nodes.clone(),
            slices: self.pods.then(|| slices.clone()),
            balancers: Balancers::of(&surrounded).unwrap(),
            gate,
            cluster: cluster(),
            events: recorder,
            clock: self.clock.clone(),
            metrics: Metrics::register(&mut registry),
            queue_metrics: queue::Metrics::unregistered(),
            worker_metrics: worker::Metrics::unregistered(),
        };
        let (controller, stop) = (Controller::new(parts, settings), Shutdown::new());
        let [s1, s2, s3, s4, s5] = std::array::from_fn(|_| stop.clone());
        let tasks = [
            tokio::spawn(async move { nodes.run(&s1).await }),
            tokio::spawn(async move { services.run(&s2).await }),
            tokio::spawn(async move { slices.run(&s5).await }),
            tokio::spawn(async move { writer.run(&s3, secs(1)).await }),
            tokio::spawn(async move { controller.run(&s4, |_| ()).await }),
        ];
        let tasks = tasks.iter().map(tokio::task::JoinHandle::abort_handle).collect();
        Process { stop, tasks: Arc::new(Mutex::new(tasks)), registry }
    }

    pub(crate) fn service(&self, name: &str) -> Option<Service> {
        self.server.get::<Service>("default", name)
    }

    pub(crate) fn edit(&self, name: &str, edit: impl FnOnce(&mut Service)) {
        self.server.modify::<Service>("default", name, |service| {
            let before = service.spec.clone().and_then(|spec| spec.type_);
            edit(service);
            // As the API server does it for those who write the spec alone.
            if before != service.spec.clone().and_then(|spec| spec.type_) {
                service.status = None;
            }
        });
    }

    /// The addresses in a Service's status, with their modes.
    pub(crate) fn addresses(&self, name: &str) -> Vec<(String, Option<String>)> {
        let status = self.service(name).and_then(|service| service.status).unwrap_or_default();
        let ingress = status.load_balancer.and_then(|balancer| balancer.ingress).unwrap_or_default();
        ingress.into_iter().map(|each| (each.ip.unwrap_or_default(), each.ip_mode)).collect()
    }

    pub(crate) fn is_held(&self, name: &str) -> bool {
        let finalizers =
            self.service(name).and_then(|service| service.metadata.finalizers).unwrap_or_default();
        finalizers.iter().any(|finalizer| finalizer == FINALIZER)
    }

    /// Status, reason and message of a condition.
    pub(crate) fn condition(&self, name: &str, type_: &str) -> Option<(String, String, String)> {
        let conditions = self.service(name)?.status?.conditions?;
        let found = conditions.into_iter().find(|each| each.type_ == type_)?;
        Some((found.status, found.reason, found.message))
    }

    pub(crate) fn balancers(&self) -> Vec<Balancer> {
        self.world.contents().balancers
    }

    /// Writes of the controller to the API server.
    pub(crate) fn writes(&self) -> Requests {
        self.server.requests().user_agent("service").writes()
    }

    /// The Events about a Service, oldest first.
    pub(crate) fn events_about(&self, name: &str) -> Vec<Event> {
        let mut events: Vec<Event> = self.server.list();
        events.retain(|event| event.involved_object.name.as_deref() == Some(name));
        events.sort_by_key(|event| event.metadata.name.clone());
        events.sort_by_key(|event| event.metadata.creation_timestamp.clone().map(|time| time.0));
        events
    }

    pub(crate) fn reasons(&self, name: &str) -> Vec<String> {
        self.events_about(name).into_iter().filter_map(|event| event.reason).collect()
    }

    pub(crate) fn has_event(&self, name: &str, reason: &str) -> bool {
        self.reasons(name).iter().any(|each| each == reason)
    }

    pub(crate) fn message(&self, name: &str, reason: &str) -> Option<String> {
        let mut events = self.events_about(name);
        events.retain(|event| event.reason.as_deref() == Some(reason));
        events.pop()?.message
    }

    /// Waits, in virtual time, until something is so.
    #[track_caller]
    pub(crate) fn until<'a>(
        &'a self,
        within: Duration,
        what: &'a str,
        so: impl Fn(&Stage) -> bool + 'a,
    ) -> impl Future<Output = Duration> + 'a {
        let began = tokio::time::Instant::now();
        async move {
            while !so(self) {
                assert!(began.elapsed() <= within, "not within {within:?}: {what}\n{}", self.server.trace());
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            began.elapsed()
        }
    }

    /// Waits until a Service has an address.
    pub(crate) async fn provisioned(&self, name: &str) {
        self.until(secs(60), "an address", |stage| !stage.addresses(name).is_empty()).await;
    }

    /// Waits until nothing is left of a Service.
    pub(crate) async fn gone(&self, name: &str) {
        self.until(secs(60), "the end", |stage| stage.service(name).is_none()).await;
    }

    /// What must always hold in the end.
    #[track_caller]
    pub(crate) fn assert_sound(&self) {
        assert_eq!(self.script.overlaps(), Vec::<String>::new(), "two calls for one load balancer at once");
        assert_eq!(self.world.violations(), Vec::<String>::new());
        self.server.assert_invariants();
    }
}

impl Process {
    /// Stops as a process does that is asked to.
    pub(crate) async fn stop(self) {
        self.stop.trigger();
        tokio::time::sleep(secs(7)).await;
    }

    /// What ends the process at once, from anywhere.
    pub(crate) fn killer(&self) -> impl Fn() + Send + Sync + 'static {
        let tasks = Arc::clone(&self.tasks);
        move || tasks.lock().unwrap().iter().for_each(AbortHandle::abort)
    }

    /// The value of one line of the exposition.
    pub(crate) fn metric(&self, line: &str) -> Option<f64> {
        let text = controller_kit::metrics::encode(&self.registry).unwrap();
        text.lines().find_map(|each| each.strip_prefix(line)?.strip_prefix(' ')?.parse().ok())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.tasks.lock().unwrap().iter().for_each(AbortHandle::abort);
    }
}
