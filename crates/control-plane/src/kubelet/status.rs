//! What a kubelet reports about its machine: conditions, capacity, versions. Pure; addresses are in `address`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerImage, DaemonEndpoint, NodeCondition, NodeDaemonEndpoints, NodeStatus, NodeSystemInfo,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use uuid::Uuid;

use super::Kubelet;

/// The conditions that a kubelet owns, in its order, with what a healthy machine says. `NetworkUnavailable` is not among
/// them: that one belongs to the cloud's route controller.
const CONDITIONS: [(&str, &str, &str, &str); 4] = [
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
];

impl Kubelet {
    pub(super) fn set_machine(&self, status: &mut NodeStatus, now: Timestamp) {
        let resources = |pairs: [(&str, &str); 4]| -> BTreeMap<String, Quantity> {
            pairs.map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned()))).into()
        };
        let capacity =
            [("cpu", "4"), ("memory", "16Gi"), ("ephemeral-storage", "102330404Ki"), ("pods", "110")];
        let allocatable =
            [("cpu", "4"), ("memory", "16282Mi"), ("ephemeral-storage", "94307700283"), ("pods", "110")];
        status.capacity = Some(resources(capacity));
        status.allocatable = Some(resources(allocatable));
        status.daemon_endpoints =
            Some(NodeDaemonEndpoints { kubelet_endpoint: Some(DaemonEndpoint { port: 10250 }) });
        status.node_info = Some(self.system_info());
        status.images = (self.images > 0).then(|| (0..self.images).map(image).collect());
        for condition in CONDITIONS {
            self.set_condition(status.conditions.get_or_insert_default(), condition, now);
        }
    }

    fn set_condition(
        &self,
        conditions: &mut Vec<NodeCondition>,
        (kind, status, reason, message): (&str, &str, &str, &str),
        now: Timestamp,
    ) {
        let unready = kind == "Ready" && !self.ready;
        let (status, reason, message) = if unready {
            ("False", "KubeletNotReady", "container runtime network not ready: cni plugin not initialized")
        } else {
            (status, reason, message)
        };
        let old = conditions.iter().position(|condition| condition.type_ == kind);
        let unchanged = old.map(|at| &conditions[at]).filter(|old| old.status == status);
        let since = unchanged.and_then(|old| old.last_transition_time.clone());
        let new = NodeCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_heartbeat_time: Some(Time(now)),
            last_transition_time: Some(since.unwrap_or(Time(now))),
        };
        match old {
            Some(at) => conditions[at] = new,
            None => conditions.push(new),
        }
    }

    /// Identities come from the Node's name, so that a machine keeps them when it registers again.
    fn system_info(&self) -> NodeSystemInfo {
        let identity =
            |of: &str| Uuid::new_v5(&Uuid::NAMESPACE_DNS, format!("{of}.{}", self.name).as_bytes());
        NodeSystemInfo {
            machine_id: identity("machine").simple().to_string(),
            system_uuid: identity("system").to_string(),
            boot_id: identity("boot").to_string(),
            kernel_version: "6.12.0".to_owned(),
            os_image: "Debian GNU/Linux 13 (trixie)".to_owned(),
            container_runtime_version: "containerd://2.1.0".to_owned(),
            kubelet_version: self.version.clone(),
            // Kept empty since 1.33: a kubelet does not know its proxy's version.
            kube_proxy_version: String::new(),
            operating_system: self.os.to_owned(),
            architecture: self.arch.clone(),
            ..NodeSystemInfo::default()
        }
    }
}

fn image(number: usize) -> ContainerImage {
    let digest = Uuid::new_v5(&Uuid::NAMESPACE_OID, &number.to_be_bytes()).simple().to_string();
    let repository = format!("registry.example/team/application-{number}");
    let names = vec![format!("{repository}@sha256:{digest}{digest}"), format!("{repository}:v1.{number}.0")];
    ContainerImage { names: Some(names), size_bytes: Some(50_000_000) }
}
