//! The reference page of the conformance suite, held to the reports that the repository keeps. With `NEPHOS_BLESS=1` it
//! is written instead.

#[test]
fn the_page_is_made_of_the_reports_on_record() {
    testkit::conformance::page::assert_up_to_date();
}
