//! Who asks: a proxy's word, a client certificate, a bearer token, in this order; whoever says nothing is anonymous, and
//! whoever says something wrong is refused.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Request};

use super::remembered::Remembered;
use super::review::{ReviewError, Reviews};
use super::trust::{Authority, Proxy, Trust, Untrusted};
use super::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User};
use crate::clock::SharedClock;
use crate::log::Secret;
use crate::serve::Peer;

/// Why nobody is believed to ask.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unauthenticated {
    #[error("trusting the client's certificate")]
    Certificate(#[from] Untrusted),
    #[error("reviewing the bearer token")]
    Review(#[from] ReviewError),
    #[error("invalid bearer token")]
    InvalidToken,
}

pub(super) struct Authenticator {
    tokens: Option<Tokens>,
    trust: Arc<Trust>,
    clock: SharedClock,
}

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authenticator").field("trust", &self.trust).finish_non_exhaustive()
    }
}

struct Tokens {
    reviews: Arc<dyn Reviews>,
    remembered: Remembered<Option<User>, ReviewError>,
    lasts: Duration,
}

impl Authenticator {
    pub(super) fn new(
        lasts: Duration,
        trust: Arc<Trust>,
        reviews: Option<Arc<dyn Reviews>>,
        clock: SharedClock,
    ) -> Self {
        let tokens = reviews.map(|reviews| Tokens { reviews, remembered: Remembered::new(), lasts });
        Self { tokens, trust, clock }
    }

    /// The first that succeeds counts; a failure counts only if nothing succeeds.
    pub(super) async fn authenticate(&self, request: &Request<Bytes>) -> Result<User, Unauthenticated> {
        let mut failure = None;
        let peer = request.extensions().get::<Peer>();
        if let Some(peer) = peer.filter(|peer| !peer.certificates.is_empty()) {
            match self.by_certificate(peer, request.headers()) {
                Ok(Some(user)) => return Ok(authenticated(user)),
                Ok(None) => {}
                Err(error) => failure = Some(Unauthenticated::from(error)),
            }
        }
        if let (Some(tokens), Some(token)) = (&self.tokens, bearer(request.headers())) {
            match tokens.owner(&token).await {
                Ok(Some(user)) => return Ok(authenticated(user)),
                Ok(None) => failure = Some(Unauthenticated::InvalidToken),
                Err(error) => failure = Some(error.into()),
            }
        }
        match failure {
            Some(failure) => Err(failure),
            None => Ok(User {
                name: ANONYMOUS.to_owned(),
                groups: vec![UNAUTHENTICATED.to_owned()],
                ..User::default()
            }),
        }
    }

    /// A certificate of the proxies' authority lets its holder speak for others; one of the clients' authority for
    /// itself. `None` if there is no authority to hold it against, or it names nobody.
    fn by_certificate(&self, peer: &Peer, headers: &HeaderMap) -> Result<Option<User>, Untrusted> {
        let authorities = self.trust.current();
        let now = self.clock.now();
        let mut failure = None;
        if let Some(proxy) = &authorities.proxy {
            match spoken_for(proxy, peer, headers, now) {
                Ok(Some(user)) => return Ok(Some(user)),
                Ok(None) => {}
                Err(error) => failure = Some(error),
            }
        }
        if let Some(authority) = &authorities.clients {
            match itself(authority, peer, now) {
                Ok(user) => return Ok(user),
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(None), Err)
    }
}

/// The user that a proxy speaks for, if the certificate is a proxy's and it speaks for one.
fn spoken_for(
    proxy: &Proxy,
    peer: &Peer,
    headers: &HeaderMap,
    now: jiff::Timestamp,
) -> Result<Option<User>, Untrusted> {
    let all = |names: &[String]| -> Vec<String> {
        let values = names.iter().flat_map(|name| headers.get_all(name.as_str()));
        values.filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
    };
    let first = |names: &[String]| all(names).into_iter().find(|value| !value.is_empty());
    let Some(name) = first(&proxy.username_headers) else { return Ok(None) };
    let subject = proxy.authority.verify(&peer.certificates, now)?;
    if !proxy.allowed_names.is_empty() && !proxy.allowed_names.contains(&subject.common_name) {
        return Err(Untrusted::Name(subject.common_name));
    }
    let mut user = User { name, ..User::default() };
    user.uid = first(&proxy.uid_headers).unwrap_or_default();
    user.groups = all(&proxy.group_headers);
    for (header, value) in headers {
        let prefixes = proxy.extra_prefixes.iter().map(|prefix| prefix.to_ascii_lowercase());
        let key = prefixes.filter(|prefix| !prefix.is_empty()).find_map(|prefix| {
            header.as_str().strip_prefix(&prefix).filter(|key| !key.is_empty()).map(unescape)
        });
        if let (Some(key), Ok(value)) = (key, value.to_str()) {
            user.extra.entry(key).or_default().push(value.to_owned());
        }
    }
    Ok(Some(user))
}

/// The user that the certificate itself names: its common name, its organizations as groups.
fn itself(authority: &Authority, peer: &Peer, now: jiff::Timestamp) -> Result<Option<User>, Untrusted> {
    let subject = authority.verify(&peer.certificates, now)?;
    if subject.common_name.is_empty() {
        return Ok(None);
    }
    Ok(Some(User { name: subject.common_name, groups: subject.organizations, ..User::default() }))
}

impl Tokens {
    async fn owner(&self, token: &Secret) -> Result<Option<User>, ReviewError> {
        let ask = || self.reviews.token(token);
        self.remembered.ask(&[token.expose().as_bytes()], |_| self.lasts, ask).await
    }
}

fn authenticated(mut user: User) -> User {
    if !user.groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    user
}

/// The token of `Authorization: Bearer`, if there is one.
fn bearer(headers: &HeaderMap) -> Option<Secret> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim_start().split(' ').next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then(|| Secret::new(token))
}

/// Percent signs stand for what a header's name cannot hold; what is not well escaped is taken as it is.
fn unescape(key: &str) -> String {
    // A plus sign is no space here.
    let escaped = key.replace('+', "%2B");
    let decoded = form_urlencoded::parse(escaped.as_bytes()).next().map(|(name, _)| name.into_owned());
    decoded.filter(|_| !key.contains(['=', '&'])).unwrap_or_else(|| key.to_owned())
}
