//! The names that the whole of Kubernetes agrees on.
//!
//! INVARIANT: every value here stands in objects, dashboards and manifests that we do not own. A golden test pins the
//! table; nothing in it changes because we would like it better.

/// Taints on Nodes.
pub mod taints {
    /// Set by a kubelet that waits for its cloud (`=true:NoSchedule`); removed once the Node is initialised.
    pub const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
    /// Set while the cloud says that a not-ready Node's instance is shut down (`:NoSchedule`, no value).
    pub const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";
    /// Set by the cluster autoscaler on a Node that it is about to delete.
    pub const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";
    /// Set by kube-controller-manager from the condition of the same meaning.
    pub const NETWORK_UNAVAILABLE: &str = "node.kubernetes.io/network-unavailable";
    /// Set by admission and kube-controller-manager.
    pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
    /// Set by kube-controller-manager.
    pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
    /// Set by an administrator on a Node whose machine is off for good.
    pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
}

/// Annotations.
pub mod annotations {
    /// Set by a kubelet with an explicit `--node-ip`.
    pub const PROVIDED_NODE_IP: &str = "alpha.kubernetes.io/provided-node-ip";
    /// Set by users on a Service, before there was a field for it.
    pub const LOAD_BALANCER_SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
    /// Set by the kubelet on its Node.
    pub const CONTROLLER_MANAGED_ATTACH: &str = "volumes.kubernetes.io/controller-managed-attach-detach";
    /// Set by the provisioner on a volume that it made.
    pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
    /// Proposed (KEP-5778): the platform that a Node belongs to.
    pub const PLATFORM: &str = "cloudprovider.kubernetes.io/platform";
}

/// Labels on Nodes.
pub mod labels {
    /// The zone.
    pub const ZONE: &str = "topology.kubernetes.io/zone";
    /// The region.
    pub const REGION: &str = "topology.kubernetes.io/region";
    /// The zone, under its deprecated name.
    pub const ZONE_BETA: &str = "failure-domain.beta.kubernetes.io/zone";
    /// The region, under its deprecated name.
    pub const REGION_BETA: &str = "failure-domain.beta.kubernetes.io/region";
    /// The instance type.
    pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
    /// The instance type, under its deprecated name.
    pub const INSTANCE_TYPE_BETA: &str = "beta.kubernetes.io/instance-type";
    /// Keeps a Node out of load balancers; any value but a spelling of false does.
    pub const EXCLUDE_FROM_LOAD_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
    /// The host name.
    pub const HOSTNAME: &str = "kubernetes.io/hostname";
    /// On an EndpointSlice: the Service that it belongs to.
    pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
    /// The operating system.
    pub const OS: &str = "kubernetes.io/os";
    /// The processor architecture.
    pub const ARCH: &str = "kubernetes.io/arch";
    /// The role of control-plane nodes.
    pub const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
}

/// Finalizers.
pub mod finalizers {
    /// Holds a Service until its balancer is gone from the cloud.
    pub const LOAD_BALANCER_CLEANUP: &str = "service.kubernetes.io/load-balancer-cleanup";
}

/// Conditions of Nodes, and the reasons that the route controller gives.
pub mod conditions {
    /// Whether the kubelet is well.
    pub const READY: &str = "Ready";
    /// Whether the pod network is missing.
    pub const NETWORK_UNAVAILABLE: &str = "NetworkUnavailable";
    /// Why the pod network is there.
    pub const ROUTE_CREATED: &str = "RouteCreated";
    /// Why it is not.
    pub const NO_ROUTE_CREATED: &str = "NoRouteCreated";
    /// Maintenance is planned (KEP-5683).
    pub const MAINTENANCE_PLANNED: &str = "MaintenancePlanned";
    /// Maintenance goes on (KEP-5683).
    pub const MAINTENANCE_IN_PROGRESS: &str = "MaintenanceInProgress";
    /// The Node is being drained (KEP-5683).
    pub const DRAIN_IN_PROGRESS: &str = "DrainInProgress";
    /// The Node is drained (KEP-5683).
    pub const DRAINED: &str = "Drained";
    /// The kubelet shuts its Node down gracefully (KEP-5683).
    pub const GRACEFUL_SHUTDOWN: &str = "GracefulNodeShutdownInProgress";
}

/// Types of Node addresses.
pub mod address_types {
    /// An address inside the cloud's network.
    pub const INTERNAL_IP: &str = "InternalIP";
    /// An address that the world can reach.
    pub const EXTERNAL_IP: &str = "ExternalIP";
    /// A name inside the cloud's network.
    pub const INTERNAL_DNS: &str = "InternalDNS";
    /// A name that the world can resolve.
    pub const EXTERNAL_DNS: &str = "ExternalDNS";
    /// The host name.
    pub const HOSTNAME: &str = "Hostname";
}

/// How a balancer's address is to be treated by kube-proxy: `status.loadBalancer.ingress[].ipMode`.
pub mod ip_modes {
    /// Packets arrive with the balancer's address as destination.
    pub const VIP: &str = "VIP";
    /// Packets arrive with the node's or the pod's address as destination.
    pub const PROXY: &str = "Proxy";
}

/// Leases and the namespace they live in.
pub mod leases {
    /// Where leases, accounts and the authentication config live.
    pub const NAMESPACE: &str = "kube-system";
    /// The lease of the manager.
    pub const MANAGER: &str = "cloud-controller-manager";
    /// The second lease during a leader migration.
    pub const MIGRATION: &str = "cloud-provider-extraction-migration";
}

/// ConfigMaps.
pub mod config_maps {
    /// What delegated authentication needs, published by the API server.
    pub const AUTHENTICATION: &str = "extension-apiserver-authentication";
}

/// Service accounts in `kube-system`.
pub mod service_accounts {
    /// For both node controllers.
    pub const NODE_CONTROLLER: &str = "node-controller";
    /// For the service controller.
    pub const SERVICE_CONTROLLER: &str = "service-controller";
    /// For the route controller.
    pub const ROUTE_CONTROLLER: &str = "route-controller";
    /// Deprecated since 1.10.
    pub const CLOUD_PROVIDER: &str = "cloud-provider";
}

/// Who Events come from.
pub mod event_sources {
    /// The node controller.
    pub const NODE: &str = "cloud-node-controller";
    /// The node lifecycle controller.
    pub const NODE_LIFECYCLE: &str = "cloud-node-lifecycle-controller";
    /// The service controller.
    pub const SERVICE: &str = "service-controller";
    /// The route controller, with an underscore.
    pub const ROUTE: &str = "route_controller";
    /// The node IPAM controller.
    pub const CIDR_ALLOCATOR: &str = "cidrAllocator";
    /// The manager.
    pub const MANAGER: &str = "cloud-controller-manager";
}

/// Reasons of Events.
pub mod event_reasons {
    /// A Node is initialised.
    pub const SYNCED: &str = "Synced";
    /// A Node is about to be deleted, because its instance is gone.
    pub const DELETING_NODE: &str = "DeletingNode";
    /// It could not be deleted.
    pub const DELETING_NODE_FAILED: &str = "DeletingNodeFailed";
    /// A balancer is about to be made or changed.
    pub const ENSURING_LOAD_BALANCER: &str = "EnsuringLoadBalancer";
    /// A balancer is as it should be.
    pub const ENSURED_LOAD_BALANCER: &str = "EnsuredLoadBalancer";
    /// Something about a balancer failed.
    pub const SYNC_LOAD_BALANCER_FAILED: &str = "SyncLoadBalancerFailed";
    /// A balancer is about to be removed.
    pub const DELETING_LOAD_BALANCER: &str = "DeletingLoadBalancer";
    /// A balancer is gone.
    pub const DELETED_LOAD_BALANCER: &str = "DeletedLoadBalancer";
    /// A balancer of a Service that is gone could not be removed.
    pub const DELETE_LOAD_BALANCER_FAILED: &str = "DeleteLoadBalancerFailed";
    /// A balancer has new backends.
    pub const UPDATED_LOAD_BALANCER: &str = "UpdatedLoadBalancer";
    /// It could not be given new backends.
    pub const UPDATE_LOAD_BALANCER_FAILED: &str = "UpdateLoadBalancerFailed";
    /// No node can serve a balancer.
    pub const UNAVAILABLE_LOAD_BALANCER: &str = "UnAvailableLoadBalancer";
    /// A route could not be made.
    pub const FAILED_TO_CREATE_ROUTE: &str = "FailedToCreateRoute";
    /// The pod networks are used up.
    pub const CIDR_NOT_AVAILABLE: &str = "CIDRNotAvailable";
    /// A pod network could not be written to its Node.
    pub const CIDR_ASSIGNMENT_FAILED: &str = "CIDRAssignmentFailed";
    /// Who leads.
    pub const LEADER_ELECTION: &str = "LeaderElection";
}

/// Ports that the manager listens on.
pub mod ports {
    /// Health, metrics and the rest.
    pub const SECURE: u16 = 10258;
    /// Admission webhooks.
    pub const WEBHOOK: u16 = 10260;
}

/// Names of work queues, as metrics show them.
pub mod queues {
    /// The node controller's.
    pub const NODES: &str = "Nodes";
    /// The service controller's, for Services.
    pub const SERVICE: &str = "service";
    /// The service controller's, for Nodes.
    pub const NODE: &str = "node";
    /// The route controller's.
    pub const ROUTES: &str = "Routes";
    /// The node IPAM controller's.
    pub const CIDR_ALLOCATOR: &str = "cidrallocator_node";
}
