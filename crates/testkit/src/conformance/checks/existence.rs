//! Whether an instance exists, while the cloud is well.

use cloud_provider::Existence;

use crate::conformance::check::{Verdict, broken, checks, equal, promised, skip};
use crate::conformance::objects::{asking, by_id, by_name};
use crate::conformance::play::Answer;
use crate::conformance::{Stage, stand_in};

checks! { Existence,
    an_instance_is_found_by_its_provider_id =>
        "A Node whose provider ID names an instance gets that instance.",
    an_instance_is_found_by_name_while_there_is_no_provider_id =>
        "A Node without a provider ID gets the instance of its name.",
    the_provider_id_wins_over_the_name =>
        "A provider ID decides alone: an instance of the same name is another instance.",
    a_deleted_instance_is_absent => "An instance that the cloud says is gone is Absent, with evidence.",
    a_name_that_nobody_has_is_not_found => "A Node whose name no instance has gets no instance.",
    a_stopped_instance_exists =>
        "A stopped instance is Found, and not said to be running where the cloud can tell.",
    a_foreign_scheme_is_not_mine =>
        "A Node whose provider ID has another cloud's scheme is NotMine, whatever it is called.",
    an_unreadable_provider_id_is_unknown =>
        "A provider ID of our scheme that cannot be read is Unknown; one without any scheme is never Absent \
         and never Found.",
    two_instances_of_one_name_are_ambiguous =>
        "Two instances of one name are Unknown to a Node of that name; none is picked.",
    answers_come_in_the_order_asked => "There is one answer per node, in the order asked.",
    a_node_asked_for_twice_is_answered_twice => "A node that is asked for twice gets the same answer twice.",
    no_nodes_get_no_answers => "A look-up of no nodes succeeds with no answers.",
    a_change_is_seen_when_asked_for_now =>
        "A look-up that asks for now sees an instance that was just made, and misses one that is just gone.",
    a_list_tells_of_an_instance_what_a_look_up_tells =>
        "A list, from clouds that give one, says of each instance in it what a look-up says of it.",
    looking_up_changes_nothing => "A look-up writes nothing to the cloud.",
}

async fn an_instance_is_found_by_its_provider_id(stage: &Stage) -> Verdict {
    stage.instances()?;
    let [a, _] = &pair(stage).await?;
    found(&stage.look_up_one(by_id(a)).await?, a)
}

async fn an_instance_is_found_by_name_while_there_is_no_provider_id(stage: &Stage) -> Verdict {
    stage.instances()?;
    let [_, b] = &pair(stage).await?;
    found(&stage.look_up_one(by_name("node-b")).await?, b)
}

async fn the_provider_id_wins_over_the_name(stage: &Stage) -> Verdict {
    stage.instances()?;
    let [a, b] = &pair(stage).await?;
    found(&stage.look_up_one(asking("node-b", &a.provider_id)).await?, a)?;
    stage.stand_in.delete_instance(a).await?;
    let reborn = stage.start("node-a").await?;
    promised(reborn.provider_id != a.provider_id, || "the stand-in reuses provider IDs".to_owned())?;
    let answers = stage.look_up(&[by_id(a), by_id(&reborn), by_id(b)]).await?;
    promised(matches!(answers[0], Answer::Absent), || {
        format!(
            "{} was deleted and {} made under its name; about the old one: {:?}",
            a.provider_id, reborn.provider_id, answers[0]
        )
    })?;
    found(&answers[1], &reborn)
}

async fn a_deleted_instance_is_absent(stage: &Stage) -> Verdict {
    stage.instances()?;
    let [a, b] = &pair(stage).await?;
    stage.stand_in.delete_instance(a).await?;
    let answers = stage.look_up(&[by_id(a), by_id(b)]).await?;
    promised(matches!(answers[0], Answer::Absent), || format!("about a deleted instance: {:?}", answers[0]))?;
    found(&answers[1], b)
}

async fn a_name_that_nobody_has_is_not_found(stage: &Stage) -> Verdict {
    stage.instances()?;
    pair(stage).await?;
    let answer = stage.look_up_one(by_name("node-z")).await?;
    promised(matches!(answer, Answer::Absent | Answer::Unknown(_)), || {
        format!("about a name that nobody has: {answer:?}")
    })
}

async fn a_stopped_instance_exists(stage: &Stage) -> Verdict {
    stage.instances()?;
    let [a, b] = &pair(stage).await?;
    stage.stand_in.stop_instance(a).await?;
    let answers = stage.look_up(&[by_id(a), by_id(b)]).await?;
    found(&answers[0], a)?;
    found(&answers[1], b)?;
    let powers: Vec<_> = answers.iter().map(power).collect();
    promised(powers[0] != Some(cloud_provider::Power::On), || {
        "a stopped instance is said to run".to_owned()
    })?;
    promised(powers[1] != Some(cloud_provider::Power::Off), || {
        "a running instance is said to be off".to_owned()
    })
}

async fn a_foreign_scheme_is_not_mine(stage: &Stage) -> Verdict {
    stage.instances()?;
    pair(stage).await?;
    let longer = format!("{}x://node-a", stage.stand_in.provider());
    for id in ["elsewhere:///zone-1/i-0123456789", "elsewhere://node-a", longer.as_str()] {
        let answer = stage.look_up_one(asking("node-a", id)).await?;
        promised(matches!(answer, Answer::NotMine), || format!("about provider ID {id:?}: {answer:?}"))?;
    }
    Ok(())
}

async fn an_unreadable_provider_id_is_unknown(stage: &Stage) -> Verdict {
    stage.instances()?;
    pair(stage).await?;
    let empty = format!("{}://", stage.stand_in.provider());
    let answer = stage.look_up_one(asking("node-a", &empty)).await?;
    promised(matches!(answer, Answer::Unknown(_)), || format!("about provider ID {empty:?}: {answer:?}"))?;
    for id in ["://node-a", "no scheme at all"] {
        let answer = stage.look_up_one(asking("node-a", id)).await?;
        promised(matches!(answer, Answer::Unknown(_) | Answer::NotMine), || {
            format!("about provider ID {id:?}: {answer:?}")
        })?;
    }
    Ok(())
}

async fn two_instances_of_one_name_are_ambiguous(stage: &Stage) -> Verdict {
    stage.instances()?;
    pair(stage).await?;
    let clone = stage.stand_in.start_instance(&stand_in::Seed::named("node-a")).await?;
    let answers = stage.look_up(&[by_name("node-a"), by_id(&clone)]).await?;
    promised(matches!(answers[0], Answer::Unknown(_)), || {
        format!("about a name that two instances have: {:?}", answers[0])
    })?;
    found(&answers[1], &clone)
}

async fn answers_come_in_the_order_asked(stage: &Stage) -> Verdict {
    stage.instances()?;
    let started = stage.start_all(&["node-c", "node-a", "node-d", "node-b"]).await?;
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
        let asked: Vec<_> = order.iter().map(|index| by_id(&started[*index])).collect();
        let answers = stage.look_up(&asked).await?;
        let seen: Vec<_> = answers.iter().map(Answer::found_id).collect();
        let expected: Vec<_> = order.iter().map(|index| Some(started[*index].provider_id.as_str())).collect();
        equal("the provider IDs, in the order asked", &seen, &expected)?;
    }
    Ok(())
}

async fn a_node_asked_for_twice_is_answered_twice(stage: &Stage) -> Verdict {
    stage.instances()?;
    let [a, b] = &pair(stage).await?;
    let answers = stage.look_up(&[by_id(a), by_id(b), by_id(a), by_name("node-a")]).await?;
    for (answer, instance) in answers.iter().zip([a, b, a, a]) {
        found(answer, instance)?;
    }
    Ok(())
}

async fn no_nodes_get_no_answers(stage: &Stage) -> Verdict {
    pair(stage).await?;
    match stage.instances()?.lookup(&[], cloud_provider::Freshness::Now).await {
        Ok(answers) => equal("answers to a question about nobody", &answers.len(), &0),
        Err(error) => broken(format!("a question about nobody failed: {error:?}")),
    }
}

async fn a_list_tells_of_an_instance_what_a_look_up_tells(stage: &Stage) -> Verdict {
    let instances = stage.instances()?;
    let [a, b] = &pair(stage).await?;
    let nodes = [by_id(a), by_id(b), by_name("node-a"), by_name("node-b"), by_name("node-z")];
    let listed = match instances.list().await {
        Ok(Some(listed)) => listed,
        Ok(None) => return skip("the provider gives no list"),
        Err(error) => return broken(format!("a cloud that is well failed to list: {error:?}")),
    };
    let looked_up = instances.lookup(&nodes, cloud_provider::Freshness::Now).await;
    let looked_up = looked_up.unwrap_or_default();
    equal("answers", &looked_up.len(), &nodes.len())?;
    for (node, looked_up) in nodes.iter().zip(&looked_up) {
        if let Existence::Found(listed) = listed.answer(node) {
            let Existence::Found(looked_up) = looked_up else {
                return broken(format!("{node:?} is in the list, but looked up: {looked_up:?}"));
            };
            equal("the instance in the list", &*listed, &**looked_up)?;
        }
    }
    Ok(())
}

async fn a_change_is_seen_when_asked_for_now(stage: &Stage) -> Verdict {
    stage.instances()?;
    let [a, _] = &pair(stage).await?;
    found(&stage.look_up_one(by_id(a)).await?, a)?;
    let late = stage.start("node-late").await?;
    found(&stage.look_up_one(by_name("node-late")).await?, &late)?;
    stage.stand_in.delete_instance(a).await?;
    let answer = stage.look_up_one(by_id(a)).await?;
    promised(matches!(answer, Answer::Absent), || format!("about an instance that is just gone: {answer:?}"))
}

async fn looking_up_changes_nothing(stage: &Stage) -> Verdict {
    stage.instances()?;
    let [a, b] = &pair(stage).await?;
    stage.look_up(&[by_id(a), by_id(b), by_name("node-z")]).await?;
    equal("writes that reached the cloud", &stage.calls().await.writes, &0)
}

/// Two instances: absence is only ever proved where something else is present.
async fn pair(stage: &Stage) -> Result<[stand_in::Instance; 2], crate::conformance::Stop> {
    Ok([stage.start("node-a").await?, stage.start("node-b").await?])
}

fn found(answer: &Answer, instance: &stand_in::Instance) -> Verdict {
    promised(answer.found_id() == Some(&instance.provider_id), || {
        format!("asked for {} ({}), got {answer:?}", instance.name, instance.provider_id)
    })
}

fn power(answer: &Answer) -> Option<cloud_provider::Power> {
    match answer {
        Answer::Found(instance) => Some(instance.power),
        _ => None,
    }
}
