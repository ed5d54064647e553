//! The calls by name: what faults are aimed at and what the counters and the log tell.

use std::fmt;

use cloud_provider::Verb;
use serde::{Deserialize, Serialize};

macro_rules! operations {
    ($($variant:ident $name:literal $verb:expr;)*) => {
        /// A call that a client of this cloud can make.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Operation {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl Operation {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name, as faults and counters spell it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What it does to an object; nothing for a read.
            pub fn verb(self) -> Option<Verb> {
                match self { $(Self::$variant => $verb,)* }
            }
        }
    };
}

operations! {
    ListInstances "list_instances" None;
    GetInstance "get_instance" None;
    ListAddresses "list_addresses" None;
    GetAddress "get_address" None;
    CreateAddress "create_address" Some(Verb::Create);
    TagAddress "tag_address" Some(Verb::Update);
    DeleteAddress "delete_address" Some(Verb::Delete);
    ListLoadBalancers "list_load_balancers" None;
    GetLoadBalancer "get_load_balancer" None;
    CreateLoadBalancer "create_load_balancer" Some(Verb::Create);
    UpdateLoadBalancer "update_load_balancer" Some(Verb::Update);
    SetBackends "set_backends" Some(Verb::Update);
    DeleteLoadBalancer "delete_load_balancer" Some(Verb::Delete);
    ListRoutes "list_routes" None;
    CreateRoute "create_route" Some(Verb::Create);
    DeleteRoute "delete_route" Some(Verb::Delete);
    ListVolumes "list_volumes" None;
    GetVolume "get_volume" None;
    CreateVolume "create_volume" Some(Verb::Create);
    ResizeVolume "resize_volume" Some(Verb::Update);
    AttachVolume "attach_volume" Some(Verb::Update);
    DetachVolume "detach_volume" Some(Verb::Update);
    DeleteVolume "delete_volume" Some(Verb::Delete);
    ListClusters "list_clusters" None;
}

impl Operation {
    /// Whether it changes something.
    pub fn is_write(self) -> bool {
        self.verb().is_some()
    }

    /// Whether it lists.
    pub fn is_list(self) -> bool {
        self.name().starts_with("list_")
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_spelt_the_same_for_serde_and_for_people() {
        for operation in Operation::ALL {
            assert_eq!(serde_json::to_value(operation).unwrap(), operation.name());
            let write = !(operation.name().starts_with("list_") || operation.name().starts_with("get_"));
            assert_eq!(operation.is_write(), write, "{operation}");
        }
    }
}
