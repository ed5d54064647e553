//! Where certificate authorities come from, on the API server in virtual time; and reviews that have to be repeated.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use controller_kit::clock::TokioClock;
use controller_kit::lifecycle::Shutdown;
use controller_kit::log::Secret;
use controller_kit::random::Randomness;
use controller_kit::serve::Peer;
use controller_kit::serve::auth::{
    Access, Authentication, Authorization, KubeReviews, Metrics, Reviews, Trust, TrustError, User,
};
use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::json;
use testkit::{ApiServer, EPOCH, Fault, Verb, When};
use tokio::time::Instant;

const NAME: &str = "extension-apiserver-authentication";

/// Proves: APP-52
#[tokio::test(start_paused = true)]
async fn a_missing_configmap_is_fatal_unless_skipped_or_tolerated() {
    let server = ApiServer::new(1);
    let establish = async |options: &Authentication| Trust::establish(options, Some(server.client())).await;
    let refused = establish(&Authentication::default()).await.unwrap_err();
    assert!(matches!(refused, TrustError::Lookup(_)), "{refused:?}");
    let tolerant = Authentication { tolerate_lookup_failure: true, ..Authentication::default() };
    establish(&tolerant).await.unwrap();
    let asked = server.requests().count();
    let skipping = Authentication { skip_lookup: true, ..Authentication::default() };
    establish(&skipping).await.unwrap();
    assert_eq!(server.requests().count(), asked, "nothing is looked up");
}

/// An authority and a certificate that it signed for a member of `system:masters`, as a connection shows it.
fn authority() -> (String, Peer) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "root");
    params.distinguished_name.push(DnType::OrganizationName, "system:masters");
    let made = params.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap();
    let certificates = vec![made.der().clone()].into();
    (issuer.pem(), Peer { address: ([127, 0, 0, 1], 1).into(), certificates })
}

fn published(pem: &str) -> ConfigMap {
    serde_json::from_value(json!({
        "metadata": { "name": NAME, "namespace": "kube-system" },
        "data": { "client-ca-file": pem },
    }))
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_rotated_authority_counts_within_half_a_minute_and_a_broken_one_never() {
    let server = ApiServer::new(2);
    let ((first_pem, first), (second_pem, second)) = (authority(), authority());
    server.create(&published(&first_pem));
    let trust = Trust::establish(&Authentication::default(), Some(server.client())).await.unwrap();
    let (trust, stop) = (Arc::new(trust), Shutdown::new());
    let access = Access::new(
        &Authentication::default(),
        &Authorization::default(),
        trust.clone(),
        None,
        Arc::new(TokioClock::starting_at(EPOCH)),
        Metrics::unregistered(),
    );
    let told = stop.clone();
    tokio::spawn(async move { trust.refresh_on_change(&told).await });
    let passes = async |peer: &Peer| {
        let mut request = Request::get("/metrics").body(Bytes::new()).unwrap();
        request.extensions_mut().insert(peer.clone());
        access.admit(&request).await.is_ok()
    };
    let replace = |pem: &str| {
        let data = published(pem).data;
        server.modify::<ConfigMap>("kube-system", NAME, |found| found.data = data);
    };
    assert!(passes(&first).await && !passes(&second).await);
    replace("-----BEGIN CERTIFICATE-----\nbroken\n-----END CERTIFICATE-----\n");
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert!(passes(&first).await, "the last good one stays");
    replace(&second_pem);
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert!(!passes(&first).await && passes(&second).await);
    server.delete::<ConfigMap>("kube-system", NAME);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert!(passes(&second).await);
    stop.trigger();
}

/// Proves: APP-49
#[tokio::test(start_paused = true)]
async fn a_review_that_the_server_fails_is_tried_five_times_within_ten_seconds() {
    let server = ApiServer::new(3);
    server.answer_token_reviews(|spec| {
        json!({ "authenticated": spec["token"] == "good", "user": { "username": "alice", "groups": ["a"] } })
    });
    let reviews = KubeReviews::new(server.client(), Randomness::seeded(1), Metrics::unregistered());
    let found = reviews.token(&Secret::new("good")).await.unwrap().unwrap();
    assert_eq!((found.name.as_str(), found.groups.as_slice()), ("alice", ["a".to_owned()].as_slice()));
    assert!(reviews.token(&Secret::new("bad")).await.unwrap().is_none());

    let before = server.requests().count();
    server.faults().always(When::verb(Verb::Create).times(4), Fault::InternalError);
    let started = Instant::now();
    assert!(reviews.token(&Secret::new("good")).await.unwrap().is_some());
    assert_eq!(server.requests().count() - before, 5);
    let paused = started.elapsed();
    // 0.5 s, 0.75 s, 1.125 s and 1.6875 s, each with up to a fifth more.
    assert!(paused >= Duration::from_millis(4062) && paused < Duration::from_millis(4900), "{paused:?}");

    server.faults().always(When::verb(Verb::Create), Fault::Hang);
    let started = Instant::now();
    assert!(reviews.token(&Secret::new("good")).await.is_err());
    assert_eq!(started.elapsed().as_secs(), 10);
    server.faults().clear().always(When::verb(Verb::Create), Fault::Forbidden);
    let before = server.requests().count();
    assert!(reviews.token(&Secret::new("good")).await.is_err());
    assert_eq!(server.requests().count() - before, 1, "no use in trying again");
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_made_up_tokens_reaches_the_api_server_in_part_and_hinders_nobody_after_it() {
    let server = ApiServer::new(4);
    server.answer_token_reviews(|_| json!({ "authenticated": false }));
    let reviews = Arc::new(KubeReviews::new(server.client(), Randomness::seeded(1), Metrics::unregistered()));
    server.faults().always(When::verb(Verb::Create), Fault::Hang);
    let mut flood = tokio::task::JoinSet::new();
    for number in 0..500 {
        let reviews = reviews.clone();
        flood.spawn(async move { reviews.token(&Secret::new(format!("made-up-{number}"))).await.is_err() });
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(server.requests().count(), 64);
    let user = User { name: "alice".into(), ..User::default() };
    server.faults().clear();
    assert!(reviews.access(&user, "get", "/metrics").await.is_ok(), "rights are asked for beside the tokens");
    assert!(flood.join_all().await.into_iter().all(|failed| failed));
    let started = Instant::now();
    assert!(reviews.token(&Secret::new("honest")).await.is_ok());
    assert!(started.elapsed() < Duration::from_secs(1));
}
