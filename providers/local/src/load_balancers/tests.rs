//! Balancers over the real proxy, on loopback addresses that each test has for itself.

use std::collections::BTreeSet;
use std::path::Path;

use cloud_provider::ClusterId;
use k8s_openapi::api::core::v1::Node;
use testkit::builders::{ServiceBuilder, node, service};
use testkit::conformance::context::{Events, Mode, Nodes, RecordingGate, Services};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::proxy::Keeper;

/// A cluster whose balancers are in this network: `127.88.<number>.0/24`.
struct Site {
    number: u8,
    balancers: Balancers,
    services: Arc<Services>,
    events: Arc<Events>,
    changes: Changes,
}

impl Site {
    fn new(number: u8) -> Self {
        let (services, events) = (Arc::new(Services::default()), Arc::new(Events::default()));
        let mut context = Context::inert();
        context.services = Arc::clone(&services) as _;
        context.nodes = Arc::new(Nodes::default());
        context.events = Arc::clone(&events) as _;
        let text = format!("pools: [{{name: lan, addresses: [127.88.{number}.100-127.88.{number}.110]}}]");
        let config = Config::parse(Path::new("local.yaml"), &text).unwrap();
        let balancers = Balancers::new(Arc::new(Keeper::in_memory()), &config, &context);
        Self { number, balancers, services, events, changes: RecordingGate::new(Mode::Open).changes() }
    }

    /// The nodes of these last parts of an address.
    fn nodes(&self, last: &[u8]) -> Vec<Arc<Node>> {
        let node = |last: &u8| {
            let address = format!("127.88.{}.{last}", self.number);
            Arc::new(node(&format!("node-{last}")).address("InternalIP", &address).into())
        };
        last.iter().map(node).collect()
    }

    /// The spec of a Service, which everybody knows from now on, besides the others.
    fn spec(&self, service: ServiceBuilder, nodes: &[u8]) -> Spec {
        let service: Arc<Service> = Arc::new(service.into());
        let mut known = self.services.list();
        known.retain(|other| other.metadata.uid != service.metadata.uid);
        known.push(Arc::clone(&service));
        self.services.set(known);
        let cluster = ClusterIdentity::new("kubernetes", ClusterId::Configured("c-1".into()));
        Spec::new(service, self.nodes(nodes), &cluster).unwrap()
    }

    async fn ensure(&self, spec: &Spec) -> Result<Vec<String>, Error> {
        let status = self.balancers.ensure(spec, &self.changes).await?;
        Ok(status.ingress.unwrap().into_iter().map(|entry| entry.ip.unwrap()).collect())
    }
}

fn web(name: &str) -> ServiceBuilder {
    service(name)
        .namespace("default")
        .uid(&format!("uid-{name}"))
        .load_balancer()
        .port(18080)
        .on_node_port(31080)
}

/// Answers every connection with its name, as long as it is kept.
async fn respond(address: &str) -> tokio_util::task::AbortOnDropHandle<()> {
    let listener = TcpListener::bind(address).await.unwrap();
    let name = address.to_owned();
    tokio_util::task::AbortOnDropHandle::new(tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(name.as_bytes()).await;
        }
    }))
}

async fn ask(address: &str) -> String {
    let mut said = String::new();
    let mut stream = TcpStream::connect((address, 18080)).await.unwrap();
    stream.read_to_string(&mut said).await.unwrap();
    said
}

#[tokio::test]
async fn a_service_is_answered_at_its_address_by_each_of_its_nodes() {
    let site = Site::new(1);
    let _nodes = [respond("127.88.1.11:31080").await, respond("127.88.1.12:31080").await];
    let spec = site.spec(web("web"), &[11, 12]);
    let addresses = site.ensure(&spec).await.unwrap();
    assert_eq!(addresses, ["127.88.1.100"]);
    let mut answers = BTreeSet::new();
    for _ in 0..8 {
        answers.insert(ask(&addresses[0]).await);
    }
    assert_eq!(answers, ["127.88.1.11:31080", "127.88.1.12:31080"].map(str::to_owned).into());
    assert_eq!(site.balancers.get(&spec).await.unwrap().unwrap().agreement, Agreement::Same);

    site.balancers.delete(&spec.identity, None, &site.changes).await.unwrap();
    assert!(
        TcpStream::connect((addresses[0].as_str(), 18080)).await.is_err(),
        "nobody answers there any more"
    );
}

#[tokio::test]
async fn after_a_restart_every_service_has_the_address_in_its_status_again() {
    let site = Site::new(2);
    let first = site.spec(web("first").ingress_ip("127.88.2.100"), &[]);
    let new = site.spec(web("new"), &[]);
    // The data plane is empty, and a Service that never had an address comes first.
    assert_eq!(site.ensure(&new).await.unwrap(), ["127.88.2.101"]);
    assert_eq!(site.ensure(&first).await.unwrap(), ["127.88.2.100"]);
}

#[tokio::test]
async fn no_address_is_given_out_before_all_services_are_known() {
    let mut site = Site::new(3);
    let spec = site.spec(web("web"), &[]);
    site.balancers.services = Context::inert().services;
    let error = site.ensure(&spec).await.unwrap_err();
    assert!(matches!(error.decision(), Decision::RetryAfter { .. }), "{error:?}");
}

#[tokio::test]
async fn an_address_that_another_service_has_is_refused_by_name_unless_they_share_a_key() {
    let site = Site::new(4);
    let asking = |name: &str| web(name).annotation("metallb.io/loadBalancerIPs", "127.88.4.105");
    site.ensure(&site.spec(asking("first"), &[])).await.unwrap();
    let error = site.ensure(&site.spec(asking("second"), &[])).await.unwrap_err();
    assert!(error.report().ends_with("127.88.4.105 is used by service default/first"), "{}", error.report());

    let sharing = |name: &str, port| {
        service(name)
            .namespace("default")
            .uid(&format!("uid-{name}"))
            .load_balancer()
            .port(port)
            .on_node_port(31080)
            .annotation("local.nephos/share-key", "dns")
    };
    let one = site.ensure(&site.spec(sharing("one", 18081), &[])).await.unwrap();
    let two = site.ensure(&site.spec(sharing("two", 18082), &[])).await.unwrap();
    assert_eq!(one, two);
}

#[tokio::test]
async fn a_node_s_own_address_is_never_given_out() {
    let mut site = Site::new(5);
    let nodes = Nodes::default();
    nodes.set(site.nodes(&[100]));
    site.balancers.nodes = Arc::new(nodes);
    assert_eq!(site.ensure(&site.spec(web("web"), &[])).await.unwrap(), ["127.88.5.101"]);
}

#[tokio::test]
async fn a_port_that_cannot_be_opened_is_an_error_with_the_reason() {
    let site = Site::new(6);
    let _squatter = TcpListener::bind("127.88.6.100:18080").await.unwrap();
    let spec = site.spec(web("web"), &[]);
    let error = site.ensure(&spec).await.unwrap_err();
    assert!(error.report().contains("TCP 127.88.6.100:18080 is not open"), "{}", error.report());
    let observed = site.balancers.get(&spec).await.unwrap().unwrap();
    assert!(matches!(observed.agreement, Agreement::Different(_)), "{observed:?}");
}

#[tokio::test]
async fn an_annotation_that_means_nothing_is_told_on_the_service() {
    let site = Site::new(7);
    let spec = site.spec(web("web").annotation("local.nephos/balnce", "source-hash"), &[]);
    site.ensure(&spec).await.unwrap();
    let events = site.events.all();
    assert_eq!(events.len(), 1);
    assert!(events[0].message.ends_with("did you mean local.nephos/balance?"), "{events:?}");
}
