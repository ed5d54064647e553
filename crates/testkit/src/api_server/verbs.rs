//! From an understood request to the verb that carries it out, for everything that needs no waiting.

use bytes::Bytes;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::kinds::KINDS;
use super::patch::Patch;
use super::route::{ObjectTarget, Target, Verb};
use super::selector::Selector;
use super::service::Call;
use super::shared::Shared;
use super::state::State;
use super::status_error::StatusError;
use super::store::Key;
use super::write::{self, Answer, Circumstances, DeleteOptions, Origin};

/// Carries out a request at once.
pub(crate) fn carry_out(shared: &Shared, call: &Call) -> Result<(u16, Bytes), StatusError> {
    match &call.target {
        Target::Version => Ok((200, Bytes::from(version().to_string()))),
        Target::Health => Ok((200, Bytes::from_static(b"ok"))),
        Target::Review(kind) => {
            let review = shared.reviews().answer(kind, body(call)?);
            Ok((201, Bytes::from(review.to_string())))
        }
        Target::Token { namespace, name } => token(shared, call, namespace, name),
        Target::Object(target) => {
            let answer = write(shared, call, target)?;
            Ok((answer.code, call.output.object(&answer.body)))
        }
    }
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "gitVersion": "v1.36.4-testkit", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z", "goVersion": "none", "compiler": "rustc", "platform": "virtual/time",
    })
}

fn body(call: &Call) -> Result<Value, StatusError> {
    serde_json::from_slice(&call.body).map_err(|e| {
        StatusError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: {e}",
            match &call.target {
                Target::Object(target) => target.kind().kind,
                Target::Review(kind) => kind,
                _ => "object",
            }
        ))
    })
}

fn write(shared: &Shared, call: &Call, target: &ObjectTarget) -> Result<Answer, StatusError> {
    let circumstances = Circumstances { now: shared.now(), dry_run: call.parameters.contains_key("dryRun") };
    let mut state = shared.state();
    match call.verb {
        Verb::Create => write::create(&mut state, target, body(call)?, circumstances),
        Verb::Update => write::update(&mut state, target, body(call)?, Origin::Put, circumstances),
        Verb::Patch => {
            let patch = Patch::parse(&call.content_type, &call.body)?;
            patched(&mut state, target, &patch, circumstances)
        }
        Verb::Delete => {
            let options = delete_options(call)?;
            write::delete(&mut state, target, &options, circumstances)
        }
        Verb::DeleteCollection => delete_collection(&mut state, call, target, circumstances),
        Verb::Get | Verb::List | Verb::Watch => Err(StatusError::method_not_allowed()),
    }
}

fn patched(
    state: &mut State,
    target: &ObjectTarget,
    patch: &Patch,
    circumstances: Circumstances,
) -> Result<Answer, StatusError> {
    let kind = target.kind();
    let name = target.name.as_deref().unwrap_or_default();
    let key = Key::new(&target.namespace, name);
    let old = state.store.get(target.kind, &key).ok_or_else(|| StatusError::not_found(kind, name))?;
    let new = patch.apply(kind, old)?;
    write::update(state, target, new, Origin::Patch, circumstances)
}

fn delete_options(call: &Call) -> Result<DeleteOptions, StatusError> {
    let options = if call.body.is_empty() { Value::Null } else { body(call)? };
    Ok(DeleteOptions::parse(&options, &call.parameters))
}

fn delete_collection(
    state: &mut State,
    call: &Call,
    target: &ObjectTarget,
    circumstances: Circumstances,
) -> Result<Answer, StatusError> {
    let kind = &KINDS[target.kind];
    let selector = Selector::parse(kind, &call.parameters)?;
    let options = delete_options(call)?;
    let doomed: Vec<_> = state
        .store
        .objects(target.kind)
        .iter()
        .filter(|(key, object)| key.is_in(&target.namespace) && selector.matches(object))
        .map(|(_, object)| std::sync::Arc::clone(object))
        .collect();
    for object in &doomed {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let one = ObjectTarget { namespace: text("namespace"), name: Some(text("name")), ..target.clone() };
        write::delete(state, &one, &options, circumstances)?;
    }
    let list = json!({
        "kind": format!("{}List", kind.kind), "apiVersion": kind.api_version(),
        "metadata": {"resourceVersion": state.store.revision().to_string()},
        "items": doomed.iter().map(|object| without_kind(object)).collect::<Vec<_>>(),
    });
    Ok(Answer { code: 200, body: std::sync::Arc::new(list) })
}

/// Elements of a list do not repeat what the list's own kind says.
fn without_kind(object: &Value) -> Value {
    let mut item = object.clone();
    if let Value::Object(fields) = &mut item {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    item
}

/// `serviceaccounts/{name}/token`: a token that says whose it is and how long it lives, signed by nobody.
fn token(shared: &Shared, call: &Call, namespace: &str, name: &str) -> Result<(u16, Bytes), StatusError> {
    let mut request = body(call)?;
    let mut state = shared.state();
    let accounts = super::kinds::named("ServiceAccount").unwrap_or_default();
    if state.find(accounts, namespace, name).is_none() {
        return Err(StatusError::not_found(&KINDS[accounts], name));
    }
    let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(3600);
    let expiry =
        shared.now().saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(jiff::Timestamp::MAX);
    let uid = state.uid();
    request["kind"] = json!("TokenRequest");
    request["apiVersion"] = json!("authentication.k8s.io/v1");
    request["spec"]["expirationSeconds"] = json!(seconds);
    request["status"] = json!({
        "token": format!("{namespace}:{name}:{uid}"),
        "expirationTimestamp": expiry.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    });
    Ok((201, Bytes::from(request.to_string())))
}
