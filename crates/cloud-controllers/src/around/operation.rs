//! What can be asked of a cloud: the label `operation` of the call metrics, and the kind that decides the deadline.

use std::time::Duration;

/// One method of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `Instances::lookup`.
    LookUpInstances,
    /// `LoadBalancers::get`.
    GetLoadBalancer,
    /// `LoadBalancers::ensure`.
    EnsureLoadBalancer,
    /// `LoadBalancers::update_backends`.
    UpdateBackends,
    /// `LoadBalancers::delete`.
    DeleteLoadBalancer,
    /// `LoadBalancers::list_owned`.
    ListOwned,
    /// `Routes::list`.
    ListRoutes,
    /// `Routes::create`.
    CreateRoute,
    /// `Routes::delete`.
    DeleteRoute,
    /// `Volumes::create`.
    CreateVolume,
    /// `Volumes::delete`.
    DeleteVolume,
    /// `Volumes::attach`.
    AttachVolume,
    /// `Volumes::detach`.
    DetachVolume,
    /// `Volumes::resize`.
    ResizeVolume,
    /// `Volumes::get`.
    GetVolume,
    /// `Volumes::list`.
    ListVolumes,
    /// `Volumes::labels_for`.
    LabelVolume,
    /// `Clusters::list`.
    ListClusters,
    /// `Clusters::control_plane_address`.
    GetControlPlaneAddress,
}

/// What kind of call it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One question about many nodes.
    LookUp,
    /// Another question.
    Read,
    /// A call that may change something.
    Write,
}

impl Operation {
    /// INVARIANT: dashboards and alerts stand on these names.
    pub fn name(self) -> &'static str {
        match self {
            Self::LookUpInstances => "lookup_instances",
            Self::GetLoadBalancer => "get_load_balancer",
            Self::EnsureLoadBalancer => "ensure_load_balancer",
            Self::UpdateBackends => "update_backends",
            Self::DeleteLoadBalancer => "delete_load_balancer",
            Self::ListOwned => "list_owned",
            Self::ListRoutes => "list_routes",
            Self::CreateRoute => "create_route",
            Self::DeleteRoute => "delete_route",
            Self::CreateVolume => "create_volume",
            Self::DeleteVolume => "delete_volume",
            Self::AttachVolume => "attach_volume",
            Self::DetachVolume => "detach_volume",
            Self::ResizeVolume => "resize_volume",
            Self::GetVolume => "get_volume",
            Self::ListVolumes => "list_volumes",
            Self::LabelVolume => "label_volume",
            Self::ListClusters => "list_clusters",
            Self::GetControlPlaneAddress => "get_control_plane_address",
        }
    }

    /// What kind of call it is.
    pub fn kind(self) -> Kind {
        match self {
            Self::LookUpInstances => Kind::LookUp,
            Self::GetLoadBalancer
            | Self::ListOwned
            | Self::ListRoutes
            | Self::GetVolume
            | Self::ListVolumes
            | Self::LabelVolume
            | Self::ListClusters
            | Self::GetControlPlaneAddress => Kind::Read,
            Self::EnsureLoadBalancer
            | Self::UpdateBackends
            | Self::DeleteLoadBalancer
            | Self::CreateRoute
            | Self::DeleteRoute
            | Self::CreateVolume
            | Self::DeleteVolume
            | Self::AttachVolume
            | Self::DetachVolume
            | Self::ResizeVolume => Kind::Write,
        }
    }
}

/// How long calls may take before they are given up, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// A look-up of many nodes.
    pub look_up: Duration,
    /// Another question.
    pub read: Duration,
    /// A call that may change something. Given up, it may have changed it; the next one finds out.
    pub write: Duration,
    /// How long a call may wait for its turn before it is sent back to its queue.
    pub turn: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        let minute = Duration::from_secs(60);
        Self { look_up: minute, read: minute, write: minute, turn: minute }
    }
}

impl Deadlines {
    /// The deadline of this operation.
    pub fn of(&self, operation: Operation) -> Duration {
        match operation.kind() {
            Kind::LookUp => self.look_up,
            Kind::Read => self.read,
            Kind::Write => self.write,
        }
    }
}
