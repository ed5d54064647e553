//! An error is a decision for the caller, and a wrong one costs something.

use std::time::Duration;

use cloud_provider::load_balancer::Spec;
use cloud_provider::{Decision, Error};

use crate::conformance::Stage;
use crate::conformance::check::{Stop, Verdict, broken, checks, promised};
use crate::conformance::objects::web;
use crate::conformance::stand_in::{Aim, Calls, Fault};

checks! { Errors,
    throttling_is_called_throttling =>
        "When the cloud throttles (429), the decision is Throttled or RetryAfter, so that the caller slows \
         down.",
    the_wait_that_the_cloud_asks_for_is_passed_on =>
        "When the cloud says how long to wait, the decision says no less.",
    a_refused_credential_is_unauthorized =>
        "When the credential is refused (401 or 403), the decision is Unauthorized.",
    a_full_quota_is_called_so => "When the account has no room, the decision is QuotaExceeded.",
    a_failing_cloud_asks_for_a_retry =>
        "When the cloud fails (5xx), the decision is to retry: never NotFound, never a matter for a person.",
    a_late_cloud_asks_for_a_retry => "When the cloud does not answer in time, the decision is to retry.",
    a_failing_cloud_never_means_that_nothing_is_there =>
        "While the cloud fails, get is not None, update is not NotFound, and lists are not empty.",
    an_unreadable_answer_is_not_taken_for_a_vanished_balancer =>
        "An answer that cannot be read is an error to get, not None.",
    a_list_of_owned_objects_that_fails_is_an_error =>
        "A list of owned objects that stops before its end is an error, never a short list.",
    an_error_says_what_was_attempted =>
        "An error has a message of its own, and does not repeat its source in it.",
}

async fn throttling_is_called_throttling(stage: &Stage) -> Verdict {
    let spec = scene(stage).await?;
    for calls in [Calls::Reads, Calls::Writes] {
        for (what, error) in failures(stage, &spec, Fault::Throttled(None), calls).await? {
            promised(
                matches!(error.decision(), Decision::Throttled { .. } | Decision::RetryAfter { .. }),
                || format!("{what}, with throttled {calls:?}: {error:?}"),
            )?;
        }
    }
    Ok(())
}

async fn the_wait_that_the_cloud_asks_for_is_passed_on(stage: &Stage) -> Verdict {
    let spec = scene(stage).await?;
    let wait = Duration::from_secs(17);
    for (what, error) in failures(stage, &spec, Fault::Throttled(Some(wait)), Calls::All).await? {
        let told = match error.decision() {
            Decision::Throttled { after } => *after,
            Decision::RetryAfter { after } => Some(*after),
            _ => None,
        };
        promised(told.is_some_and(|told| told >= wait), || {
            format!("{what}: the cloud asks to wait {wait:?}, the decision is {:?}", error.decision())
        })?;
    }
    Ok(())
}

async fn a_refused_credential_is_unauthorized(stage: &Stage) -> Verdict {
    let spec = scene(stage).await?;
    for fault in [Fault::Unauthorized, Fault::Forbidden] {
        for (what, error) in failures(stage, &spec, fault, Calls::All).await? {
            promised(error.decision() == &Decision::Unauthorized, || {
                format!("{what}, under {fault:?}: {error:?}")
            })?;
        }
    }
    Ok(())
}

async fn a_full_quota_is_called_so(stage: &Stage) -> Verdict {
    let spec = scene(stage).await?;
    stage.stand_in.inject(Fault::QuotaExceeded, Aim::every(Calls::Writes)).await?;
    match stage.ensure(&spec).await {
        Ok(_) => broken("an ensure succeeded without room"),
        Err(error) => promised(error.decision() == &Decision::QuotaExceeded, || format!("{error:?}")),
    }
}

async fn a_failing_cloud_asks_for_a_retry(stage: &Stage) -> Verdict {
    let spec = scene(stage).await?;
    for calls in [Calls::Reads, Calls::Writes] {
        for (what, error) in failures(stage, &spec, Fault::Unavailable, calls).await? {
            retry(&what, &error)?;
        }
    }
    Ok(())
}

async fn a_late_cloud_asks_for_a_retry(stage: &Stage) -> Verdict {
    let spec = scene(stage).await?;
    for (what, error) in failures(stage, &spec, Fault::TimesOut, Calls::All).await? {
        retry(&what, &error)?;
    }
    Ok(())
}

async fn a_failing_cloud_never_means_that_nothing_is_there(stage: &Stage) -> Verdict {
    let spec = scene(stage).await?;
    stage.ensure(&spec).await.or_else(|error| broken(format!("ensuring the balancer failed: {error:?}")))?;
    for fault in [Fault::Unavailable, Fault::TimesOut, Fault::Unauthorized, Fault::Throttled(None)] {
        stage.stand_in.inject(fault, Aim::every(Calls::All)).await?;
        let got = stage.balancers()?.get(&spec).await;
        let updated = stage.balancers()?.update_backends(&spec, &stage.gate.changes()).await;
        let listed = stage.balancers()?.list_owned(&stage.cluster).await;
        stage.stand_in.heal().await;
        promised(got.is_err(), || format!("under {fault:?}, get tells {got:?}"))?;
        promised(listed.is_err(), || format!("under {fault:?}, the list is {listed:?}"))?;
        match updated {
            Ok(()) => broken(format!("under {fault:?}, an update succeeded")),
            Err(error) => {
                promised(error.decision() != &Decision::NotFound, || format!("under {fault:?}: {error:?}"))
            }
        }?;
    }
    Ok(())
}

async fn an_unreadable_answer_is_not_taken_for_a_vanished_balancer(stage: &Stage) -> Verdict {
    let spec = scene(stage).await?;
    stage.ensure(&spec).await.or_else(|error| broken(format!("ensuring the balancer failed: {error:?}")))?;
    stage.stand_in.inject(Fault::Unreadable, Aim::every(Calls::Reads)).await?;
    let got = stage.balancers()?.get(&spec).await;
    promised(got.is_err(), || format!("get tells {got:?}"))
}

async fn a_list_of_owned_objects_that_fails_is_an_error(stage: &Stage) -> Verdict {
    stage.balancers()?;
    for index in 0..stage.stand_in.page_size().map_or(2, |size| (size + 1).min(30)) {
        let uid = format!("{index:08}-8a51-4d0e-9d3e-0a4b5c6d7e8f");
        let service =
            crate::conformance::objects::bare(&format!("web-{index}"), &uid).port(80).on_node_port(30080);
        stage.ensured(&stage.spec(service, &[])?).await?;
    }
    for fault in [Fault::Unavailable, Fault::TruncatedList] {
        stage.stand_in.inject(fault, Aim::every(Calls::Reads)).await?;
        let listed = stage.balancers()?.list_owned(&stage.cluster).await;
        stage.stand_in.heal().await;
        promised(listed.is_err(), || {
            format!("under {fault:?}, {} entries are listed", listed.map_or(0, |all| all.len()))
        })?;
    }
    Ok(())
}

async fn an_error_says_what_was_attempted(stage: &Stage) -> Verdict {
    let spec = scene(stage).await?;
    for (what, error) in failures(stage, &spec, Fault::Unavailable, Calls::All).await? {
        let said = error.to_string();
        promised(!said.is_empty(), || format!("{what} failed without a word"))?;
        let source = std::error::Error::source(&error).map(ToString::to_string);
        promised(source.as_ref().is_none_or(|source| !said.contains(source.as_str())), || {
            format!("{what} repeats its source: {said:?} because of {source:?}")
        })?;
    }
    Ok(())
}

async fn scene(stage: &Stage) -> Result<Spec, Stop> {
    stage.balancers()?;
    let nodes = stage.start_all(&["node-a", "node-b"]).await?;
    stage.spec(web(), &nodes)
}

/// The errors of an ensure, and of a get where reads fail too, while calls fail like this.
async fn failures(
    stage: &Stage,
    spec: &Spec,
    fault: Fault,
    calls: Calls,
) -> Result<Vec<(String, Error)>, Stop> {
    let mut failures = Vec::new();
    let balancers = stage.balancers()?;
    stage.stand_in.inject(fault, Aim::every(calls)).await?;
    let changes = stage.gate.changes();
    let ensured = tokio::time::timeout(stage.patience(), balancers.ensure(spec, &changes)).await;
    match ensured {
        Ok(Err(error)) => failures.push(("ensure".to_owned(), error)),
        Ok(Ok(_)) => return broken(format!("an ensure succeeded while {calls:?} failed with {fault:?}")),
        Err(_) => {
            return broken(format!("an ensure under {fault:?} took longer than {:?}", stage.patience()));
        }
    }
    if calls != Calls::Writes {
        match balancers.get(spec).await {
            Err(error) => failures.push(("get".to_owned(), error)),
            Ok(seen) => return broken(format!("while {calls:?} failed with {fault:?}, get tells {seen:?}")),
        }
    }
    stage.stand_in.heal().await;
    Ok(failures)
}

fn retry(what: &str, error: &Error) -> Verdict {
    promised(
        matches!(
            error.decision(),
            Decision::Other | Decision::RetryAfter { .. } | Decision::Throttled { .. }
        ),
        || format!("{what}: {error:?}"),
    )
}
