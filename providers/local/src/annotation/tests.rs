use std::collections::BTreeSet;

use cloud_provider::Decision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rstest::rstest;

use super::*;

fn service(annotations: &[(&str, &str)]) -> Service {
    let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    Service {
        metadata: ObjectMeta {
            annotations: Some(annotations.iter().map(pair).collect()),
            ..ObjectMeta::default()
        },
        ..Service::default()
    }
}

#[test]
fn a_service_that_says_nothing_gets_the_defaults_that_the_table_tells() {
    let silent = Asked::of(&Service::default()).unwrap();
    assert_eq!(silent.settings, Settings::default());
    let own: Vec<(&str, &str)> = ANNOTATIONS
        .iter()
        .filter(|row| row.key.starts_with(PREFIX) && !row.default.contains(' '))
        .map(|row| (row.key, row.default))
        .collect();
    assert!(own.len() > 10, "{own:?}");
    assert_eq!(Asked::of(&service(&own)).unwrap(), silent, "each default, written out, changes nothing");
}

#[test]
fn every_setting_can_be_set() {
    let asked = Asked::of(&service(&[
        ("local.nephos/balance", "least-connections"),
        ("local.nephos/proxy-protocol", "v2"),
        ("local.nephos/client-address", "kept"),
        ("local.nephos/health-check", "tcp"),
        ("local.nephos/health-interval", "2s"),
        ("local.nephos/health-timeout", "1.5s"),
        ("local.nephos/healthy-after", "3"),
        ("local.nephos/unhealthy-after", "4"),
        ("local.nephos/idle-timeout", "1h30m"),
        ("local.nephos/udp-idle-timeout", "5s"),
        ("local.nephos/max-connections", "1000"),
        ("local.nephos/drain-timeout", "10s"),
    ]))
    .unwrap();
    let usual = Settings::default();
    let settings = asked.settings;
    assert_eq!(settings.algorithm, Algorithm::LeastConnections);
    assert_eq!(settings.proxy_protocol, Some(ProxyProtocol::V2));
    assert_eq!(settings.client_address, ClientAddress::Kept);
    assert_eq!(asked.check, Check::Tcp);
    assert_eq!(
        settings.health_check,
        HealthCheck {
            interval: Duration::from_secs(2),
            timeout: Duration::from_millis(1500),
            healthy_after: 3,
            unhealthy_after: 4,
            ..usual.health_check
        }
    );
    assert_eq!(settings.idle_timeout, Duration::from_secs(5400));
    assert_eq!(settings.udp_idle_timeout, Duration::from_secs(5));
    assert_eq!((settings.connection_limit, settings.drain_timeout), (1000, Duration::from_secs(10)));
}

#[rstest]
#[case("local.nephos/addresses")]
#[case("metallb.io/loadBalancerIPs")]
#[case("metallb.universe.tf/loadBalancerIPs")]
#[case("kube-vip.io/loadbalancerIPs")]
fn the_addresses_of_other_balancers_users_are_understood(#[case] key: &str) {
    let asked = Asked::of(&service(&[(key, "192.0.2.7, 2001:db8::7")])).unwrap();
    assert_eq!(asked.addresses, ["192.0.2.7", "2001:db8::7"].map(|text| text.parse::<IpAddr>().unwrap()));
}

#[test]
fn pool_and_share_key_have_metallbs_words_too() {
    let asked = Asked::of(&service(&[
        ("metallb.io/address-pool", "lan"),
        ("local.nephos/address-pool", "lan"),
        ("metallb.universe.tf/allow-shared-ip", "dns"),
    ]))
    .unwrap();
    assert_eq!((asked.pool.as_deref(), asked.share_key.as_deref()), (Some("lan"), Some("dns")));
}

#[rstest]
#[case(&[("local.nephos/balance", "round-robbin")], "did you mean round-robin?")]
#[case(&[("local.nephos/balance", "random")], "expected one of round-robin, least-connections, source-hash")]
#[case(&[("local.nephos/idle-timeout", "90")], "no duration above zero")]
#[case(&[("local.nephos/idle-timeout", "0s")], "no duration above zero")]
#[case(&[("local.nephos/drain-timeout", "-1s")], "no duration above zero")]
#[case(&[("local.nephos/max-connections", "-1")], "no whole number")]
#[case(&[("local.nephos/healthy-after", "0")], "at least 1")]
#[case(&[("local.nephos/addresses", "192.0.2.7,")], "is no IP address")]
#[case(&[("local.nephos/address-pool", "lan"), ("metallb.io/address-pool", "wan")], "contradict each other")]
fn what_cannot_be_read_is_refused_with_the_reason(
    #[case] annotations: &[(&str, &str)],
    #[case] reason: &str,
) {
    let error = Asked::of(&service(annotations)).unwrap_err();
    assert_eq!(error.decision(), &Decision::InvalidConfig);
    assert!(error.report().contains(reason), "{}", error.report());
}

#[test]
fn a_slip_of_the_pen_is_told_with_what_was_meant() {
    let warnings = misspelt(&service(&[
        ("local.nephos/proxy-protokol", "v2"),
        ("local.nephos/weather", "fine"),
        ("local.nephos/balance", "round-robin"),
        ("example.org/else", "x"),
    ]));
    assert_eq!(
        warnings,
        [
            "The annotation local.nephos/proxy-protokol means nothing: did you mean local.nephos/proxy-protocol?",
            "The annotation local.nephos/weather means nothing"
        ]
    );
}

#[test]
fn every_row_of_the_table_has_a_key_of_its_own() {
    let keys: BTreeSet<&str> = ANNOTATIONS.iter().map(|row| row.key).collect();
    assert_eq!(keys.len(), ANNOTATIONS.len());
    for row in ANNOTATIONS {
        assert!(row.about.ends_with('.'), "{}", row.key);
        assert!(!row.key.starts_with(PREFIX) || !row.default.is_empty(), "{} tells no default", row.key);
    }
}

#[test]
fn the_guide_has_the_whole_table() {
    let guide = include_str!("../../../../docs/guides/local.md");
    for row in ANNOTATIONS {
        let value = match row.type_ {
            AnnotationType::Text => "text".to_owned(),
            AnnotationType::List => "list".to_owned(),
            AnnotationType::Duration => "duration".to_owned(),
            AnnotationType::Integer => "number".to_owned(),
            AnnotationType::OneOf(words) => {
                words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or ")
            }
            other => panic!("{other:?} has no word in the guide yet"),
        };
        let line = format!("| `{}` | {value} | {} | {} |\n", row.key, row.default, row.about);
        assert!(guide.contains(&line), "docs/guides/local.md lacks this line:\n{line}");
    }
}
