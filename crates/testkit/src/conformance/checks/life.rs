//! Building, standing by, ending.

use std::time::Duration;

use cloud_provider::{Capability, Decision};

use crate::conformance::check::{MustSucceed, Verdict, broken, checks, equal, promised, skip};
use crate::conformance::objects::{by_id, web};
use crate::conformance::{Stage, Time};

checks! { Life,
    the_cloud_carries_the_name_of_its_provider =>
        "A built cloud carries its provider's name and declares something.",
    building_changes_nothing => "Building the provider writes nothing to the cloud.",
    a_second_build_finds_what_the_first_one_made =>
        "A provider that is built again, as after a restart, finds what it made and changes none of it.",
    a_standby_stays_silent =>
        "A standby builds its provider and may read, and writes nothing, however long it waits.",
    background_work_ends_with_the_process =>
        "Once the end is announced, the provider's background work ends.",
    a_broken_config_is_refused_by_name =>
        "A config that cannot be used is InvalidConfig, and the message names the file.",
    a_listed_cluster_has_an_address => "Every cluster that is listed has an address for its control plane.",
}

async fn the_cloud_carries_the_name_of_its_provider(stage: &Stage) -> Verdict {
    equal("the cloud's name", &stage.cloud.name.as_str(), &stage.stand_in.provider())?;
    let can = Capability::ALL.into_iter().filter(|each| stage.cloud.can(*each)).count();
    promised(can > 0, || "not one capability is declared".to_owned())
}

async fn building_changes_nothing(stage: &Stage) -> Verdict {
    stage.restarted().await?;
    equal("writes that reached the cloud", &stage.calls().await.writes, &0)
}

async fn a_second_build_finds_what_the_first_one_made(stage: &Stage) -> Verdict {
    let nodes = stage.start_all(&["node-a", "node-b"]).await?;
    let spec = stage.spec(web(), &nodes)?;
    let status = stage.ensured(&spec).await?;
    let made = stage.contents().await?;
    let again = stage.restarted().await?;
    again.start_over(&nodes);
    let writes = again.calls().await.writes;
    equal("the status after a restart", &again.ensured(&spec).await?, &status)?;
    equal("writes after a restart", &(again.calls().await.writes - writes), &0)?;
    let damage = again.contents().await?.damage_since(&made);
    promised(damage.is_empty(), || damage.join("; "))
}

async fn a_standby_stays_silent(stage: &Stage) -> Verdict {
    let nodes = stage.start_all(&["node-a"]).await?;
    let standby = stage.standby().await?;
    standby.start_over(&nodes);
    let spec = standby.spec(web(), &nodes)?;
    if standby.instances().is_ok() {
        standby.look_up(&[by_id(&nodes[0])]).await?;
    }
    if let Ok(balancers) = standby.balancers() {
        balancers.get(&spec).await.must("a standby's get")?;
        balancers.list_owned(&standby.cluster).await.must("a standby's list")?;
    }
    if let Ok(routes) = standby.routes() {
        routes.list(&standby.cluster).await.must("a standby's list of routes")?;
    }
    pause(&standby).await;
    equal("writes of a standby", &standby.calls().await.writes, &0)
}

async fn background_work_ends_with_the_process(stage: &Stage) -> Verdict {
    if stage.stand_in.time() == Time::Real {
        return skip("the tasks of a provider cannot be told from those of a stand-in behind a socket");
    }
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let another = stage.restarted().await?;
    let started = tasks();
    another.ending.announce();
    pause(&another).await;
    let left = tasks();
    promised(left <= before, || {
        format!(
            "{before} tasks before the build, {started} after it, {left} long after the end was announced"
        )
    })?;
    let calls = another.calls().await;
    pause(&another).await;
    equal("calls long after the end was announced", &another.calls().await, &calls)
}

async fn a_broken_config_is_refused_by_name(stage: &Stage) -> Verdict {
    let config = stage.stand_in.broken_config()?;
    let path = config.path().display().to_string();
    match stage.build_with(config).await {
        Ok(cloud) => broken(format!("{cloud:?} was built from a broken config")),
        Err(error) => {
            equal("the decision", error.decision(), &Decision::InvalidConfig)?;
            promised(error.report().contains(&path), || {
                format!("{path} was broken, and the message is: {}", error.report())
            })
        }
    }
}

async fn a_listed_cluster_has_an_address(stage: &Stage) -> Verdict {
    let Some(clusters) = stage.cloud.clusters.as_deref() else { return skip(Capability::Clusters.missing()) };
    for name in clusters.list().await.must("listing the clusters")? {
        let address = clusters.control_plane_address(&name).await.must("asking for an address")?;
        promised(!address.is_empty(), || format!("cluster {name} has no address"))?;
    }
    match clusters.control_plane_address("a-cluster-that-never-was").await {
        Ok(address) => broken(format!("a cluster that never was has the address {address:?}")),
        Err(error) => {
            equal("the decision about a cluster that never was", error.decision(), &Decision::NotFound)
        }
    }
}

/// Lets background work happen: an hour in virtual time; in real time just long enough for what was already started.
async fn pause(stage: &Stage) {
    match stage.stand_in.time() {
        Time::Virtual => tokio::time::sleep(Duration::from_secs(3600)).await,
        Time::Real => stage.stand_in.settle().await,
    }
}
