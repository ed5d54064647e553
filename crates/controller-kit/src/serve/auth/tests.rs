//! Who is believed and who may, with an API server of the test's making, in virtual time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair};
use rustls::pki_types::CertificateDer;
use tokio::time::advance;

use super::review::ReviewError;
use super::*;
use crate::clock::TokioClock;
use crate::log::Secret;
use crate::serve::Peer;

const TEN: Duration = Duration::from_secs(10);

/// Knows the token `good` of `alice`, who may get `/metrics`.
#[derive(Default)]
struct Fake {
    down: AtomicBool,
    asked: AtomicUsize,
}

impl Fake {
    fn asked(&self) -> Result<(), ReviewError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.down.load(Ordering::Relaxed) { Err(ReviewError::TooLate("TokenReview")) } else { Ok(()) }
    }
}

#[async_trait]
impl Reviews for Fake {
    async fn token(&self, token: &Secret) -> Result<Option<User>, ReviewError> {
        self.asked()?;
        Ok((token.expose() == "good").then(|| User { name: "alice".into(), ..User::default() }))
    }

    async fn access(&self, user: &User, verb: &str, path: &str) -> Result<Decision, ReviewError> {
        self.asked()?;
        let authenticated = user.groups.iter().any(|group| group == AUTHENTICATED);
        if authenticated && user.name == "alice" && (verb, path) == ("get", "/metrics") {
            return Ok(Decision::Allowed);
        }
        Ok(Decision::Denied("no RBAC policy matched".into()))
    }
}

fn access(trust: Trust, reviews: Option<Arc<Fake>>) -> Access {
    let reviews = reviews.map(|reviews| reviews as Arc<dyn Reviews>);
    let clock = Arc::new(TokioClock::starting_at("2026-11-15T00:00:00Z".parse().unwrap()));
    let (authentication, authorization) = (Authentication::default(), Authorization::default());
    Access::new(&authentication, &authorization, Arc::new(trust), reviews, clock, Metrics::unregistered())
}

fn get(path: &str, token: Option<&str>) -> Request<Bytes> {
    let mut request = Request::get(path);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    request.body(Bytes::new()).unwrap()
}

async fn code(access: &Access, request: &Request<Bytes>) -> u16 {
    access.admit(request).await.map_or_else(|refusal| refusal.status().as_u16(), |()| 200)
}

#[tokio::test(start_paused = true)]
async fn the_codes_are_upstreams() {
    let fake = Arc::new(Fake::default());
    let access = access(Trust::nobody(), Some(fake.clone()));
    assert_eq!(code(&access, &get("/healthz", None)).await, 200);
    assert_eq!(code(&access, &get("/healthz", Some("bad"))).await, 200, "probes need nobody");
    assert_eq!(fake.asked.load(Ordering::Relaxed), 0);
    assert_eq!(code(&access, &get("/metrics", None)).await, 403);
    assert_eq!(code(&access, &get("/metrics", Some("good"))).await, 200);
    assert_eq!(code(&access, &get("/configz", Some("good"))).await, 403);
    assert_eq!(code(&access, &get("/metrics", Some("bad"))).await, 401);
    fake.down.store(true, Ordering::Relaxed);
    assert_eq!(code(&access, &get("/metrics", Some("good"))).await, 200, "remembered");
    assert_eq!(code(&access, &get("/metrics", Some("bad"))).await, 401, "remembered");
    assert_eq!(code(&access, &get("/metrics", None)).await, 403, "remembered");
    assert_eq!(code(&access, &get("/statusz", Some("good"))).await, 500, "known, but rights unknown");
    assert_eq!(code(&access, &get("/metrics", Some("other"))).await, 401, "nobody can say whose");
    advance(TEN).await;
    assert_eq!(code(&access, &get("/metrics", Some("good"))).await, 401, "forgotten");
    assert_eq!(code(&access, &get("/metrics", None)).await, 500);
    assert_eq!(code(&access, &get("/healthz", None)).await, 200);
    fake.down.store(false, Ordering::Relaxed);
    assert_eq!(code(&access, &get("/metrics", Some("good"))).await, 200, "a failure is not remembered");
}

#[tokio::test(start_paused = true)]
async fn the_refusal_is_worded_as_the_api_servers() {
    use http_body_util::BodyExt as _;
    let access = access(Trust::nobody(), Some(Arc::default()));
    let refusal = access.admit(&get("/metrics", None)).await.unwrap_err();
    let body = refusal.into_body().collect().await.unwrap().to_bytes();
    let status: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        status["message"],
        r#"forbidden: User "system:anonymous" cannot get path "/metrics": no RBAC policy matched"#
    );
    assert_eq!((&status["kind"], &status["reason"]), (&"Status".into(), &"Forbidden".into()));
}

#[tokio::test(start_paused = true)]
async fn without_an_api_server_only_open_paths_and_masters_pass() {
    let (pem, sign) = authority();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ca.crt");
    std::fs::write(&file, pem).unwrap();
    let options = Authentication { client_ca_file: Some(file), ..Authentication::default() };
    let access = access(Trust::establish(&options, None).await.unwrap(), None);
    assert_eq!(code(&access, &get("/metrics", None)).await, 403);
    assert_eq!(
        code(&access, &get("/metrics", Some("good"))).await,
        403,
        "a token nobody can read says nothing"
    );
    assert_eq!(code(&access, &get("/readyz", None)).await, 200);
    let mut request = get("/metrics", None);
    request.extensions_mut().insert(sign("root", "system:masters"));
    assert_eq!(code(&access, &request).await, 200);
    request.extensions_mut().insert(sign("root", "system:nodes"));
    assert_eq!(code(&access, &request).await, 403);
    let (_, foreign) = authority();
    request.extensions_mut().insert(foreign("root", "system:masters"));
    assert_eq!(code(&access, &request).await, 401, "a certificate that nobody vouches for");
}

/// An authority's PEM, and what shows its certificates to a server.
fn authority() -> (String, impl Fn(&str, &str) -> Peer) {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let pem = issuer.pem();
    let sign = move |name: &str, group: &str| {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationName, group);
        let made = params.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap();
        let certificates: Vec<CertificateDer<'static>> = vec![made.der().clone()];
        Peer { address: ([127, 0, 0, 1], 1).into(), certificates: certificates.into() }
    };
    (pem, sign)
}

#[tokio::test(start_paused = true)]
async fn a_proxy_speaks_for_others_only_with_a_certificate_of_its_own_authority() {
    let ((clients, client), (proxies, proxy)) = (authority(), authority());
    let dir = tempfile::tempdir().unwrap();
    let (client_file, proxy_file) = (dir.path().join("client.crt"), dir.path().join("proxy.crt"));
    std::fs::write(&client_file, clients).unwrap();
    std::fs::write(&proxy_file, proxies).unwrap();
    let mut options = Authentication { client_ca_file: Some(client_file), ..Authentication::default() };
    options.request_header.client_ca_file = Some(proxy_file);
    options.request_header.allowed_names = vec!["front-proxy".into()];
    options.request_header.uid_headers = vec!["X-Remote-Uid".into()];
    let access = access(Trust::establish(&options, None).await.unwrap(), None);
    let spoken = |peer: Option<Peer>| {
        let mut request = Request::get("/metrics")
            .header("X-Remote-User", "bob")
            .header("X-Remote-Uid", "7")
            .header("X-Remote-Group", "one")
            .header("X-Remote-Group", "two")
            .header("X-Remote-Extra-Example.org%2fScopes", "view")
            .body(Bytes::new())
            .unwrap();
        request.extensions_mut().extend(
            peer.map(|peer| {
                let mut extensions = http::Extensions::new();
                extensions.insert(peer);
                extensions
            })
            .unwrap_or_default(),
        );
        request
    };
    let who = async |request: Request<Bytes>| access.authenticator.authenticate(&request).await;
    let bob = who(spoken(Some(proxy("front-proxy", "x")))).await.unwrap();
    let extra = BTreeMap::from([("example.org/scopes".to_owned(), vec!["view".to_owned()])]);
    let groups = ["one", "two", AUTHENTICATED].map(str::to_owned).into();
    assert_eq!(bob, User { name: "bob".into(), uid: "7".into(), groups, extra });
    assert!(who(spoken(Some(proxy("somebody-else", "x")))).await.is_err());
    assert_eq!(
        who(spoken(Some(client("front-proxy", "x")))).await.unwrap().name,
        "front-proxy",
        "itself only"
    );
    assert_eq!(who(spoken(None)).await.unwrap().name, ANONYMOUS, "headers alone say nothing");
}

#[test]
fn always_allowed_paths_are_exact_or_prefixes() {
    let paths = ["/healthz", "/public/*"].map(str::to_owned).into();
    let options = Authorization { always_allow_paths: paths, ..Authorization::default() };
    let authorizer = Authorizer::new(&options, None);
    for (path, open) in [
        ("/healthz", true),
        ("/healthz/leaderElection", false),
        ("/healthzz", false),
        ("/public/a/b", true),
        ("/public", false),
        ("/", false),
    ] {
        assert_eq!(authorizer.always_allows(path), open, "{path}");
    }
}

/// Proves: APP-53
#[test]
fn reviews_may_spend_what_upstreams_may() {
    let rate = super::review::CLIENT_RATE;
    assert!((rate.qps - 200.0).abs() < f32::EPSILON);
    assert_eq!(rate.burst, 400);
}
