//! The pods behind a Service, for providers that reach them without a node port.

use std::net::IpAddr;

use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::{Family, Port, Protocol};

/// The pods behind a Service.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Endpoints(Vec<Endpoint>);

/// One port of one pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Endpoint {
    /// The pod's address.
    pub address: IpAddr,
    /// The port that the pod listens at.
    pub port: u16,
    /// The node that the pod runs on.
    pub node: Option<String>,
    /// The name of the Service's port; empty if it has none.
    name: String,
    protocol: Protocol,
    state: State,
}

/// Whether a pod takes connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Ready,
    /// It is ending, and still answers.
    Ending,
}

impl Endpoints {
    /// The pods that these slices name; those that take no connection are left out. Two lists of the same pods are equal.
    pub fn of<'a>(slices: impl IntoIterator<Item = &'a EndpointSlice>) -> Self {
        let mut all: Vec<Endpoint> = slices.into_iter().flat_map(endpoints).collect();
        all.sort();
        all.dedup();
        Self(all)
    }

    /// The pods that serve a port in this family: those that are ready, and if there are none those that are ending and
    /// still answer, as the proxies of the nodes do it.
    pub fn behind(&self, port: &Port, family: Family) -> Vec<&Endpoint> {
        let serves = |each: &&Endpoint| {
            each.name == port.name && each.protocol == port.protocol && Family::of(each.address) == family
        };
        let (ready, ending): (Vec<_>, Vec<_>) =
            self.0.iter().filter(serves).partition(|each| each.state == State::Ready);
        if ready.is_empty() { ending } else { ready }
    }

    /// Whether no pod takes a connection.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn endpoints(slice: &EndpointSlice) -> impl Iterator<Item = Endpoint> {
    let ports = slice.ports.as_deref().unwrap_or_default();
    slice.endpoints.iter().flat_map(move |pod| {
        let conditions = pod.conditions.as_ref();
        let state = match conditions.map(|all| (all.ready, all.serving)) {
            // What nobody knows is taken as ready.
            None | Some((None | Some(true), _)) => Some(State::Ready),
            Some((Some(false), Some(true))) => Some(State::Ending),
            Some((Some(false), _)) => None,
        };
        // All addresses of one entry are the same pod; clients use the first.
        let address = pod.addresses.first().and_then(|text| text.parse::<IpAddr>().ok());
        let at = state.zip(address);
        ports.iter().filter_map(move |port| {
            let ((state, address), number) = (at?, port.port?);
            let protocol = match port.protocol.as_deref() {
                None | Some("TCP") => Protocol::Tcp,
                Some("UDP") => Protocol::Udp,
                Some("SCTP") => Protocol::Sctp,
                Some(_) => return None,
            };
            Some(Endpoint {
                address,
                port: u16::try_from(number).ok()?,
                node: pod.node_name.clone(),
                name: port.name.clone().unwrap_or_default(),
                protocol,
                state,
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(text: &serde_json::Value) -> EndpointSlice {
        let mut slice = serde_json::json!({"metadata": {"name": "web-1"}, "addressType": "IPv4"});
        slice.as_object_mut().unwrap().extend(text.as_object().unwrap().clone());
        serde_json::from_value(slice).unwrap()
    }

    fn port(name: &str, protocol: Protocol) -> Port {
        Port { name: name.into(), protocol, port: 80, node_port: None, app_protocol: None }
    }

    fn places(endpoints: &Endpoints, port: &Port, family: Family) -> Vec<String> {
        let found = endpoints.behind(port, family).into_iter();
        found.map(|each| format!("{}:{}", each.address, each.port)).collect()
    }

    #[test]
    fn a_port_is_served_by_the_pods_of_its_name_and_protocol_and_family() {
        let v4 = slice(&serde_json::json!({
            "ports": [{"name": "web", "port": 8080}, {"name": "dns", "port": 5353, "protocol": "UDP"}, {"name": "any"}],
            "endpoints": [
                {"addresses": ["10.1.0.2"], "nodeName": "b"},
                {"addresses": ["10.1.0.1"], "nodeName": "a", "conditions": {"ready": true}},
            ],
        }));
        let v6 = slice(&serde_json::json!({
            "addressType": "IPv6",
            "ports": [{"name": "web", "port": 8080, "protocol": "TCP"}],
            "endpoints": [{"addresses": ["fd00::1"]}],
        }));
        let names = slice(&serde_json::json!({
            "addressType": "FQDN", "ports": [{"name": "web", "port": 1}], "endpoints": [{"addresses": ["a.example"]}],
        }));
        let all = Endpoints::of([&v4, &v6, &names]);
        let web = port("web", Protocol::Tcp);
        assert_eq!(places(&all, &web, Family::V4), ["10.1.0.1:8080", "10.1.0.2:8080"]);
        assert_eq!(places(&all, &web, Family::V6), ["fd00::1:8080"]);
        assert_eq!(places(&all, &port("dns", Protocol::Udp), Family::V4), ["10.1.0.1:5353", "10.1.0.2:5353"]);
        assert!(places(&all, &port("dns", Protocol::Tcp), Family::V4).is_empty());
        assert!(places(&all, &port("", Protocol::Tcp), Family::V4).is_empty());
        assert_eq!(all.behind(&web, Family::V4)[0].node.as_deref(), Some("a"));
        assert_eq!(
            Endpoints::of([&v6, &v4]),
            Endpoints::of([&v4, &v6, &v4]),
            "in whatever order they are listed"
        );
    }

    #[test]
    fn pods_that_are_ending_serve_only_while_no_other_does() {
        let pod = |last: u8, ready: bool, serving: bool| {
            serde_json::json!({
                "addresses": [format!("10.1.0.{last}")],
                "conditions": {"ready": ready, "serving": serving, "terminating": !ready},
            })
        };
        let of = |pods: &[serde_json::Value]| {
            Endpoints::of([&slice(&serde_json::json!({"ports": [{"port": 80}], "endpoints": pods}))])
        };
        let any = port("", Protocol::Tcp);
        let some = of(&[pod(1, true, true), pod(2, false, true), pod(3, false, false)]);
        assert_eq!(places(&some, &any, Family::V4), ["10.1.0.1:80"]);
        let ending = of(&[pod(2, false, true), pod(3, false, false)]);
        assert_eq!(places(&ending, &any, Family::V4), ["10.1.0.2:80"]);
        assert!(of(&[pod(3, false, false)]).is_empty());
    }
}
