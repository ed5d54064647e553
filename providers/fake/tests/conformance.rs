//! The fake cloud's provider, held to every promise of the contract, in the process and over HTTP.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "in a test, a panic is a finding")]

use testkit::conformance::{page, run};

mod conformance {
    pub(super) mod between;
    mod shown;
    pub(super) mod stand_in;
    pub(super) mod wire;
}

use conformance::stand_in::FakeStandIn;

/// Proves: IFACE-2, IFACE-11, IFACE-13, IFACE-14, IFACE-15, IFACE-21, IFACE-24, IFACE-28, IFACE-33, IFACE-34
#[test]
fn the_fake_keeps_every_promise_in_the_process() {
    let report = run(&FakeStandIn::in_process());
    println!("{report}");
    report.write().unwrap();
    report.assert_conforms();
    page::assert_on_record(&report, "fake");
}

#[test]
fn the_fake_keeps_every_promise_over_http() {
    let report = run(&FakeStandIn::over_http());
    println!("{report}");
    report.write_beside("http").unwrap();
    report.assert_conforms();
    page::assert_on_record(&report, "fake-http");
}
