//! Lists: selectors, pages, versions.

use k8s_openapi::api::core::v1::{ConfigMap, Node, Service};
use serde_json::json;
use testkit::story::{Outcome, Patch, Story};
use testkit::{node, service};

crate::stories![
    a_list_is_ordered_by_name,
    labels_select,
    fields_select,
    an_unknown_field_is_refused,
    a_broken_selector_is_refused,
    pages_follow_each_other,
    pages_show_one_moment,
    selected_pages_do_not_say_what_is_left,
    a_broken_token_is_refused,
    a_token_and_a_version_exclude_each_other,
    a_token_expires,
    an_expired_token_can_be_continued_inconsistently,
    the_cache_knows_no_pages,
    an_exact_version_shows_the_past,
    an_exact_version_that_is_forgotten_is_gone,
    a_version_that_is_not_older,
    a_version_match_needs_a_version,
    the_cache_has_no_exact_version,
    an_unknown_version_match_is_refused,
    a_version_from_the_future_times_out,
    a_read_from_the_cache,
    a_collection_is_deleted_by_labels,
    metadata_alone_can_be_asked_for,
];

async fn maps(s: &mut Story, names: &[&str]) {
    for name in names {
        s.create_raw::<ConfigMap>(json!({"metadata": {"name": name, "labels": {"n": name}}}))
            .await
            .succeeds();
    }
}

fn names(list: &Outcome) -> Vec<String> {
    let items = list.at("/items").as_array().cloned().unwrap_or_default();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn a_list_is_ordered_by_name(s: &mut Story) {
    maps(s, &["b", "a", "a-1", "a.1"]).await;
    assert_eq!(names(&s.list::<ConfigMap>("").await), ["a", "a-1", "a.1", "b"]);
}

async fn labels_select(s: &mut Story) {
    maps(s, &["a", "b", "c"]).await;
    for (selector, expected) in [
        ("n%3Da", vec!["a"]),
        ("n!%3Da", vec!["b", "c"]),
        ("n+in+(a,b)", vec!["a", "b"]),
        ("n+notin+(a,b)", vec!["c"]),
        ("n", vec!["a", "b", "c"]),
        ("!n", vec![]),
        ("n%3Da,n%3Db", vec![]),
    ] {
        assert_eq!(
            names(&s.list::<ConfigMap>(&format!("labelSelector={selector}")).await),
            expected,
            "{selector}"
        );
    }
}

async fn fields_select(s: &mut Story) {
    maps(s, &["a", "b"]).await;
    assert_eq!(names(&s.list::<ConfigMap>("fieldSelector=metadata.name%3Da").await), ["a"]);
    assert_eq!(names(&s.list::<ConfigMap>("fieldSelector=metadata.name!%3Da").await), ["b"]);
    s.create::<Service>(service("x").load_balancer().port(80)).await.succeeds();
    s.create::<Service>(service("y").port(80)).await.succeeds();
    assert_eq!(names(&s.list::<Service>("fieldSelector=spec.type%3DLoadBalancer").await), ["x"]);
    s.create::<Node>(node("a").unschedulable().label("story", "fields")).await.succeeds();
    s.create::<Node>(node("b").label("story", "fields")).await.succeeds();
    s.list::<Node>("labelSelector=story%3Dfields&fieldSelector=spec.unschedulable%3Dfalse").await.succeeds();
}

async fn an_unknown_field_is_refused(s: &mut Story) {
    s.list::<Node>("fieldSelector=spec.colour%3Dred").await.is_refused(400, "BadRequest");
    s.list::<ConfigMap>("fieldSelector=spec.colour%3Dred").await.is_refused(400, "BadRequest");
    s.list::<Service>("fieldSelector=spec.colour%3Dred").await.is_refused(400, "BadRequest");
}

async fn a_broken_selector_is_refused(s: &mut Story) {
    s.list::<ConfigMap>("labelSelector=a+b").await.is_refused(400, "BadRequest");
    s.list::<ConfigMap>("limit=many").await.is_refused(400, "BadRequest");
}

async fn pages_follow_each_other(s: &mut Story) {
    maps(s, &["a", "b", "c", "d", "e"]).await;
    let first = s.list::<ConfigMap>("limit=2").await.has("/metadata/remainingItemCount", 3);
    assert_eq!(names(&first), ["a", "b"]);
    let second = s.list::<ConfigMap>(&format!("limit=2&continue={}", first.text("/metadata/continue"))).await;
    assert_eq!(names(&second), ["c", "d"]);
    let last = s.list::<ConfigMap>(&format!("limit=2&continue={}", second.text("/metadata/continue"))).await;
    assert_eq!(names(&last), ["e"]);
    last.lacks("/metadata/continue").lacks("/metadata/remainingItemCount");
}

async fn pages_show_one_moment(s: &mut Story) {
    maps(s, &["a", "b", "c"]).await;
    let first = s.list::<ConfigMap>("limit=1").await;
    s.delete::<ConfigMap>("b").await.succeeds();
    maps(s, &["d"]).await;
    let rest = s.list::<ConfigMap>(&format!("continue={}", first.text("/metadata/continue"))).await;
    assert_eq!(names(&rest), ["b", "c"]);
    assert_eq!(first.version(), rest.version());
}

async fn selected_pages_do_not_say_what_is_left(s: &mut Story) {
    maps(s, &["a", "b", "c"]).await;
    s.list::<ConfigMap>("limit=1&labelSelector=n").await.lacks("/metadata/remainingItemCount");
}

async fn a_broken_token_is_refused(s: &mut Story) {
    s.list::<ConfigMap>("continue=nonsense").await.is_refused(400, "BadRequest");
}

async fn a_token_and_a_version_exclude_each_other(s: &mut Story) {
    maps(s, &["a", "b"]).await;
    let first = s.list::<ConfigMap>("limit=1").await;
    let token = first.text("/metadata/continue");
    s.list::<ConfigMap>(&format!("continue={token}&resourceVersion={}", first.version()))
        .await
        .is_refused(400, "BadRequest");
}

async fn a_token_expires(s: &mut Story) {
    maps(s, &["a", "b"]).await;
    let first = s.list::<ConfigMap>("limit=1").await;
    maps(s, &["c"]).await;
    s.list_until::<ConfigMap>(&format!("limit=1&continue={}", first.text("/metadata/continue")), 410)
        .await
        .is_refused(410, "Expired");
}

async fn an_expired_token_can_be_continued_inconsistently(s: &mut Story) {
    maps(s, &["a", "b"]).await;
    let first = s.list::<ConfigMap>("limit=1").await;
    maps(s, &["c"]).await;
    let query = format!("limit=1&continue={}", first.text("/metadata/continue"));
    let expired = s.list_until::<ConfigMap>(&query, 410).await;
    let rest =
        s.list::<ConfigMap>(&format!("continue={}", expired.text("/metadata/continue"))).await.succeeds();
    assert_eq!(names(&rest), ["b", "c"]);
}

async fn the_cache_knows_no_pages(s: &mut Story) {
    maps(s, &["a", "b"]).await;
    s.list::<ConfigMap>("limit=1&resourceVersion=0").await.succeeds();
}

async fn an_exact_version_shows_the_past(s: &mut Story) {
    maps(s, &["a"]).await;
    let version = s.list::<ConfigMap>("").await.version();
    maps(s, &["b"]).await;
    let then = s.list::<ConfigMap>(&format!("resourceVersion={version}&resourceVersionMatch=Exact")).await;
    assert_eq!(names(&then), ["a"]);
    let then = s.list::<ConfigMap>(&format!("limit=5&resourceVersion={version}")).await;
    assert_eq!(names(&then), ["a"]);
}

async fn an_exact_version_that_is_forgotten_is_gone(s: &mut Story) {
    s.list::<ConfigMap>("resourceVersion=1&resourceVersionMatch=Exact").await.is_refused(410, "Expired");
}

async fn a_version_that_is_not_older(s: &mut Story) {
    maps(s, &["a"]).await;
    let version = s.get::<ConfigMap>("a").await.version();
    let list =
        s.list::<ConfigMap>(&format!("resourceVersion={version}&resourceVersionMatch=NotOlderThan")).await;
    assert_eq!(names(&list), ["a"]);
    let list = s.list::<ConfigMap>(&format!("resourceVersion={version}")).await;
    assert_eq!(names(&list), ["a"]);
}

async fn a_version_match_needs_a_version(s: &mut Story) {
    s.list::<ConfigMap>("resourceVersionMatch=Exact").await.is_refused(422, "Invalid");
}

async fn the_cache_has_no_exact_version(s: &mut Story) {
    s.list::<ConfigMap>("resourceVersion=0&resourceVersionMatch=Exact").await.is_refused(422, "Invalid");
}

async fn an_unknown_version_match_is_refused(s: &mut Story) {
    s.list::<ConfigMap>("resourceVersion=5&resourceVersionMatch=Roughly").await.is_refused(422, "Invalid");
}

async fn a_version_from_the_future_times_out(s: &mut Story) {
    maps(s, &["a"]).await;
    s.list::<ConfigMap>("resourceVersion=999999999").await.is_refused(504, "Timeout");
    s.get_with::<ConfigMap>("a", "resourceVersion=999999999").await.is_refused(504, "Timeout");
}

async fn a_read_from_the_cache(s: &mut Story) {
    maps(s, &["a"]).await;
    let version = s.get::<ConfigMap>("a").await.version();
    s.get_with::<ConfigMap>("a", &format!("resourceVersion={version}")).await.succeeds();
    s.patch::<ConfigMap>("a", Patch::Merge(json!({"data": {"k": "v"}}))).await.succeeds();
    s.get_with::<ConfigMap>("none", "resourceVersion=0").await.is_refused(404, "NotFound");
}

async fn a_collection_is_deleted_by_labels(s: &mut Story) {
    maps(s, &["a", "b", "c"]).await;
    let path = format!("/api/v1/namespaces/{}/configmaps?labelSelector=n+in+(a,b)", s.namespace());
    s.request("DELETE", &path, "application/json", "").await.succeeds();
    assert_eq!(names(&s.list::<ConfigMap>("").await), ["c"]);
}

async fn metadata_alone_can_be_asked_for(s: &mut Story) {
    maps(s, &["a"]).await;
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let path = format!("/api/v1/namespaces/{}/configmaps/a", s.namespace());
    s.request_accepting(&path, accept).await.has("/kind", "PartialObjectMetadata");
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let path = format!("/api/v1/namespaces/{}/configmaps", s.namespace());
    s.request_accepting(&path, accept).await.has("/kind", "PartialObjectMetadataList");
}
