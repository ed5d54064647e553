//! What a provider can do for a Service, as data: the capabilities command, the docs page, the typo suggestions and
//! the refusals are made from it.

use std::collections::BTreeSet;
use std::fmt;

/// What a provider's load balancers can do.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Description {
    /// The values of `spec.loadBalancerClass` that this provider owns. Services without a class are always its.
    pub classes: Vec<String>,
    /// The annotations it reads. An edit of any other annotation causes no cloud call.
    pub annotations: &'static [Annotation],
    /// The features it supports. A Service that asks for another one is refused or warned about, never half-served.
    pub features: BTreeSet<Feature>,
    /// Whether it is told the pods behind Services without node ports: [`Spec::endpoints`](super::Spec::endpoints).
    pub endpoints: bool,
}

impl Description {
    /// A provider with these features that owns no class and reads no annotation.
    pub fn supporting(features: impl IntoIterator<Item = Feature>) -> Self {
        Self { features: features.into_iter().collect(), ..Self::default() }
    }

    /// Names the classes it owns.
    #[must_use]
    pub fn owning(mut self, classes: impl IntoIterator<Item = String>) -> Self {
        self.classes = classes.into_iter().collect();
        self
    }

    /// Asks for the pods behind Services without node ports. A provider that may ask says so in
    /// [`Provider::reads_endpoints`](crate::Provider::reads_endpoints) too.
    #[must_use]
    pub fn reaching_endpoints(mut self) -> Self {
        self.endpoints = true;
        self
    }

    /// Names the annotations it reads.
    #[must_use]
    pub fn reading(mut self, annotations: &'static [Annotation]) -> Self {
        self.annotations = annotations;
        self
    }
}

/// One annotation on a Service that a provider reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Annotation {
    /// The whole key.
    ///
    /// INVARIANT: users' manifests carry it.
    pub key: &'static str,
    /// How the value is read.
    pub type_: AnnotationType,
    /// What holds when it is absent.
    pub default: &'static str,
    /// What it does, in one sentence.
    pub about: &'static str,
}

/// How the value of an annotation is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnnotationType {
    /// Any text.
    Text,
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Integer,
    /// A duration such as `15s`.
    Duration,
    /// A list separated by commas.
    List,
    /// An IP address.
    Address,
    /// One of these words.
    OneOf(&'static [&'static str]),
}

/// Something that a Service can ask for and that not every cloud has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Feature {
    /// `spec.loadBalancerSourceRanges` or its annotation.
    SourceRanges,
    /// `spec.sessionAffinity: ClientIP`.
    ClientIpAffinity,
    /// Ports of protocol UDP.
    Udp,
    /// Ports of protocol SCTP.
    Sctp,
    /// TCP and UDP ports in one Service.
    MixedProtocols,
    /// `spec.externalTrafficPolicy: Local`, by asking the health check port of each node.
    LocalTraffic,
    /// IPv6 addresses.
    Ipv6,
    /// An IPv4 and an IPv6 address for one Service.
    DualStack,
    /// `spec.loadBalancerIP`.
    RequestedAddress,
    /// `spec.allocateLoadBalancerNodePorts: false`.
    NoNodePorts,
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SourceRanges => "spec.loadBalancerSourceRanges",
            Self::ClientIpAffinity => "spec.sessionAffinity: ClientIP",
            Self::Udp => "UDP ports",
            Self::Sctp => "SCTP ports",
            Self::MixedProtocols => "ports of different protocols",
            Self::LocalTraffic => "spec.externalTrafficPolicy: Local",
            Self::Ipv6 => "IPv6",
            Self::DualStack => "dual stack",
            Self::RequestedAddress => "spec.loadBalancerIP",
            Self::NoNodePorts => "spec.allocateLoadBalancerNodePorts: false",
        })
    }
}
