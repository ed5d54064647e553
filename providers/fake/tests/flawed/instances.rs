//! Wrong answers about instances.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use cloud_provider::{
    Doubt, Error, Evidence, Existence, Freshness, Instance, Instances, NodeRef, Power, Snapshot,
};
use provider_fake::objects::Machine;
use provider_fake::{Api, ApiError, Listed};

use super::between::Bend;
use super::outside::Twist;
use super::{Flaw, between, outside};

pub(crate) fn flaws() -> Vec<Flaw> {
    let mut flaws = on_error();
    flaws.extend([
        each("calls what is unreadable absent", "an_unreadable_provider_id_is_unknown", |_, answer| {
            match answer {
                Existence::Unknown(Doubt::BadProviderId(_)) => absent(),
                other => other,
            }
        }),
        each("calls an empty inventory absent", "an_empty_inventory_proves_no_absence", |_, answer| {
            match answer {
                Existence::Unknown(Doubt::EmptyInventory) => absent(),
                other => other,
            }
        }),
        each(
            "calls a truncated list absent",
            "a_truncated_list_proves_no_absence",
            |_, answer| match answer {
                Existence::Unknown(Doubt::Incomplete(_)) => absent(),
                other => other,
            },
        ),
        each("calls what is not its own absent", "a_foreign_scheme_is_not_mine", |_, answer| match answer {
            Existence::NotMine => absent(),
            other => other,
        }),
        each("calls a stopped instance absent", "a_stopped_instance_exists", |_, answer| match answer {
            Existence::Found(instance) if instance.power == Power::Off => absent(),
            other => other,
        }),
        each("says that everything runs", "a_stopped_instance_exists", |_, answer| {
            found(answer, |instance| instance.power(Power::On))
        }),
        each("never calls anything absent", "a_deleted_instance_is_absent", |_, answer| match answer {
            Existence::Absent(_) => Existence::Unknown(Doubt::EmptyInventory),
            other => other,
        }),
        each(
            "picks one of two of a name",
            "two_instances_of_one_name_are_ambiguous",
            |_, answer| match answer {
                Existence::Unknown(Doubt::Ambiguous(ids)) => {
                    Existence::Found(Box::new(Instance::new(ids[0].parse().unwrap())))
                }
                other => other,
            },
        ),
        each("makes an instance of any name", "a_name_that_nobody_has_is_not_found", |node, answer| {
            match answer {
                Existence::Absent(_) if node.provider_id.is_none() => {
                    Existence::Found(Box::new(Instance::new("fake://made-up".parse().unwrap())))
                }
                other => other,
            }
        }),
        each("tells no zone", "the_facts_are_those_of_the_cloud", |_, answer| {
            found(answer, |instance| instance.located("", ""))
        }),
        each("tells empty addresses", "addresses_are_of_known_types_and_not_empty", |_, answer| {
            found(answer, |instance| instance.address("InternalIP", ""))
        }),
        each("tells no provider ID", "a_found_provider_id_leads_back", |_, answer| {
            found(answer, |mut instance| {
                instance.provider_id = None;
                instance
            })
        }),
        each("tells more by name than by ID", "by_name_and_by_id_tell_the_same", |node, answer| {
            found(
                answer,
                |instance| if node.provider_id.is_none() { instance.label("by", "name") } else { instance },
            )
        }),
        outside(
            "knows only provider IDs",
            "an_instance_is_found_by_name_while_there_is_no_provider_id",
            ByIdAlone,
        ),
        outside("goes by the name alone", "the_provider_id_wins_over_the_name", ByNameAlone),
        outside("answers in the wrong order", "answers_come_in_the_order_asked", Reversed),
        outside("answers one node too few", "a_node_asked_for_twice_is_answered_twice", Short),
        outside("fails when asked about nobody", "no_nodes_get_no_answers", Somebody),
        outside("answers from a cache for ever", "a_change_is_seen_when_asked_for_now", Cached::default()),
        outside(
            "asks for each node apart",
            "the_number_of_calls_grows_with_pages_and_not_with_nodes",
            OneByOne,
        ),
        outside("tells addresses in any order", "the_facts_are_the_same_each_time", Shuffled::default()),
        outside("finds nobody by ID", "an_instance_is_found_by_its_provider_id", NobodyById),
        outside(
            "lists what it does not look up",
            "a_list_tells_of_an_instance_what_a_look_up_tells",
            OutdatedList,
        ),
        outside("stays in doubt for ever", "doubt_ends_with_its_cause", Sulking::default()),
        between("reads the first page alone", "every_page_is_read", FirstPage),
    ]);
    flaws
}

/// One flaw per kind of failure: it is taken for absence.
fn on_error() -> Vec<Flaw> {
    let flaw = |name, caught_by, kind: fn(&str) -> bool| outside(name, caught_by, AbsentOn(kind));
    vec![
        flaw("calls a 401 absent", "a_refused_credential_proves_no_absence", |why| why.contains("401")),
        flaw("calls a 403 absent", "a_forbidden_read_proves_no_absence", |why| why.contains("403")),
        flaw("calls a 429 absent", "throttling_proves_no_absence", |why| why.contains("429")),
        flaw("calls a 500 absent", "a_failing_cloud_proves_no_absence", |why| why.contains("500")),
        flaw("calls a late answer absent", "a_late_cloud_proves_no_absence", |why| why.contains("in time")),
        flaw("calls a failed second page absent", "a_failure_on_a_later_page_proves_no_absence", |why| {
            why.contains("500")
        }),
        outside("calls a hanging cloud absent", "a_hanging_cloud_proves_no_absence", Impatient),
    ]
}

fn absent() -> Existence {
    Existence::Absent(Evidence::NotFound { asked: "nobody".to_owned() })
}

fn found(answer: Existence, change: impl FnOnce(Instance) -> Instance) -> Existence {
    match answer {
        Existence::Found(instance) => Existence::Found(Box::new(change(*instance))),
        other => other,
    }
}

type Asked<'a> = &'a [NodeRef];
type Answers = Result<Vec<Existence>, Error>;

/// Twists each answer.
struct Each(fn(&NodeRef, Existence) -> Existence);

fn each(name: &'static str, caught_by: &'static str, twist: fn(&NodeRef, Existence) -> Existence) -> Flaw {
    outside(name, caught_by, Each(twist))
}

#[async_trait]
impl Twist for Each {
    async fn lookup(&self, inner: &dyn Instances, nodes: Asked<'_>, freshness: Freshness) -> Answers {
        let answers = inner.lookup(nodes, freshness).await?;
        Ok(nodes.iter().zip(answers).map(|(node, answer)| (self.0)(node, answer)).collect())
    }
}

struct AbsentOn(fn(&str) -> bool);

#[async_trait]
impl Twist for AbsentOn {
    async fn lookup(&self, inner: &dyn Instances, nodes: Asked<'_>, freshness: Freshness) -> Answers {
        match inner.lookup(nodes, freshness).await {
            Err(error) if (self.0)(&error.report()) => Ok(nodes.iter().map(|_| absent()).collect()),
            other => other,
        }
    }
}

struct Impatient;

#[async_trait]
impl Twist for Impatient {
    async fn lookup(&self, inner: &dyn Instances, nodes: Asked<'_>, freshness: Freshness) -> Answers {
        let asked =
            tokio::time::timeout(std::time::Duration::from_secs(45), inner.lookup(nodes, freshness)).await;
        asked.unwrap_or_else(|_| Ok(nodes.iter().map(|_| absent()).collect()))
    }
}

struct ByIdAlone;

#[async_trait]
impl Twist for ByIdAlone {
    async fn lookup(&self, inner: &dyn Instances, nodes: Asked<'_>, freshness: Freshness) -> Answers {
        let answers = inner.lookup(nodes, freshness).await?;
        let anonymous = |node: &NodeRef| node.provider_id.is_none();
        Ok(nodes
            .iter()
            .zip(answers)
            .map(|(node, answer)| if anonymous(node) { absent() } else { answer })
            .collect())
    }
}

struct ByNameAlone;

#[async_trait]
impl Twist for ByNameAlone {
    async fn lookup(&self, inner: &dyn Instances, nodes: Asked<'_>, freshness: Freshness) -> Answers {
        let by_name: Vec<NodeRef> =
            nodes.iter().map(|node| NodeRef { provider_id: None, ..node.clone() }).collect();
        inner.lookup(&by_name, freshness).await
    }
}

struct Reversed;

#[async_trait]
impl Twist for Reversed {
    async fn lookup(&self, inner: &dyn Instances, nodes: Asked<'_>, freshness: Freshness) -> Answers {
        let mut answers = inner.lookup(nodes, freshness).await?;
        answers.reverse();
        Ok(answers)
    }
}

/// Its list tells of one machine where it was once.
struct OutdatedList;

#[async_trait]
impl Twist for OutdatedList {
    async fn list_instances(&self, inner: &dyn Instances) -> Result<Option<Snapshot>, Error> {
        let node = NodeRef { name: "node-a".to_owned(), ..NodeRef::default() };
        let mut listed = inner.list().await?;
        if let Some(seen) = &mut listed
            && let Existence::Found(instance) = seen.answer(&node)
        {
            seen.insert(instance.located("where it was once", "elsewhere"), [node.name]);
        }
        Ok(listed)
    }
}

struct Short;

#[async_trait]
impl Twist for Short {
    async fn lookup(&self, inner: &dyn Instances, nodes: Asked<'_>, freshness: Freshness) -> Answers {
        let mut answers = inner.lookup(nodes, freshness).await?;
        if answers.len() > 3 {
            answers.pop();
        }
        Ok(answers)
    }
}

struct Somebody;

#[async_trait]
impl Twist for Somebody {
    async fn lookup(&self, inner: &dyn Instances, nodes: Asked<'_>, freshness: Freshness) -> Answers {
        if nodes.is_empty() {
            return Err(Error::other("looking up nobody"));
        }
        inner.lookup(nodes, freshness).await
    }
}

/// Keeps the first inventory: whoever was found once is found for ever.
#[derive(Default)]
struct Cached(Mutex<Vec<(NodeRef, Instance)>>);

#[async_trait]
impl Twist for Cached {
    async fn lookup(&self, inner: &dyn Instances, nodes: Asked<'_>, freshness: Freshness) -> Answers {
        let answers = inner.lookup(nodes, freshness).await?;
        let mut known = self.0.lock().unwrap();
        let remember = |(node, answer): (&NodeRef, Existence)| {
            let kept = known.iter().find(|(asked, _)| asked == node).map(|(_, instance)| instance.clone());
            match (kept, answer) {
                (Some(instance), _) => Existence::Found(Box::new(instance)),
                (None, Existence::Found(instance)) => {
                    known.push((node.clone(), (*instance).clone()));
                    Existence::Found(instance)
                }
                (None, other) => other,
            }
        };
        Ok(nodes.iter().zip(answers).map(remember).collect())
    }
}

struct OneByOne;

#[async_trait]
impl Twist for OneByOne {
    async fn lookup(&self, inner: &dyn Instances, nodes: Asked<'_>, freshness: Freshness) -> Answers {
        let mut answers = Vec::new();
        for node in nodes {
            answers.extend(inner.lookup(std::slice::from_ref(node), freshness).await?);
        }
        Ok(answers)
    }
}

#[derive(Default)]
struct Shuffled(AtomicUsize);

#[async_trait]
impl Twist for Shuffled {
    async fn lookup(&self, inner: &dyn Instances, nodes: Asked<'_>, freshness: Freshness) -> Answers {
        let turn = self.0.fetch_add(1, Ordering::Relaxed);
        let answers = inner.lookup(nodes, freshness).await?;
        let turned = |mut instance: Instance| {
            if turn % 2 == 1 {
                instance.addresses.reverse();
            }
            instance
        };
        Ok(answers.into_iter().map(|answer| found(answer, turned)).collect())
    }
}

struct NobodyById;

#[async_trait]
impl Twist for NobodyById {
    async fn lookup(&self, inner: &dyn Instances, nodes: Asked<'_>, freshness: Freshness) -> Answers {
        let answers = inner.lookup(nodes, freshness).await?;
        let unknown = || Existence::Unknown(Doubt::EmptyInventory);
        let by_id = |node: &NodeRef| node.provider_id.is_some();
        Ok(nodes
            .iter()
            .zip(answers)
            .map(|(node, answer)| if by_id(node) { unknown() } else { answer })
            .collect())
    }
}

/// After one failure it never answers again.
#[derive(Default)]
struct Sulking(AtomicUsize);

#[async_trait]
impl Twist for Sulking {
    async fn lookup(&self, inner: &dyn Instances, nodes: Asked<'_>, freshness: Freshness) -> Answers {
        let answers = inner.lookup(nodes, freshness).await;
        if answers.is_err() {
            self.0.store(1, Ordering::Relaxed);
        }
        if self.0.load(Ordering::Relaxed) == 0 { answers } else { Err(Error::other("asking no more")) }
    }
}

struct FirstPage;

#[async_trait]
impl Bend for FirstPage {
    async fn list_instances(&self, api: &dyn Api, page: Option<&str>) -> Result<Listed<Machine>, ApiError> {
        Ok(Listed { next: None, ..api.list_instances(page).await? })
    }

    async fn get_instance(&self, api: &dyn Api, id: &str) -> Result<Machine, ApiError> {
        let _ = api.get_instance(id).await;
        Err(ApiError::NotFound { what: id.to_owned() })
    }
}
