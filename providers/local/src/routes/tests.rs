use std::collections::BTreeSet;

use cloud_provider::{Gate, Outcome, Permit, Refusal};
use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeStatus};
use rstest::rstest;

use super::table::TableError;
use super::*;

/// A table in memory.
#[derive(Default)]
struct Memory(Mutex<Vec<netlink::Route>>);

impl Memory {
    fn routes(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(ToString::to_string).collect()
    }
}

#[async_trait]
impl Table for Memory {
    async fn list(&self) -> Result<Vec<netlink::Route>, TableError> {
        Ok(self.0.lock().unwrap().clone())
    }

    async fn own_addresses(&self) -> Result<BTreeSet<IpAddr>, TableError> {
        Ok([[10, 0, 0, 99].into()].into())
    }

    async fn make(&self, route: &netlink::Route, replaces: bool, _: &Permit) -> Result<(), TableError> {
        let mut routes = self.0.lock().unwrap();
        let before = routes.len();
        routes.retain(|found| (found.destination, found.metric) != (route.destination, route.metric));
        assert_eq!(routes.len() < before, replaces);
        routes.push(route.clone());
        Ok(())
    }

    async fn remove(&self, route: &netlink::Route, _: &Permit) -> Result<(), TableError> {
        self.0.lock().unwrap().retain(|found| found != route);
        Ok(())
    }
}

/// A gate that may be shut.
#[derive(Default)]
struct Door(Mutex<bool>);

impl Gate for Door {
    fn admit(&self, _: &Change) -> Result<(), Refusal> {
        if *self.0.lock().unwrap() { Err(Refusal::Fenced) } else { Ok(()) }
    }

    fn may_start(&self) -> bool {
        !*self.0.lock().unwrap()
    }

    fn ended(&self, _: &Change, _: Outcome) {}
}

#[derive(Default)]
struct Told(Mutex<Vec<(Subject, String)>>);

impl EventSink for Told {
    fn record(&self, subject: &Subject, _: EventType, reason: &str, _: &str) {
        self.0.lock().unwrap().push((subject.clone(), reason.to_owned()));
    }
}

struct OneNode;

impl NodeReader for OneNode {
    fn get(&self, name: &str) -> Option<Arc<Node>> {
        self.list().into_iter().find(|node| node.metadata.name.as_deref() == Some(name))
    }

    fn list(&self) -> Vec<Arc<Node>> {
        let mut node = Node::default();
        node.metadata.name = Some("a".into());
        node.status = Some(NodeStatus { addresses: Some(addresses()), ..NodeStatus::default() });
        vec![Arc::new(node)]
    }

    fn is_synced(&self) -> bool {
        true
    }
}

fn addresses() -> Vec<NodeAddress> {
    let address = |type_: &str, address: &str| NodeAddress { type_: type_.into(), address: address.into() };
    vec![
        address("Hostname", "a"),
        address("ExternalIP", "192.0.2.1"),
        address("InternalIP", "10.0.0.1"),
        address("InternalIP", "fd00::1"),
    ]
}

struct Scene {
    memory: Arc<Memory>,
    door: Arc<Door>,
    told: Arc<Told>,
    routes: NodeRoutes,
    cluster: ClusterIdentity,
}

impl Scene {
    fn new() -> Self {
        let (memory, told) = (Arc::new(Memory::default()), Arc::new(Told::default()));
        let mut context = Context::inert();
        context.nodes = Arc::new(OneNode);
        context.events = Arc::clone(&told) as _;
        let routes = NodeRoutes::new(Arc::clone(&memory) as _, &context);
        let id = cloud_provider::ClusterId::Configured("one".into());
        let cluster = ClusterIdentity::new("kubernetes", id);
        Self { memory, door: Arc::default(), told, routes, cluster }
    }

    async fn create(&self, route: &Route) -> Result<(), Error> {
        let changes = Changes::through(Arc::clone(&self.door) as _);
        self.routes.create(&self.cluster, "uid-a", route, &changes).await
    }
}

fn to_a(destination: &str) -> Route {
    Route::new(destination.parse().unwrap()).to_node("a", addresses())
}

#[rstest]
#[case("10.244.1.0/24", "10.244.1.0/24 via 10.0.0.1")]
#[case("fd44:1::/64", "fd44:1::/64 via fd00::1")]
#[tokio::test]
async fn a_route_leads_to_the_internal_address_of_its_own_family(#[case] net: &str, #[case] made: &str) {
    let scene = Scene::new();
    scene.create(&to_a(net)).await.unwrap();
    assert_eq!(scene.memory.routes(), [made]);
    let listed = scene.routes.list(&scene.cluster).await.unwrap();
    assert_eq!((listed[0].name.as_str(), listed[0].target_node.as_deref()), (made, Some("a")));
    assert_eq!(listed[0].target_addresses, None);
}

#[tokio::test]
async fn a_node_without_an_address_of_the_family_is_told_and_the_machine_itself_needs_no_route() {
    let scene = Scene::new();
    let mut route = to_a("fd44:1::/64");
    route.target_addresses = Some(vec![addresses().swap_remove(2)]);
    let refused = scene.create(&route).await.unwrap_err();
    assert!(refused.report().contains("node a has no IPv6 address"), "{}", refused.report());
    let own = NodeAddress { type_: "InternalIP".into(), address: "10.0.0.99".into() };
    let route = Route::new("10.244.9.0/24".parse().unwrap()).to_node("me", vec![own]);
    scene.create(&route).await.unwrap();
    assert_eq!(scene.memory.routes(), Vec::<String>::new());
    let untold = Route::new("10.244.1.0/24".parse().unwrap()).to_node("a", Vec::new());
    scene.create(&untold).await.unwrap();
    assert_eq!(scene.memory.routes(), ["10.244.1.0/24 via 10.0.0.1"], "the Node itself tells");
}

#[tokio::test]
async fn a_route_follows_its_node_to_another_address_and_is_not_deleted_by_what_was_listed_before() {
    let scene = Scene::new();
    let old = NodeAddress { type_: "InternalIP".into(), address: "10.0.0.7".into() };
    let before = Route::new("10.244.1.0/24".parse().unwrap()).to_node("a", vec![old]);
    scene.create(&before).await.unwrap();
    let stale = scene.routes.list(&scene.cluster).await.unwrap();
    assert_eq!(stale[0].target_node, None, "nobody has this address");
    scene.create(&to_a("10.244.1.0/24")).await.unwrap();
    assert_eq!(scene.memory.routes(), ["10.244.1.0/24 via 10.0.0.1"]);
    let changes = Changes::through(Arc::clone(&scene.door) as _);
    scene.routes.delete(&scene.cluster, &stale[0], &changes).await.unwrap();
    assert_eq!(scene.memory.routes().len(), 1, "it is not the one that was listed");
    let listed = scene.routes.list(&scene.cluster).await.unwrap();
    scene.routes.delete(&scene.cluster, &listed[0], &changes).await.unwrap();
    assert_eq!(scene.memory.routes().len(), 0);
}

#[tokio::test]
async fn what_somebody_removes_is_made_again_with_an_event_unless_the_lease_is_gone() {
    let scene = Scene::new();
    scene.create(&to_a("10.244.1.0/24")).await.unwrap();
    scene.routes.repair().await.unwrap();
    assert_eq!(scene.told.0.lock().unwrap().len(), 0, "nothing was wrong");
    scene.memory.0.lock().unwrap().clear();
    scene.routes.repair().await.unwrap();
    assert_eq!(scene.memory.routes(), ["10.244.1.0/24 via 10.0.0.1"]);
    let about = Subject::Node { name: "a".into(), uid: "uid-a".into() };
    assert_eq!(*scene.told.0.lock().unwrap(), [(about.clone(), "RouteRepaired".to_owned())]);

    // The controller's own comparison may be the first to see it.
    scene.memory.0.lock().unwrap().clear();
    scene.create(&to_a("10.244.1.0/24")).await.unwrap();
    assert_eq!(scene.told.0.lock().unwrap().len(), 2);

    *scene.door.0.lock().unwrap() = true;
    scene.memory.0.lock().unwrap().clear();
    scene.routes.repair().await.unwrap();
    assert_eq!(scene.memory.routes(), Vec::<String>::new(), "it may belong to another by now");
    *scene.door.0.lock().unwrap() = false;
    scene.routes.repair().await.unwrap();
    assert_eq!(scene.memory.routes(), Vec::<String>::new(), "and whoever leads knows what is wanted");
}

#[tokio::test]
async fn a_route_that_the_controller_removes_is_not_made_again() {
    let scene = Scene::new();
    scene.create(&to_a("10.244.1.0/24")).await.unwrap();
    let listed = scene.routes.list(&scene.cluster).await.unwrap();
    let changes = Changes::through(Arc::clone(&scene.door) as _);
    scene.routes.delete(&scene.cluster, &listed[0], &changes).await.unwrap();
    scene.routes.repair().await.unwrap();
    assert_eq!(scene.memory.routes(), Vec::<String>::new());
}
