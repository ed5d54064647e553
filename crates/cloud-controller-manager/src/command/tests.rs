//! Command lines, good and bad.

use std::ffi::OsString;

use cloud_provider::{Cloud, Provider};
use rstest::rstest;

use super::*;

const PROXY: cloud_provider::Command = cloud_provider::Command {
    name: "proxy",
    about: "Forward",
    usage: "[--listen ADDRESS]",
    run: |_| Box::pin(async { Ok(()) }),
};
const LOCAL: Provider =
    Provider::new("local", "here", |_| Box::pin(async { Ok(Cloud::new("local")) })).with_commands(&[PROXY]);

fn read(line: &str) -> Result<Action, clap::Error> {
    let registry = Registry::new([LOCAL]).unwrap();
    parse("nephos", &registry, line.split_whitespace().map(OsString::from).collect())
}

#[test]
fn the_command_is_well_formed() {
    all_in_one("nephos", &Registry::new([LOCAL]).unwrap()).debug_assert();
    manager(UPSTREAM_NAME).debug_assert();
}

/// Proves: APP-1
#[rstest]
#[case("nephos run --cloud-provider=local --leader_elect=false")]
#[case("/usr/local/bin/cloud-controller-manager --cloud-provider=local --leader-elect=0")]
#[case("cloud-controller-manager -cloud-provider=local --leader-elect=true --leader-elect=f")]
fn both_names_read_the_same_flags(#[case] line: &str) {
    let Action::Run(options) = read(line).unwrap() else { panic!("not a run") };
    assert_eq!(options.cloud.cloud_provider, "local");
    assert!(!options.leader.leader_elect);
}

/// Proves: APP-1
#[rstest]
#[case("cloud-controller-manager now")]
#[case("nephos run --cloud-providr=local")]
#[case("nephos run --leader-elect=maybe")]
#[case("nephos walk")]
fn what_upstream_refuses_is_refused(#[case] line: &str) {
    match read(line) {
        Ok(Action::Run(options)) => assert!(!options.mistakes.is_empty(), "{line}"),
        Ok(other) => panic!("{line}: {other:?}"),
        Err(error) => assert!(error.use_stderr(), "{line}"),
    }
}

/// Proves: APP-1
#[test]
fn all_flags_that_cannot_be_read_are_told_at_once_with_what_was_meant() {
    let line =
        "nephos run --cloud-providr=local --leader-elect=maybe --kube-api-qps ten --cluster-name=x now";
    let Action::Run(options) = read(line).unwrap() else { panic!("not a run") };
    let told = options.mistakes.join("\n");
    for part in ["--cloud-provider", "maybe", "ten", "now"] {
        assert!(told.contains(part), "{part} is missing in:\n{told}");
    }
    assert_eq!(options.cloud.cluster_name, "x", "what can be read is read");
}

/// Proves: APP-2
#[rstest]
#[case("nephos run --version", false)]
#[case("cloud-controller-manager --version=raw", true)]
#[case("nephos version", false)]
fn a_question_for_the_version_is_answered_before_anything_else(#[case] line: &str, #[case] wanted: bool) {
    let Action::Print(Page::Version { raw }) = read(line).unwrap() else { panic!("not a version") };
    assert_eq!(raw, wanted);
}

#[test]
fn a_file_speaks_where_the_command_line_is_silent() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let text = "cloud-provider: local\ncontrollers: ['*', -cloud-node]\nleader-elect: false\n\
                feature-gates: {WatchList: false}\nv: 4\ncluster-name: of-the-file\n";
    std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    let path = file.path().display();
    let line = format!("cloud-controller-manager --config={path} --cluster_name=typed");
    let Action::Run(options) = read(&line).unwrap() else { panic!("not a run") };
    assert_eq!(options.mistakes, Vec::<String>::new());
    assert_eq!(
        (options.cloud.cloud_provider.as_str(), options.cloud.cluster_name.as_str()),
        ("local", "typed")
    );
    assert_eq!(options.controllers.controllers, ["*", "-cloud-node"]);
    assert_eq!(options.generic.feature_gates, ["WatchList=false"]);
    assert!(!options.leader.leader_elect);
    assert_eq!(options.logging.verbosity, 4);
}

#[test]
fn everything_wrong_in_a_file_is_told_at_once() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let text = "cloud-providr: local\nleader-elect: maybe\nconfig: other\ncluster-name: {a: [1]}\n";
    std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    let line = format!("nephos run --config {}", file.path().display());
    let Action::Run(options) = read(&line).unwrap() else { panic!("not a run") };
    let told = options.mistakes.join("\n");
    for part in ["\"cloud-provider\"", "maybe", "\"config\" is not", "cluster-name: expected"] {
        assert!(told.contains(part), "{part} is missing in:\n{told}");
    }
    let Action::Run(options) = read("nephos run --config=/nowhere/at/all").unwrap() else {
        panic!("not a run")
    };
    assert!(options.mistakes[0].contains("/nowhere/at/all"), "{:?}", options.mistakes);
}

#[test]
fn the_roles_are_those_for_the_flags_of_the_file_too() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut file, b"controllers: [cloud-node]\nleader-elect: false\n").unwrap();
    let path = file.path().display();
    let roles = |line: &str| {
        let Action::Print(Page::Rbac(options)) = read(line).unwrap() else { panic!("not the roles") };
        crate::print::roles(&options, &Registry::new([LOCAL]).unwrap())
    };
    let typed = roles("nephos rbac --controllers=cloud-node --leader-elect=false").unwrap();
    assert_eq!(roles(&format!("nephos rbac --config={path}")).unwrap(), typed);
    assert!(!typed.contains("leases") && !typed.contains("services"), "{typed}");
    let wrong = roles("nephos rbac --config=/nowhere/at/all --leader-elect=maybe").unwrap_err().to_string();
    assert!(wrong.contains("/nowhere/at/all") && wrong.contains("maybe"), "{wrong}");
}

#[test]
fn flags_that_are_deprecated_or_change_nothing_are_remarked_on_when_given() {
    let Action::Run(options) = read("nephos run --node-sync-period=1s --min-resync-period=1h").unwrap()
    else {
        panic!("not a run")
    };
    assert_eq!(options.remarks.len(), 2, "{:?}", options.remarks);
    assert!(options.remarks.iter().any(|remark| remark.contains("has been deprecated")));
}

#[test]
fn a_providers_command_gets_its_own_arguments_untouched() {
    let Action::Provider { command, arguments } =
        read("nephos local proxy --listen_on 127.0.0.1:0 x").unwrap()
    else {
        panic!("not a provider's command")
    };
    assert_eq!(command.name, "proxy");
    assert_eq!(arguments[1..], ["127.0.0.1:0", "x"]);
}

#[test]
fn each_command_says_what_it_is_for() {
    let registry = Registry::new([LOCAL]).unwrap();
    for command in all_in_one("nephos", &registry).get_subcommands() {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        assert!(!about.is_empty() && !about.starts_with("Everything"), "{}: {about}", command.get_name());
    }
}
