//! What the reference pages of the documentation are made from: the same tables that the process runs on.

use std::fmt::Write as _;

use clap::Arg;
use cloud_provider::well_known::event_reasons;

use crate::app::controllers::{EventKind, TABLE};
use crate::app::{cloud_config as reload, metric_families};
use crate::command::{UPSTREAM_NAME, manager};
use crate::options::remarks::is_without_effect;
use crate::rbac::{self, Needs};

mod upstream;

pub use self::upstream::UPSTREAM;

/// The Events that the process writes whichever controllers run.
const EVENTS: &[EventKind] = &[
    EventKind::normal(event_reasons::LEADER_ELECTION, "Lease", "this process began or ceased to lead"),
    EventKind::normal(reload::RELOADED, "Lease", "a new version of the cloud config is in force"),
    EventKind::warning(
        reload::REJECTED,
        "Lease",
        "the cloud config on disk cannot be used and the last good one stays in force",
    ),
];

const GENERATED: &str = "<!-- Written by `make gen` from the code. Do not edit. -->\n";

/// The pages below docs/reference, by file name.
pub fn pages() -> Vec<(&'static str, String)> {
    vec![("flags.md", flags()), ("events.md", events()), ("metrics.md", metrics()), ("rbac.md", roles())]
}

/// Every flag, by group, with both defaults.
pub fn flags() -> String {
    let command = manager(UPSTREAM_NAME);
    let mut groups: Vec<(&str, Vec<&Arg>)> = Vec::new();
    for argument in command.get_arguments().filter(|argument| argument.get_long().is_some()) {
        let heading = argument.get_help_heading().unwrap_or("Global flags");
        match groups.iter_mut().find(|(known, _)| *known == heading) {
            Some((_, group)) => group.push(argument),
            None => groups.push((heading, vec![argument])),
        }
    }
    let mut page = format!(
        "# Flags\n\n{GENERATED}\nThe flags of `nephos run`, and of the binary called as `cloud-controller-manager`. A \
         default in brackets is that of the Go implementation, where ours differs.\n"
    );
    for (heading, arguments) in groups {
        let _ = writeln!(page, "\n## {heading}\n\n| Flag | Default | Meaning |\n|---|---|---|");
        for argument in arguments {
            let name = argument.get_long().unwrap_or_default();
            let _ = writeln!(
                page,
                "| `--{name}` | {} | {} |",
                default_cell(name, argument),
                meaning(name, argument)
            );
        }
    }
    page
}

fn default_cell(name: &str, argument: &Arg) -> String {
    let ours = default_of(argument);
    let show = |text: &str| if text.is_empty() { String::new() } else { format!("`{text}`") };
    match UPSTREAM.iter().find(|(known, _)| *known == name) {
        Some((_, theirs)) if *theirs != ours => format!("{} ({})", show(&ours), show(theirs)),
        Some(_) => show(&ours),
        None => format!("{} *ours*", show(&ours)).trim().to_owned(),
    }
}

fn meaning(name: &str, argument: &Arg) -> String {
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let mut text = help.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    if is_without_effect(name) && !text.contains("without effect") {
        text.push_str(" (without effect)");
    }
    text
}

/// A flag's default, as `--help` shows it.
pub fn default_of(argument: &Arg) -> String {
    let values = argument.get_default_values().iter().map(|value| value.to_string_lossy());
    values.collect::<Vec<_>>().join(",")
}

/// Every reason for which an Event is written.
pub fn events() -> String {
    let mut page =
        format!("# Events\n\n{GENERATED}\nWhat the manager says on objects: `kubectl describe` shows it.\n");
    let own = [(UPSTREAM_NAME, EVENTS)];
    for (name, events) in own.into_iter().chain(TABLE.iter().map(|row| (row.name, row.events))) {
        let _ = writeln!(page, "\n## {name}\n\n| Reason | Type | About | When |\n|---|---|---|---|");
        for event in events {
            let type_ = if event.warning { "Warning" } else { "Normal" };
            let _ = writeln!(page, "| `{}` | {type_} | {} | {} |", event.reason, event.about, event.when);
        }
    }
    page
}

/// Every metric family, as it is registered.
pub fn metrics() -> String {
    let mut page = format!(
        "# Metrics\n\n{GENERATED}\nWhat the manager serves at `/metrics` on its secure port, and what its health checks \
         answered at `/metrics/slis`. A family is shown once it has something to tell. Those that a provider keeps \
         beside these stand in its own documentation.\n"
    );
    for (whose, families) in metric_families() {
        let _ = writeln!(page, "\n## {whose}\n\n| Name | Type | Labels | Meaning |\n|---|---|---|---|");
        for family in families {
            let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
            let (name, type_, help) = (&family.name, &family.type_, family.help.replace('|', "\\|"));
            let _ = writeln!(page, "| `{name}` | {type_} | {} | {help} |", labels.join(", "));
        }
    }
    page
}

/// The rights of all controllers together, and how to get those of some.
pub fn roles() -> String {
    let needs = Needs {
        controllers: TABLE.iter().collect(),
        leases: vec![("kube-system".to_owned(), UPSTREAM_NAME.to_owned())],
        serving: true,
        lookup: true,
        own_accounts: false,
        endpoints: false,
    };
    let grants = rbac::grants(&needs);
    let mut page = format!(
        "# Rights\n\n{GENERATED}\n`nephos rbac` prints the roles for the flags it is given; these are those for the \
         defaults. With a provider that goes to the pods of Services (`--cloud-provider=local`) it also prints list and watch of \
         `endpointslices.discovery.k8s.io`. At start the manager asks the API server which of them it has, and names what is \
         missing.\n\n\
         | Resource | Verbs | Where | Without it |\n|---|---|---|---|\n"
    );
    for grant in grants.values().flatten() {
        let group =
            if grant.right.group.is_empty() { String::new() } else { format!(".{}", grant.right.group) };
        let place = match (&grant.namespace, &grant.name) {
            (Some(namespace), Some(name)) => format!("`{namespace}/{name}`"),
            (Some(namespace), None) => format!("namespace `{namespace}`"),
            (None, Some(name)) => format!("`{name}`"),
            (None, None) => "everywhere".to_owned(),
        };
        let without =
            grant.right.without.map_or("it does not work".to_owned(), |extra| format!("no {extra}"));
        let verbs = grant.right.verbs.join(", ");
        let _ = writeln!(page, "| `{}{group}` | {verbs} | {place} | {without} |", grant.right.resource);
    }
    let manifest = rbac::manifest(&grants, UPSTREAM_NAME, "kube-system");
    let _ = write!(page, "\n```yaml\n{manifest}```\n");
    page
}
