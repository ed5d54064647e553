//! The clock of the tests that bound real time, on a machine that is made to stand still.

use std::process::Command;
use std::time::Duration;

use testkit::Awake;
use tokio::time::{Instant, sleep};

#[tokio::test]
async fn time_stands_still_while_the_machine_does_and_goes_on_afterwards() {
    let (real, awake) = (Instant::now(), Awake::now());
    // This process is all of the machine that the clock knows.
    let stop = "kill -STOP $PPID && sleep 1; kill -CONT $PPID";
    assert!(Command::new("sh").args(["-c", stop]).status().unwrap().success());
    let (real, awake) = (real.elapsed(), awake.elapsed());
    assert!(real >= Duration::from_secs(1), "it did not stand still: {real:?}");
    assert!(awake < real / 2, "{awake:?} of {real:?}");

    let (goes_on, deadline) = (Awake::now(), Instant::now() + Duration::from_secs(60));
    while goes_on.elapsed() < Duration::from_millis(200) {
        assert!(Instant::now() < deadline, "the clock stopped");
        sleep(Duration::from_millis(10)).await;
    }
}
