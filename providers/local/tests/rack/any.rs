//! Intents of every kind, for properties. The module around this one says which `intent` they are of: the crate's own tests
//! and those from outside both use it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use proptest::sample::select;

use super::intent::{
    Affinity, Algorithm, Backend, Balancer, ClientAddress, Delivery, Intent, Port, PortKey, Settings,
    TrafficPolicy,
};

/// Few, so that one balancer gets what another had.
const ADDRESSES: [&str; 5] = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::1", "2001:db8::2"];

prop_compose! {
    fn any_backend()(last in 1..6_u8, six in any::<bool>(), weight in 0..4_u16) -> Backend {
        let address: IpAddr = if six {
            IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, u16::from(last)])
        } else {
            IpAddr::from([10, 0, 0, last])
        };
        Backend { node: format!("node-{last}"), address, port: 30_080, weight }
    }
}

prop_compose! {
    fn any_port()(
        backends in vec(any_backend(), 0..5),
        unmodified in prop::bool::weighted(0.2),
    ) -> Port {
        let by_address: BTreeMap<IpAddr, Backend> =
            backends.into_iter().map(|backend| (backend.address, backend)).collect();
        let delivery = if unmodified { Delivery::Unmodified } else { Delivery::Rewritten };
        Port { backends: by_address.into_values().collect(), delivery }
    }
}

prop_compose! {
    fn any_settings()(
        affinity in select(vec![Affinity::None, Affinity::ClientIp { timeout: Duration::from_secs(60) }]),
        algorithm in select(vec![Algorithm::RoundRobin, Algorithm::SourceHash]),
        client_address in select(vec![ClientAddress::Replaced, ClientAddress::Kept]),
        traffic_policy in select(vec![TrafficPolicy::Cluster, TrafficPolicy::Local]),
        range in proptest::option::weighted(0.3, select(vec!["10.0.0.0/8", "2001:db8::/32", "0.0.0.0/0"])),
        connection_limit in select(vec![0, 0, 5]),
    ) -> Settings {
        let source_ranges = range.into_iter().map(|range| range.parse().unwrap()).collect();
        Settings {
            source_ranges, affinity, algorithm, client_address, connection_limit, traffic_policy,
            ..Settings::default()
        }
    }
}

prop_compose! {
    fn any_balancer()(
        name in "[ab]",
        addresses in btree_set(select(ADDRESSES.to_vec()), 0..3),
        ports in btree_map(
            select(vec![PortKey::tcp(80), PortKey::tcp(443), PortKey::udp(53)]), any_port(), 0..3,
        ),
        settings in any_settings(),
    ) -> Balancer {
        let addresses = addresses.into_iter().map(|address| address.parse().unwrap()).collect();
        Balancer { cluster: None, namespace: "shop".into(), name, addresses, ports, settings }
    }
}

prop_compose! {
    /// One that can be served.
    pub(crate) fn any_intent()(balancers in btree_map("uid-[1-6]", any_balancer(), 0..7)) -> Intent {
        let mut intent = Intent::empty();
        for (uid, balancer) in balancers {
            intent.balancers.insert(uid.clone(), Arc::new(balancer));
            if intent.check().is_err() {
                intent.balancers.remove(&uid);
            }
        }
        intent
    }
}
