//! Watches: resuming, selecting, bookmarks, and the history that is gone.

use k8s_openapi::api::core::v1::{ConfigMap, Node};
use serde_json::{Value, json};
use testkit::story::{Patch, Story};
use testkit::{config_map, node};

crate::stories![
    a_watch_goes_on_from_a_version,
    a_watch_without_a_version_begins_with_what_is_there,
    a_watch_from_zero_begins_with_what_is_there,
    a_watch_follows_a_selection,
    a_watch_sees_a_held_object_go,
    a_watch_sees_no_write_that_changes_nothing,
    a_watch_from_a_forgotten_version_is_gone,
    a_watch_ends_at_its_time,
    a_watch_gets_a_last_bookmark,
    a_streaming_list_ends_with_a_bookmark,
    a_streaming_list_needs_a_version_match,
    a_watch_from_nonsense_is_refused,
    a_watch_is_about_one_namespace,
    a_watch_of_one_object,
];

fn kinds(events: &[Value]) -> Vec<String> {
    let kind = |event: &Value| event["type"].as_str().unwrap_or_default().to_owned();
    events.iter().map(kind).collect()
}

fn set(value: &str) -> Patch {
    Patch::Merge(json!({"data": {"k": value}}))
}

async fn map(s: &mut Story, name: &str) -> String {
    s.create_raw::<ConfigMap>(json!({"metadata": {"name": name, "labels": {"n": name}}}))
        .await
        .succeeds()
        .version()
}

async fn a_watch_goes_on_from_a_version(s: &mut Story) {
    let version = map(s, "a").await;
    s.patch::<ConfigMap>("a", set("1")).await.succeeds();
    map(s, "b").await;
    s.delete::<ConfigMap>("a").await.succeeds();
    let query = format!("resourceVersion={version}&timeoutSeconds=20");
    assert_eq!(kinds(&s.watch::<ConfigMap>(&query, 3).await), ["MODIFIED", "ADDED", "DELETED"]);
}

async fn a_watch_without_a_version_begins_with_what_is_there(s: &mut Story) {
    map(s, "a").await;
    map(s, "b").await;
    assert_eq!(kinds(&s.watch::<ConfigMap>("timeoutSeconds=20", 2).await), ["ADDED", "ADDED"]);
}

async fn a_watch_from_zero_begins_with_what_is_there(s: &mut Story) {
    map(s, "a").await;
    s.list::<ConfigMap>("").await.succeeds();
    assert_eq!(kinds(&s.watch::<ConfigMap>("resourceVersion=0&timeoutSeconds=20", 1).await), ["ADDED"]);
}

async fn a_watch_follows_a_selection(s: &mut Story) {
    let version = map(s, "a").await;
    let label = |value: &str| Patch::Merge(json!({"metadata": {"labels": {"n": value}}}));
    s.patch::<ConfigMap>("a", label("other")).await.succeeds();
    s.patch::<ConfigMap>("a", set("1")).await.succeeds();
    s.patch::<ConfigMap>("a", label("a")).await.succeeds();
    s.patch::<ConfigMap>("a", set("2")).await.succeeds();
    let query = format!("labelSelector=n%3Da&resourceVersion={version}&timeoutSeconds=20");
    assert_eq!(kinds(&s.watch::<ConfigMap>(&query, 3).await), ["DELETED", "ADDED", "MODIFIED"]);
}

async fn a_watch_sees_a_held_object_go(s: &mut Story) {
    let a = s
        .create_raw::<ConfigMap>(json!({"metadata": {"name": "a", "finalizers": ["a.io/x"]}}))
        .await
        .succeeds();
    s.delete::<ConfigMap>("a").await.succeeds();
    s.patch::<ConfigMap>("a", Patch::Merge(json!({"metadata": {"finalizers": null}}))).await.succeeds();
    let query = format!("resourceVersion={}&timeoutSeconds=20", a.version());
    assert_eq!(kinds(&s.watch::<ConfigMap>(&query, 2).await), ["MODIFIED", "DELETED"]);
}

async fn a_watch_sees_no_write_that_changes_nothing(s: &mut Story) {
    let version = map(s, "a").await;
    s.patch::<ConfigMap>("a", set("1")).await.succeeds();
    s.patch::<ConfigMap>("a", set("1")).await.succeeds();
    s.patch::<ConfigMap>("a", set("2")).await.succeeds();
    let events = s.watch::<ConfigMap>(&format!("resourceVersion={version}&timeoutSeconds=20"), 2).await;
    assert_eq!(events[1]["object"]["data"]["k"], "2");
}

async fn a_watch_from_a_forgotten_version_is_gone(s: &mut Story) {
    map(s, "a").await;
    let events = s.watch::<ConfigMap>("resourceVersion=1&timeoutSeconds=20", 1).await;
    assert_eq!((&events[0]["type"], &events[0]["object"]["code"]), (&json!("ERROR"), &json!(410)));
}

async fn a_watch_ends_at_its_time(s: &mut Story) {
    let version = map(s, "a").await;
    let events = s.watch::<ConfigMap>(&format!("resourceVersion={version}&timeoutSeconds=1"), 5).await;
    assert_eq!(events, Vec::<Value>::new());
}

async fn a_watch_gets_a_last_bookmark(s: &mut Story) {
    let version = map(s, "a").await;
    let elsewhere = config_map("default", &format!("{}-x", s.namespace()), &[]);
    let api: kube::Api<ConfigMap> = kube::Api::namespaced(s.client(), "default");
    let meanwhile = async {
        api.create(&kube::api::PostParams::default(), &elsewhere)
            .await
            .expect("creating a config map elsewhere");
    };
    let query = format!("resourceVersion={version}&timeoutSeconds=4&allowWatchBookmarks=true");
    assert_eq!(kinds(&s.watch_during::<ConfigMap, _>(&query, 1, meanwhile).await), ["BOOKMARK"]);
}

async fn a_streaming_list_ends_with_a_bookmark(s: &mut Story) {
    map(s, "a").await;
    let query =
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=20";
    assert_eq!(kinds(&s.watch::<ConfigMap>(query, 2).await), ["ADDED", "BOOKMARK"]);
}

async fn a_streaming_list_needs_a_version_match(s: &mut Story) {
    assert_eq!(kinds(&s.watch::<ConfigMap>("sendInitialEvents=true&timeoutSeconds=5", 1).await), ["REFUSED"]);
}

async fn a_watch_from_nonsense_is_refused(s: &mut Story) {
    assert_eq!(kinds(&s.watch::<ConfigMap>("resourceVersion=often&timeoutSeconds=5", 1).await), ["REFUSED"]);
}

async fn a_watch_is_about_one_namespace(s: &mut Story) {
    let version = map(s, "a").await;
    let elsewhere = json!({"metadata": {"name": format!("{}-x", s.namespace())}}).to_string();
    s.request("POST", "/api/v1/namespaces/default/configmaps", "application/json", &elsewhere)
        .await
        .succeeds();
    map(s, "b").await;
    let events = s.watch::<ConfigMap>(&format!("resourceVersion={version}&timeoutSeconds=20"), 1).await;
    assert_eq!(events[0]["object"]["metadata"]["name"], "b");
}

async fn a_watch_of_one_object(s: &mut Story) {
    let a = s.create::<Node>(node("a")).await.succeeds();
    s.create::<Node>(node("b")).await.succeeds();
    s.patch::<Node>("a", Patch::Merge(json!({"metadata": {"labels": {"x": "1"}}}))).await.succeeds();
    let name = s.full_name::<Node>("a");
    let query =
        format!("fieldSelector=metadata.name%3D{name}&resourceVersion={}&timeoutSeconds=20", a.version());
    assert_eq!(kinds(&s.watch::<Node>(&query, 1).await), ["MODIFIED"]);
}
