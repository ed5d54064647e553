//! The provider `local`, held to every promise of the contract.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "in a test, a panic is a finding")]

use testkit::conformance::{page, run};

mod conformance {
    mod plane;
    pub(super) mod room;
    pub(super) mod stand_in;
    mod table;
    mod trouble;
}

use conformance::room;
use conformance::stand_in::Site;

#[test]
fn the_provider_keeps_every_promise() {
    let report = run(&Site::in_process());
    println!("{report}");
    report.write().unwrap();
    report.assert_conforms();
    page::assert_on_record(&report, "local");
}

#[test]
fn the_provider_keeps_every_promise_with_the_data_plane_in_the_kernel() {
    let Some(room) = room::Room::enter() else { return };
    let report = run(&Site::in_kernel());
    println!("{report}");
    report.write_beside("nft").unwrap();
    report.assert_conforms();
    page::assert_on_record(&report, "local-nft");
    drop(room);
}
