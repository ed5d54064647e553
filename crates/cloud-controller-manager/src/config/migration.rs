//! Leader migration (KEP-2436): which controllers are led under a second lease that several components stand for, so that
//! one of them can hand a controller to the other and both never run it.

use serde::Deserialize;

use super::selection::canonical;
use crate::command::UPSTREAM_NAME;
use crate::options::given;
use crate::options::migration::MigrationOptions;
use cloud_provider::well_known::leases;

const GROUP: &str = "controllermanager.config.k8s.io";
const KIND: &str = "LeaderMigrationConfiguration";

/// The names of controllers before Kubernetes 1.28, which files still carry, and today's.
const RENAMED: [(&str, &str); 2] =
    [("service-controller", "service-lb-controller"), ("route-controller", "node-route-controller")];

/// The controllers that once ran in kube-controller-manager.
const DEFAULT: [&str; 3] =
    ["node-route-controller", "service-lb-controller", "cloud-node-lifecycle-controller"];

/// A migration that is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migration {
    /// The name of the second lease; its namespace is the first one's.
    pub leader_name: String,
    /// Controllers and the component that runs them, canonical names where we know them.
    leaders: Vec<(String, String)>,
}

/// Under which lease a controller is led.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The process' own.
    Main,
    /// The one of the migration.
    Migration,
    /// It is another component's.
    Elsewhere,
}

impl Migration {
    /// What the flags and the file say; `None` without a migration.
    pub(crate) fn read(options: &MigrationOptions) -> Result<Option<Self>, Vec<String>> {
        if !options.enable_leader_migration {
            return Ok(None);
        }
        let Some(path) = given(options.leader_migration_config.as_deref()) else {
            return Ok(Some(Self::default()));
        };
        let within = |error: String| format!("--leader-migration-config={}: {error}", path.display());
        let text = std::fs::read_to_string(&path).map_err(|error| vec![within(error.to_string())])?;
        parse(&text).map(Some).map_err(|errors| errors.into_iter().map(within).collect())
    }

    /// Under which lease a controller is led here.
    pub fn place(&self, controller: &str) -> Place {
        match self.leaders.iter().find(|(name, _)| name == controller) {
            None => Place::Main,
            Some((_, component)) if component == "*" || component == UPSTREAM_NAME => Place::Migration,
            Some(_) => Place::Elsewhere,
        }
    }
}

/// The default of upstream, under the names that the controllers have today.
impl Default for Migration {
    fn default() -> Self {
        let leaders = DEFAULT.iter().map(|name| ((*name).to_owned(), "*".to_owned())).collect();
        Self { leader_name: leases::MIGRATION.to_owned(), leaders }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    api_version: String,
    kind: String,
    #[serde(default)]
    leader_name: String,
    resource_lock: Option<String>,
    #[serde(default)]
    controller_leaders: Vec<Leader>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Leader {
    #[serde(default)]
    name: String,
    #[serde(default)]
    component: String,
}

fn parse(text: &str) -> Result<Migration, Vec<String>> {
    let file: File = serde_saphyr::from_str(text).map_err(|error| vec![error.to_string()])?;
    let mut errors = Vec::new();
    let version = file.api_version.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix('/'));
    if file.kind != KIND || !matches!(version, Some("v1" | "v1beta1" | "v1alpha1")) {
        errors.push(format!(
            "expected a {KIND} of {GROUP}/v1, v1beta1 or v1alpha1, found a {} of {}",
            file.kind, file.api_version
        ));
    }
    if file.leader_name.is_empty() {
        errors.push("leaderName must be set".to_owned());
    }
    match (version, file.resource_lock.as_deref()) {
        (Some("v1"), Some(_)) => {
            errors.push("resourceLock does not exist in v1: leases are implied".to_owned());
        }
        (_, None | Some("leases")) => {}
        (_, Some(other)) => errors.push(format!("resourceLock {other:?} is not supported: only leases is")),
    }
    for (at, leader) in file.controller_leaders.iter().enumerate() {
        if leader.name.is_empty() || leader.component.is_empty() {
            errors.push(format!("controllerLeaders[{at}] needs a name and a component"));
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let leaders = file.controller_leaders.into_iter().map(|leader| (today(&leader.name), leader.component));
    Ok(Migration { leader_name: file.leader_name, leaders: leaders.collect() })
}

/// The name that a controller goes by today.
fn today(name: &str) -> String {
    let renamed = RENAMED.iter().find(|(old, _)| *old == name).map(|(_, new)| *new);
    renamed.or_else(|| canonical(name)).unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
apiVersion: controllermanager.config.k8s.io/v1
kind: LeaderMigrationConfiguration
leaderName: moving
controllerLeaders:
- {name: service-controller, component: '*'}
- {name: cloud-node-lifecycle, component: cloud-controller-manager}
- {name: node-ipam-controller, component: kube-controller-manager}
";

    /// Proves: APP-38, APP-42
    #[test]
    fn an_entry_says_where_a_controller_is_led_under_old_names_too() {
        let migration = parse(FILE).unwrap();
        assert_eq!(migration.leader_name, "moving");
        assert_eq!(migration.place("service-lb-controller"), Place::Migration);
        assert_eq!(migration.place("cloud-node-lifecycle-controller"), Place::Migration);
        assert_eq!(migration.place("node-ipam-controller"), Place::Elsewhere);
        assert_eq!(migration.place("cloud-node-controller"), Place::Main);
    }

    /// Proves: APP-40, APP-41
    #[test]
    fn the_default_migrates_all_three_that_moved_under_their_names_of_today() {
        let migration = Migration::default();
        assert_eq!(migration.leader_name, "cloud-provider-extraction-migration");
        for name in DEFAULT {
            assert_eq!(migration.place(name), Place::Migration, "{name}");
        }
        assert_eq!(migration.place("cloud-node-controller"), Place::Main);
    }

    /// Proves: APP-38, APP-39
    #[test]
    fn what_upstream_refuses_is_refused_all_at_once() {
        let wrong = "apiVersion: controllermanager.config.k8s.io/v2\nkind: Other\nresourceLock: endpoints\n\
                     controllerLeaders: [{name: x}]\n";
        assert_eq!(parse(wrong).unwrap_err().len(), 4);
        for (text, part) in [
            (format!("{FILE}extra: 1\n"), "extra"),
            (format!("{FILE}leaderName: again\n"), "leaderName"),
            (format!("{FILE}resourceLock: leases\n"), "does not exist in v1"),
        ] {
            let errors = parse(&text).unwrap_err().join("; ");
            assert!(errors.contains(part), "{part} is missing in {errors}");
        }
        let old = FILE.replace("/v1", "/v1beta1") + "resourceLock: leases\n";
        assert!(parse(&old).is_ok());
    }
}
