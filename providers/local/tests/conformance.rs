//! The provider `local`, held to every promise of the contract.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "in a test, a panic is a finding")]

use testkit::conformance::{page, run};

mod conformance {
    mod plane;
    pub(super) mod stand_in;
    mod table;
    mod trouble;
}

use conformance::stand_in::Site;

#[test]
fn the_provider_keeps_every_promise() {
    let report = run(&Site::in_process());
    println!("{report}");
    report.write().unwrap();
    report.assert_conforms();
    page::assert_on_record(&report, "local");
}
