//! What is granted, and what never is.

use super::*;
use crate::app::controllers::TABLE;

fn all() -> Needs {
    Needs {
        controllers: TABLE.iter().collect(),
        leases: vec![("kube-system".to_owned(), "cloud-controller-manager".to_owned())],
        serving: true,
        lookup: true,
        own_accounts: false,
        endpoints: false,
    }
}

#[test]
fn the_pods_behind_services_are_read_only_for_a_cloud_that_asks_for_them_and_only_for_load_balancers() {
    let rights = |needs: &Needs| manifest(&grants(needs), "ccm", "ns").contains("endpointslices");
    assert!(!rights(&all()));
    assert!(rights(&Needs { endpoints: true, ..all() }));
    let others = TABLE.iter().filter(|row| row.needs != Some(Capability::LoadBalancers)).collect();
    assert!(!rights(&Needs { endpoints: true, controllers: others, ..all() }));
}

#[test]
fn no_wildcard_no_secret_and_no_token_is_granted_unless_a_flag_needs_it() {
    let text = manifest(&grants(&all()), "cloud-controller-manager", "kube-system");
    for never in ["*", "secrets", "serviceaccounts/token"] {
        assert!(!text.contains(never), "{never} in\n{text}");
    }
    let own =
        manifest(&grants(&Needs { own_accounts: true, ..all() }), "cloud-controller-manager", "kube-system");
    assert!(own.contains("serviceaccounts/token"), "{own}");
    assert!(own.contains("name: \"system:cloud-controller-manager:node-controller\""), "{own}");
}

#[test]
fn what_is_not_enabled_asks_for_nothing() {
    let nothing = grants(&Needs::default());
    let text = manifest(&nothing, "ccm", "ns");
    for absent in ["nodes", "leases", "tokenreviews", "configmaps"] {
        assert!(!text.contains(absent), "{absent} in\n{text}");
    }
    assert!(text.contains("events"), "{text}");
}

#[test]
fn leases_are_granted_by_name_but_for_their_creation() {
    let text = manifest(&grants(&all()), "ccm", "ns");
    let role = text.split("---").find(|part| part.contains("kind: Role\n")).unwrap();
    assert!(
        role.contains(
            "resourceNames: [\"cloud-controller-manager\"]\n  verbs: [\"get\", \"watch\", \"update\"]"
        ),
        "{role}"
    );
    assert!(role.contains("resources: [\"leases\"]\n  verbs: [\"create\"]"), "{role}");
}
