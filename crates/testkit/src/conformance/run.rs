//! Plays checks: each in a runtime of its own, over a cloud of its own, with a deadline, and with a panic taken as a
//! broken promise.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::check::{Check, Stop, Verdict, broken};
use super::report::{Finding, Outcome, Report};
use super::stand_in::{Count, Manners, StandIn};
use super::{Stage, Time, checks};

/// Holds a provider to every promise.
pub fn run(stand_in: &Arc<dyn StandIn>) -> Report {
    run_where(stand_in, |_| true)
}

/// Holds a provider to the promises that are asked for.
pub fn run_where(stand_in: &Arc<dyn StandIn>, asked_for: impl Fn(&Check) -> bool) -> Report {
    let began = now();
    let findings: Vec<Finding> =
        checks::all().filter(|check| asked_for(check)).map(|check| play(check, stand_in)).collect();
    Report {
        provider: stand_in.provider().to_owned(),
        stand_in: stand_in.title(),
        time: stand_in.time().to_string(),
        findings,
        took: now().duration_since(began),
    }
}

fn play(check: &Check, stand_in: &Arc<dyn StandIn>) -> Finding {
    let (verdict, calls) = match runtime(stand_in.time()) {
        Ok(runtime) => runtime.block_on(on_a_stage(check, stand_in)),
        Err(error) => (broken(format!("no runtime: {error}")), Count::default()),
    };
    Finding {
        group: check.group.name().to_owned(),
        check: check.id.to_owned(),
        promise: check.promise.to_owned(),
        outcome: match verdict {
            Ok(()) => Outcome::Kept,
            Err(Stop::Broken(seen)) => Outcome::Broken { seen },
            Err(Stop::Skipped(reason)) => Outcome::Skipped { reason },
        },
        calls: Some(calls),
    }
}

async fn on_a_stage(check: &Check, stand_in: &Arc<dyn StandIn>) -> (Verdict, Count) {
    let limit = match stand_in.time() {
        Time::Virtual => Duration::from_secs(30 * 24 * 3600),
        Time::Real => Duration::from_secs(120),
    };
    let mut spent = Count::default();
    let played = AssertUnwindSafe(async {
        let stage = Stage::set(Arc::clone(stand_in), Manners::default()).await?;
        let verdict = (check.run)(&stage).await;
        spent = stage.spent().await;
        verdict
    });
    let verdict = match timeout(limit, played.catch_unwind()).await {
        Ok(Ok(verdict)) => verdict,
        Ok(Err(panic)) => broken(format!("the provider panicked: {}", words(&*panic))),
        Err(_) => broken(format!("not finished within {limit:?}")),
    };
    (verdict, spent)
}

fn runtime(time: Time) -> std::io::Result<Runtime> {
    let mut builder = Builder::new_current_thread();
    builder.enable_all();
    if time == Time::Virtual {
        builder.start_paused(true);
    }
    builder.build()
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
        .unwrap_or_else(|| "without a word".to_owned())
}

#[expect(
    clippy::disallowed_methods,
    reason = "tells how long the suite took in truth; no check depends on it"
)]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}
