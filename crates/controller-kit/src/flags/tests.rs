//! A small clap command with one flag of each kind, driven with what people type for a Go component.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use rstest::rstest;

use super::*;

fn command() -> Command {
    let scalar = |name: &'static str| Arg::new(name).long(name);
    go_style(Command::new("ccm").no_binary_name(true).disable_version_flag(true))
        .arg(scalar("v").short('v').value_parser(clap::value_parser!(u8)).default_value("0"))
        .arg(scalar("vmodule").default_value(""))
        .arg(
            scalar("leader-elect")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
                .default_value("true")
                .value_parser(boolean),
        )
        .arg(
            scalar("controllers")
                .value_delimiter(',')
                .allow_hyphen_values(true)
                .action(ArgAction::Append)
                .default_value("*"),
        )
        .arg(
            scalar("feature-gates")
                .value_delimiter(',')
                .action(ArgAction::Append)
                .value_parser(assignment(boolean)),
        )
        .arg(scalar("lease").value_parser(clap::value_parser!(GoDuration)).default_value("15s"))
        .arg(scalar("cluster-name").default_value("kubernetes"))
}

fn parse(line: &str) -> Result<ArgMatches, clap::Error> {
    let arguments = line.split_whitespace().map(OsString::from);
    command().try_get_matches_from(normalize(&command(), arguments))
}

/// What the command understood, in one line; the defaults are left out.
fn understood(line: &str) -> String {
    let matches = match parse(line) {
        Ok(matches) => matches,
        Err(error) => return format!("error: {:?}", error.kind()),
    };
    let mut said = Vec::new();
    let given = |name| matches.value_source(name) == Some(clap::parser::ValueSource::CommandLine);
    if given("v") {
        said.push(format!("v={}", matches.get_one::<u8>("v").unwrap()));
    }
    if given("leader-elect") {
        said.push(format!("leader-elect={}", matches.get_one::<bool>("leader-elect").unwrap()));
    }
    for name in ["vmodule", "cluster-name"] {
        if given(name) {
            said.push(format!("{name}={}", matches.get_one::<String>(name).unwrap()));
        }
    }
    if given("controllers") {
        let values: Vec<_> = matches.get_many::<String>("controllers").unwrap().cloned().collect();
        said.push(format!("controllers={values:?}"));
    }
    if given("feature-gates") {
        let pairs = matches.get_many::<(String, bool)>("feature-gates").unwrap().cloned();
        said.push(format!("feature-gates={:?}", merged(pairs)));
    }
    if given("lease") {
        said.push(format!("lease={}", matches.get_one::<GoDuration>("lease").unwrap()));
    }
    said.join(" ")
}

/// Proves: APP-1
#[rstest]
#[case("--v=2", "v=2")]
#[case("-v=2", "v=2")]
#[case("-v 2", "v=2")]
#[case("-v2", "v=2")]
#[case("--v 2", "v=2")]
#[case("-v=4 --v=2", "v=2")]
#[case("--leader-elect=true --leader-elect=false", "leader-elect=false")]
#[case("--leader-elect", "leader-elect=true")]
#[case("--leader-elect=false", "leader-elect=false")]
#[case("--leader-elect false", "error: UnknownArgument")]
#[case("--leader-elect=1", "leader-elect=true")]
#[case("--leader-elect=t", "leader-elect=true")]
#[case("--leader-elect=False", "leader-elect=false")]
#[case("--leader-elect=yes", "error: ValueValidation")]
#[case("--controllers=*,-route", r#"controllers=["*", "-route"]"#)]
#[case("--controllers=*,-route --controllers=node", r#"controllers=["*", "-route", "node"]"#)]
#[case("--controllers *,-route", r#"controllers=["*", "-route"]"#)]
#[case("--controllers -node_route", r#"controllers=["-node_route"]"#)]
#[case("--feature-gates=A=true,B=false", r#"feature-gates={"A": true, "B": false}"#)]
#[case("--feature-gates=A=true,B=false --feature-gates=A=f", r#"feature-gates={"A": false, "B": false}"#)]
#[case("--feature-gates=A", "error: ValueValidation")]
#[case("--leader_elect=false", "leader-elect=false")]
#[case("-leader-elect=false", "leader-elect=false")]
#[case("-leader_elect=false", "leader-elect=false")]
#[case("-vmodule=node*=4", "vmodule=node*=4")]
#[case("--cluster_name=my_cluster", "cluster-name=my_cluster")]
#[case("--no-such-flag", "error: UnknownArgument")]
#[case("--leader-el=false", "error: UnknownArgument")]
#[case("positional", "error: UnknownArgument")]
#[case("-- --leader_elect=false", "error: UnknownArgument")]
#[case("--lease=1m0s", "lease=1m0s")]
#[case("--lease 1.5h", "lease=1h30m0s")]
#[case("--lease=0", "lease=0s")]
#[case("--lease=-5s", "error: ValueValidation")]
#[case("--lease=15", "error: ValueValidation")]
fn a_command_line_for_a_go_component_is_understood(#[case] line: &str, #[case] expected: &str) {
    assert_eq!(understood(line), expected);
}

#[test]
fn nothing_after_the_double_dash_is_changed() {
    let arguments = ["--a_b=c_d", "--", "--e_f"].map(OsString::from);
    assert_eq!(normalize(&command(), arguments), ["--a-b=c_d", "--", "--e_f"]);
}

#[rstest]
#[case("15s", 15_000_000_000, "15s")]
#[case("1m", 60_000_000_000, "1m0s")]
#[case("1h", 3_600_000_000_000, "1h0m0s")]
#[case("12h", 43_200_000_000_000, "12h0m0s")]
#[case("1.5h", 5_400_000_000_000, "1h30m0s")]
#[case("1h15m30.918s", 4_530_918_000_000, "1h15m30.918s")]
#[case(".5s", 500_000_000, "500ms")]
#[case("1.s", 1_000_000_000, "1s")]
#[case("+5s", 5_000_000_000, "5s")]
#[case("1500us", 1_500_000, "1.5ms")]
#[case("2µs", 2_000, "2µs")]
#[case("2μs100ns", 2_100, "2.1µs")]
#[case("39h9m14.425s", 140_954_425_000_000, "39h9m14.425s")]
#[case("0.3333333333333333333h", 1_200_000_000_000 - 1, "19m59.999999999s")]
#[case("-0", 0, "0s")]
#[case("0s", 0, "0s")]
#[case("9223372036854775807ns", i64::MAX as u64, "2562047h47m16.854775807s")]
fn durations_are_read_and_printed_as_in_go(
    #[case] text: &str,
    #[case] nanoseconds: u64,
    #[case] printed: &str,
) {
    let duration: GoDuration = text.parse().unwrap();
    assert_eq!(duration.get(), Duration::from_nanos(nanoseconds));
    assert_eq!(duration.to_string(), printed);
}

#[rstest]
#[case("")]
#[case("-")]
#[case("3")]
#[case("s")]
#[case(".")]
#[case(".s")]
#[case("1..5s")]
#[case("1d")]
#[case("1 s")]
#[case("-1ns")]
#[case("9223372036854775808ns")]
#[case("3000000h")]
fn what_go_refuses_is_refused(#[case] text: &str) {
    assert!(text.parse::<GoDuration>().is_err());
}

proptest::proptest! {
    #[test]
    fn every_printed_duration_reads_back_as_itself(nanoseconds in 0..=i64::MAX as u64) {
        let duration = GoDuration::new(Duration::from_nanos(nanoseconds));
        proptest::prop_assert_eq!(duration.to_string().parse::<GoDuration>().unwrap(), duration);
    }
}
