//! Whether an instance exists, while the cloud fails or lies: nobody may be called absent.

use cloud_provider::NodeRef;

use crate::conformance::check::{Stop, Verdict, checks, promised, skip};
use crate::conformance::objects::{asking, by_id, by_name};
use crate::conformance::play::Answer;
use crate::conformance::stand_in::{Aim, Calls, Fault, Instance};
use crate::conformance::{Stage, Time};

checks! { Existence,
    a_refused_credential_proves_no_absence =>
        "With a credential that is refused (401), every answer is Unknown.",
    a_forbidden_read_proves_no_absence =>
        "With a credential that may not read (403), every answer is Unknown.",
    throttling_proves_no_absence => "While the cloud throttles (429), nobody is Absent.",
    a_failing_cloud_proves_no_absence => "While the cloud fails (5xx), every answer is Unknown.",
    a_late_cloud_proves_no_absence => "While the cloud does not answer in time, every answer is Unknown.",
    a_hanging_cloud_proves_no_absence =>
        "While the cloud never answers, nobody is Absent, and the next look-up works again.",
    an_unreadable_answer_proves_no_absence =>
        "While the cloud's answers cannot be read, every answer is Unknown.",
    a_truncated_list_proves_no_absence =>
        "When a list stops before its end, what was not seen is Unknown; what was seen may be Found.",
    an_empty_inventory_proves_no_absence =>
        "When the inventory is empty, every answer is Unknown, not Absent.",
    a_failure_on_a_later_page_proves_no_absence => "When a later page of a list fails, nobody is Absent.",
    doubt_ends_with_its_cause =>
        "Once the cloud is well again, instances are Found again and deleted ones Absent.",
}

async fn a_refused_credential_proves_no_absence(stage: &Stage) -> Verdict {
    under(stage, Fault::Unauthorized).await
}

async fn a_forbidden_read_proves_no_absence(stage: &Stage) -> Verdict {
    under(stage, Fault::Forbidden).await
}

async fn throttling_proves_no_absence(stage: &Stage) -> Verdict {
    under(stage, Fault::Throttled(None)).await
}

async fn a_failing_cloud_proves_no_absence(stage: &Stage) -> Verdict {
    under(stage, Fault::Unavailable).await
}

async fn a_late_cloud_proves_no_absence(stage: &Stage) -> Verdict {
    under(stage, Fault::TimesOut).await
}

async fn a_hanging_cloud_proves_no_absence(stage: &Stage) -> Verdict {
    let (asked, a) = question(stage).await?;
    stage.stand_in.inject(Fault::Hangs, Aim::every(Calls::All)).await?;
    nobody_absent(&stage.look_up(&asked).await?, Fault::Hangs)?;
    stage.stand_in.heal().await;
    let answer = stage.look_up_one(by_id(&a)).await?;
    promised(answer.found_id() == Some(&a.provider_id), || format!("after the cloud hung: {answer:?}"))
}

async fn an_unreadable_answer_proves_no_absence(stage: &Stage) -> Verdict {
    under(stage, Fault::Unreadable).await
}

async fn a_truncated_list_proves_no_absence(stage: &Stage) -> Verdict {
    let asked = pages(stage).await?;
    stage.stand_in.inject(Fault::TruncatedList, Aim::every(Calls::Reads)).await?;
    nobody_absent(&stage.look_up(&asked).await?, Fault::TruncatedList)
}

async fn an_empty_inventory_proves_no_absence(stage: &Stage) -> Verdict {
    under(stage, Fault::EmptyInventory).await
}

async fn a_failure_on_a_later_page_proves_no_absence(stage: &Stage) -> Verdict {
    let asked = pages(stage).await?;
    let before = stage.calls().await.reads;
    stage.look_up(&asked).await?;
    let reads = stage.calls().await.reads - before;
    for after in 0..reads {
        stage.stand_in.inject(Fault::Unavailable, Aim::one(Calls::Reads, after)).await?;
        nobody_absent(&stage.look_up(&asked).await?, Fault::Unavailable)?;
        stage.stand_in.heal().await;
    }
    Ok(())
}

async fn doubt_ends_with_its_cause(stage: &Stage) -> Verdict {
    let (_, a) = question(stage).await?;
    let b = stage.start("node-gone").await?;
    stage.stand_in.delete_instance(&b).await?;
    stage.stand_in.inject(Fault::Unavailable, Aim::every(Calls::All)).await?;
    nobody_absent(&stage.look_up(&[by_id(&a), by_id(&b)]).await?, Fault::Unavailable)?;
    stage.stand_in.heal().await;
    let answers = stage.look_up(&[by_id(&a), by_id(&b)]).await?;
    promised(answers[0].found_id() == Some(&a.provider_id) && matches!(answers[1], Answer::Absent), || {
        format!("after the cloud recovered: {answers:?}")
    })
}

/// Asks while every call fails like this: nobody may be called absent, found or foreign.
async fn under(stage: &Stage, fault: Fault) -> Verdict {
    let (asked, _) = question(stage).await?;
    stage.stand_in.inject(fault, Aim::every(Calls::All)).await?;
    let answers = stage.look_up(&asked).await?;
    nobody_absent(&answers, fault)?;
    for (node, answer) in asked.iter().zip(&answers) {
        promised(matches!(answer, Answer::Unknown(_)), || {
            format!("under {fault:?}, about {} ({:?}): {answer:?}", node.name, node.provider_id)
        })?;
    }
    Ok(())
}

/// A question about an instance, by ID and by name, and about ones that never were.
async fn question(stage: &Stage) -> Result<(Vec<NodeRef>, Instance), Stop> {
    stage.instances()?;
    let a = stage.start("node-a").await?;
    stage.start("node-b").await?;
    let gone = format!("{}-gone", a.provider_id);
    Ok((vec![by_id(&a), by_name("node-b"), asking("node-gone", &gone), by_name("node-z")], a))
}

/// A question about more instances than one page holds.
async fn pages(stage: &Stage) -> Result<Vec<NodeRef>, Stop> {
    stage.instances()?;
    let size = stage.stand_in.page_size()?;
    if size > 50 && stage.stand_in.time() == Time::Real {
        return skip(format!("one page holds {size} instances, and this stand-in runs in real time"));
    }
    let mut asked = Vec::new();
    for index in 0..=2 * size {
        let instance = stage.start(&format!("node-{index}")).await?;
        asked.push(if index % 2 == 0 { by_id(&instance) } else { by_name(&instance.name) });
    }
    Ok(asked)
}

fn nobody_absent(answers: &[Answer], fault: Fault) -> Verdict {
    let wrong: Vec<&Answer> =
        answers.iter().filter(|answer| matches!(answer, Answer::Absent | Answer::NotMine)).collect();
    promised(wrong.is_empty(), || {
        format!("under {fault:?}, {} of {} answers were {:?}", wrong.len(), answers.len(), wrong[0])
    })
}
