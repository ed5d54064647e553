//! Asks the API server at start which of the rights that this process needs it has, and names those it lacks. A missing
//! right ends nothing: what needs it says so again when it is refused, and works as soon as it is granted.

use std::time::Duration;

use controller_kit::log::report;
use futures::StreamExt as _;
use futures::stream;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::Api;
use kube::api::PostParams;

use super::Process;
use super::controllers::Prepared;
use crate::rbac::{self, Grant, MANAGER, Needs};

/// How many questions are under way at once, and how long all of them may take.
const AT_ONCE: usize = 8;
const WITHIN: Duration = Duration::from_secs(10);

/// Asks for everything that these controllers, and the process itself, need.
pub(super) async fn run(process: &Process, controllers: &[Prepared], endpoints: bool) {
    let rows = controllers.iter().map(|controller| controller.row).collect();
    let needs = Needs { endpoints, ..Needs::of(&process.config, rows) };
    let grants = rbac::grants(&needs).remove(MANAGER).unwrap_or_default();
    let reviews: Api<SelfSubjectAccessReview> = Api::all(process.clients.named("self-check").build());
    let questions: Vec<(Grant, &'static str)> = grants
        .into_iter()
        .flat_map(|grant| grant.right.verbs.iter().map(move |verb| (grant.clone(), *verb)))
        .collect();
    let asked = stream::iter(questions.into_iter().map(|(grant, verb)| {
        let reviews = reviews.clone();
        async move {
            let answer = reviews.create(&PostParams::default(), &question(&grant, verb)).await;
            (grant, verb, answer)
        }
    }))
    .buffer_unordered(AT_ONCE)
    .for_each(|(grant, verb, answer)| async move {
        match answer {
            Ok(review) if review.status.as_ref().is_some_and(|status| status.allowed) => {}
            Ok(_) => missing(process, &grant, verb),
            Err(error) => tracing::debug!(why = %report(&error), "Cannot ask whether a right is missing"),
        }
    });
    if tokio::time::timeout(WITHIN, asked).await.is_err() {
        tracing::debug!("Asking which rights are missing took too long");
    }
}

fn missing(process: &Process, grant: &Grant, verb: &'static str) {
    let resource = full_name(grant);
    let place = match (&grant.namespace, &grant.name) {
        (Some(namespace), Some(name)) => format!(" {namespace}/{name}"),
        (Some(namespace), None) => format!(" in namespace {namespace}"),
        (None, Some(name)) => format!(" {name}"),
        (None, None) => String::new(),
    };
    if let Some(extra) = grant.right.without {
        tracing::warn!(verb, resource, "May not {verb} {resource}{place}: goes without {extra}");
    } else {
        let remedy = "`nephos rbac` with the same flags prints the roles that are needed";
        tracing::error!(verb, resource, remedy, "May not {verb} {resource}{place}");
    }
    process.families.lacks(verb, resource);
}

fn full_name(grant: &Grant) -> String {
    let (group, resource) = (grant.right.group, grant.right.resource);
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

fn question(grant: &Grant, verb: &str) -> SelfSubjectAccessReview {
    let (resource, subresource) = match grant.right.resource.split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
        None => (grant.right.resource, None),
    };
    let attributes = ResourceAttributes {
        group: Some(grant.right.group.to_owned()),
        resource: Some(resource.to_owned()),
        subresource,
        verb: Some(verb.to_owned()),
        namespace: grant.namespace.clone(),
        name: grant.name.clone(),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
    SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() }
}
