//! Every annotation that is read, as data: the reference page, the suggestions and the checks are made from it.

use cloud_provider::load_balancer::{Annotation, AnnotationType};

/// How every annotation of this provider's own begins.
///
/// INVARIANT: users' manifests carry it.
pub const PREFIX: &str = "local.nephos/";

/// The pool to take addresses from, and what MetalLB's users call it.
pub(super) const POOL: [&str; 3] =
    ["local.nephos/address-pool", "metallb.io/address-pool", "metallb.universe.tf/address-pool"];
/// The addresses to have, and what MetalLB's and kube-vip's users call it.
pub(super) const ADDRESSES: [&str; 4] = [
    "local.nephos/addresses",
    "metallb.io/loadBalancerIPs",
    "metallb.universe.tf/loadBalancerIPs",
    "kube-vip.io/loadbalancerIPs",
];
/// The key under which Services share an address, and what MetalLB's users call it.
pub(super) const SHARE_KEY: [&str; 3] =
    ["local.nephos/share-key", "metallb.io/allow-shared-ip", "metallb.universe.tf/allow-shared-ip"];

pub(super) const BALANCE: &str = "local.nephos/balance";
pub(super) const PROXY_PROTOCOL: &str = "local.nephos/proxy-protocol";
pub(super) const CLIENT_ADDRESS: &str = "local.nephos/client-address";
pub(super) const HEALTH_CHECK: &str = "local.nephos/health-check";
pub(super) const HEALTH_INTERVAL: &str = "local.nephos/health-interval";
pub(super) const HEALTH_TIMEOUT: &str = "local.nephos/health-timeout";
pub(super) const HEALTHY_AFTER: &str = "local.nephos/healthy-after";
pub(super) const UNHEALTHY_AFTER: &str = "local.nephos/unhealthy-after";
pub(super) const IDLE_TIMEOUT: &str = "local.nephos/idle-timeout";
pub(super) const UDP_IDLE_TIMEOUT: &str = "local.nephos/udp-idle-timeout";
pub(super) const MAX_CONNECTIONS: &str = "local.nephos/max-connections";
pub(super) const DRAIN_TIMEOUT: &str = "local.nephos/drain-timeout";

pub(super) const ROUND_ROBIN: &str = "round-robin";
pub(super) const LEAST_CONNECTIONS: &str = "least-connections";
pub(super) const SOURCE_HASH: &str = "source-hash";

/// All of them.
pub const ANNOTATIONS: &[Annotation] = &[
    row(POOL[0], AnnotationType::Text, "any pool that is open", "The pool to take addresses from."),
    alias(POOL[1], AnnotationType::Text, "MetalLB's word for local.nephos/address-pool."),
    alias(POOL[2], AnnotationType::Text, "MetalLB's older word for local.nephos/address-pool."),
    row(
        ADDRESSES[0],
        AnnotationType::List,
        "the next free ones",
        "The addresses to have, one of each family at most.",
    ),
    alias(ADDRESSES[1], AnnotationType::List, "MetalLB's word for local.nephos/addresses."),
    alias(ADDRESSES[2], AnnotationType::List, "MetalLB's older word for local.nephos/addresses."),
    alias(ADDRESSES[3], AnnotationType::List, "kube-vip's word for local.nephos/addresses."),
    row(
        SHARE_KEY[0],
        AnnotationType::Text,
        "no sharing",
        "Services with the same key and different ports may have the same address.",
    ),
    alias(SHARE_KEY[1], AnnotationType::Text, "MetalLB's word for local.nephos/share-key."),
    alias(SHARE_KEY[2], AnnotationType::Text, "MetalLB's older word for local.nephos/share-key."),
    row(
        BALANCE,
        AnnotationType::OneOf(&[ROUND_ROBIN, LEAST_CONNECTIONS, SOURCE_HASH]),
        ROUND_ROBIN,
        "How a backend is chosen for a connection.",
    ),
    row(
        PROXY_PROTOCOL,
        AnnotationType::OneOf(&["none", "v1", "v2"]),
        "none",
        "The PROXY protocol header with which TCP connections to backends begin.",
    ),
    row(
        CLIENT_ADDRESS,
        AnnotationType::OneOf(&["replaced", "kept"]),
        "replaced",
        "Whether backends see the client's address: that needs root, and answers that come back through the balancer.",
    ),
    row(
        HEALTH_CHECK,
        AnnotationType::OneOf(&["auto", "tcp", "none"]),
        "auto",
        "How backends are asked whether they serve: auto asks healthCheckNodePort where the Service has one, else opens a TCP connection.",
    ),
    row(HEALTH_INTERVAL, AnnotationType::Duration, "1s", "The time between two questions to a backend."),
    row(HEALTH_TIMEOUT, AnnotationType::Duration, "700ms", "How long a backend may take to answer."),
    row(
        HEALTHY_AFTER,
        AnnotationType::Integer,
        "1",
        "How many good answers in a row make a failed backend healthy.",
    ),
    row(
        UNHEALTHY_AFTER,
        AnnotationType::Integer,
        "2",
        "How many failures in a row make a healthy backend fail.",
    ),
    row(
        IDLE_TIMEOUT,
        AnnotationType::Duration,
        "1h",
        "How long a TCP connection may be silent before it is closed.",
    ),
    row(
        UDP_IDLE_TIMEOUT,
        AnnotationType::Duration,
        "1m",
        "How long a UDP client may be silent before it is forgotten.",
    ),
    row(
        MAX_CONNECTIONS,
        AnnotationType::Integer,
        "0",
        "How many connections and UDP clients there may be at once; 0 is no limit.",
    ),
    row(
        DRAIN_TIMEOUT,
        AnnotationType::Duration,
        "5m",
        "How long the connections of a backend that left may go on.",
    ),
];

const fn row(
    key: &'static str,
    type_: AnnotationType,
    default: &'static str,
    about: &'static str,
) -> Annotation {
    Annotation { key, type_, default, about }
}

const fn alias(key: &'static str, type_: AnnotationType, about: &'static str) -> Annotation {
    Annotation { key, type_, default: "", about }
}
