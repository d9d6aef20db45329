//! Browser sessions: a cookie that stands for an API key. The cache trusts an entry for one second; then the store is
//! read again. Requests that change state must come from a page of this server.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderValue, Method, header};
use holdpoint_api::ErrorCode;
use holdpoint_core::Timestamp;
use holdpoint_engine::{ApiKey, BrowserSession, Engine};
use tokio::sync::watch;

use super::failures::FailureGuard;
use super::minting::{hash, random_hex};
use crate::error::ApiError;
use crate::response_headers::PublicScheme;

const COOKIE: &str = "holdpoint_session";
/// The name if browsers reach the server over https. Browsers do not let another host or plain http set such a cookie.
const COOKIE_HTTPS: &str = "__Host-holdpoint_session";
/// Header that the page sends with each change. Forms cannot set it, and pages of other origins need a preflight for
/// it.
const PAGE_HEADER: &str = "x-holdpoint-page";

/// A session and its key.
#[derive(Clone, Debug)]
pub(crate) struct SessionWithKey {
    pub session: Arc<BrowserSession>,
    pub key: Arc<ApiKey>,
}

impl SessionWithKey {
    /// Returns the instant at which the session ends if it is not used again. A session does not outlive its key.
    pub(crate) fn expires_at(&self) -> Timestamp {
        self.key.expires_at.map_or(self.session.expires_at, |end| end.min(self.session.expires_at))
    }
}

/// Recently used sessions, so that not every request reads the store. Another node may end a session without a
/// notification, so an entry is trusted for one second only. After that the entry only shows that this node knows the
/// session: its lookup is exempt from the limit of unknown tokens from its address.
#[derive(Debug, Default)]
pub(crate) struct SessionCache {
    by_hash: RwLock<HashMap<String, CachedSession>>,
    /// Counts the revocations of sessions and keys on this node. An entry that was read before the last one is not
    /// trusted.
    endings: watch::Sender<u64>,
}

#[derive(Debug)]
struct CachedSession {
    found: SessionWithKey,
    /// The instant before the store was read.
    read_at: Instant,
    /// The count of revocations before the store was read.
    endings: u64,
}

impl SessionCache {
    const SESSIONS_MAX: usize = 10_000;
    /// Maximum time for which this node accepts a session that ended on another node.
    const TRUSTED: Duration = Duration::from_secs(1);

    /// Returns the session of a token, valid or ended.
    pub(crate) async fn find(
        &self,
        engine: &Engine,
        failures: &FailureGuard<'_>,
        token: &str,
    ) -> Result<Option<SessionWithKey>, ApiError> {
        let hash = hash(token);
        if let Some(known) = self.cached(&hash, Instant::now()) {
            return Ok(Some(known));
        }
        if !self.by_hash.read().unwrap_or_else(PoisonError::into_inner).contains_key(&hash) {
            failures.check()?;
        }
        // Read before the query, because the result may be as old as this instant.
        let (read_at, endings) = (Instant::now(), *self.endings.borrow());
        let Some((session, key)) = engine.sessions().get_by_hash(&hash).await? else {
            failures.count();
            return Ok(None);
        };
        let found =
            SessionWithKey { session: Arc::new(record_use(engine, session).await), key: Arc::new(key) };
        let mut entries = self.by_hash.write().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= Self::SESSIONS_MAX && !entries.contains_key(&hash) {
            entries.clear();
        }
        entries.insert(hash, CachedSession { found: found.clone(), read_at, endings });
        Ok(Some(found))
    }

    fn cached(&self, hash: &str, now: Instant) -> Option<SessionWithKey> {
        let entries = self.by_hash.read().unwrap_or_else(PoisonError::into_inner);
        let known = entries.get(hash)?;
        let is_fresh = now.saturating_duration_since(known.read_at) < Self::TRUSTED
            && known.endings == *self.endings.borrow();
        is_fresh.then(|| known.found.clone())
    }

    /// Stops trusting all entries after a revocation, so that every session is read from the store again.
    pub(crate) fn clear(&self) {
        self.endings.send_modify(|count| *count += 1);
    }

    /// Returns the session that an open response depends on, by the hash of its token. This does not prolong the
    /// session.
    pub(super) async fn recheck(
        &self,
        engine: &Engine,
        hash: &str,
    ) -> Result<Option<SessionWithKey>, ApiError> {
        if let Some(known) = self.cached(hash, Instant::now()) {
            return Ok(Some(known));
        }
        let (read_at, endings) = (Instant::now(), *self.endings.borrow());
        let Some((session, key)) = engine.sessions().get_by_hash(hash).await? else { return Ok(None) };
        let found = SessionWithKey { session: Arc::new(session), key: Arc::new(key) };
        // Other streams of the session share this result.
        let mut entries = self.by_hash.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = entries.get_mut(hash) {
            *known = CachedSession { found: found.clone(), read_at, endings };
        }
        Ok(Some(found))
    }

    /// Subscribes to revocations of sessions and keys on this node.
    pub(super) fn revocations(&self) -> watch::Receiver<u64> {
        self.endings.subscribe()
    }
}

/// Records the use of a session, which prolongs it. A session that has ended stays as it is.
async fn record_use(engine: &Engine, session: BrowserSession) -> BrowserSession {
    if session.revoked_at.is_some() || session.expires_at <= engine.now() {
        return session;
    }
    match engine.sessions().record_use(session.clone()).await {
        Ok(used) => used,
        Err(error) => {
            tracing::debug!(%error, "the use of a session was not recorded; its next request records it");
            session
        }
    }
}

/// Returns a random token, its hash, and a random id with the prefix.
pub(crate) fn fresh_token(prefix: &str) -> Result<(String, String, String), ApiError> {
    let token = random_hex(32)?;
    let hash = hash(&token);
    Ok((token, hash, format!("{prefix}{}", random_hex(8)?)))
}

/// Returns the hash under which a token is stored.
pub(crate) fn token_hash(token: &str) -> String {
    hash(token)
}

fn cookie_name(public_scheme: PublicScheme) -> &'static str {
    match public_scheme {
        PublicScheme::Http => COOKIE,
        PublicScheme::Https => COOKIE_HTTPS,
    }
}

/// Returns the token in the cookie, if there is one. Over https the plain name is ignored: another host of the domain
/// could have set it.
pub(crate) fn cookie(headers: &HeaderMap, public_scheme: PublicScheme) -> Option<&str> {
    let expected = cookie_name(public_scheme);
    let texts = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == expected).map(|(_, token)| token)
}

/// Returns the cookie with the token, hidden from scripts and from other sites. Zero seconds delete the cookie.
pub(crate) fn set_cookie(
    token: &str,
    seconds: i64,
    public_scheme: PublicScheme,
) -> Result<HeaderValue, ApiError> {
    let (name, seconds) = (cookie_name(public_scheme), seconds.max(0));
    let secure = if public_scheme == PublicScheme::Https { "; Secure" } else { "" };
    let text = format!("{name}={token}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}{secure}");
    HeaderValue::from_str(&text).map_err(ApiError::internal)
}

/// Rejects a change with a session cookie that does not come from a page of this server: browsers send the cookie with
/// requests of every page.
pub(super) fn check_page(method: &Method, headers: &HeaderMap, public_url: &str) -> Result<(), ApiError> {
    if [Method::GET, Method::HEAD].contains(method) {
        return Ok(());
    }
    if headers.get(PAGE_HEADER).is_none_or(|value| value != "1") {
        return Err(csrf_refusal("with a session, send the header X-Holdpoint-Page: 1"));
    }
    check_origin(headers, public_url)
}

/// Rejects requests from pages of other origins. A request without an origin does not come from a browser, or it has
/// the header of the page.
pub(crate) fn check_origin(headers: &HeaderMap, public_url: &str) -> Result<(), ApiError> {
    let site = headers.get("sec-fetch-site");
    let origins: Vec<&HeaderValue> = headers.get_all(header::ORIGIN).iter().collect();
    let ours = match origins[..] {
        [] => true,
        [origin] => origin.to_str().is_ok_and(|origin| is_own_origin(origin, headers, public_url)),
        _ => false,
    };
    if !ours || site.is_some_and(|site| site != "same-origin") {
        return Err(csrf_refusal("this request comes from a page of another origin"));
    }
    Ok(())
}

fn is_own_origin(origin: &str, headers: &HeaderMap, public_url: &str) -> bool {
    let public = public_url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
    if origin == public {
        return true;
    }
    // The request may use another name of the server than its public URL: then the origin must match the Host header.
    let Some((scheme, host)) = origin.split_once("://") else { return false };
    let downgraded = public.starts_with("https://") && scheme != "https";
    let asked = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    ["http", "https"].contains(&scheme) && !downgraded && asked.is_some_and(|asked| asked == host)
}

fn csrf_refusal(message: &str) -> ApiError {
    ApiError::new(ErrorCode::CsrfRefused, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn a_cookie_is_found_among_others() {
        for (given, found) in [
            (vec![], None),
            (vec![("cookie", "a=b; holdpoint_session=t; c=d")], Some("t")),
            (vec![("cookie", "a=b"), ("cookie", "holdpoint_session=t")], Some("t")),
            (vec![("cookie", "xholdpoint_session=t; holdpoint_sessionx=u")], None),
            (vec![("cookie", "holdpoint_session=")], Some("")),
        ] {
            assert_eq!(cookie(&headers(&given), PublicScheme::Http), found, "{given:?}");
        }
    }

    #[test]
    fn over_https_only_the_host_cookie_is_read() {
        for (given, found) in [
            (vec![("cookie", "holdpoint_session=t")], None),
            (vec![("cookie", "holdpoint_session=t; __Host-holdpoint_session=u")], Some("u")),
        ] {
            assert_eq!(cookie(&headers(&given), PublicScheme::Https), found, "{given:?}");
        }
    }

    #[test]
    fn a_cookie_is_secure_if_the_server_is_reached_over_https() {
        let text = |public_scheme, seconds| {
            set_cookie("t", seconds, public_scheme).unwrap().to_str().unwrap().to_owned()
        };
        let plain = "holdpoint_session=t; HttpOnly; SameSite=Strict; Path=/; Max-Age=9";
        assert_eq!(text(PublicScheme::Http, 9), plain);
        assert_eq!(text(PublicScheme::Https, 9), format!("__Host-{plain}; Secure"));
        assert!(text(PublicScheme::Http, -5).ends_with("Max-Age=0"));
    }

    #[test]
    fn a_change_with_a_session_must_come_from_the_own_page() {
        const OURS: &str = "https://a.example/holdpoint";
        let page = ("x-holdpoint-page", "1");
        let host = ("host", "10.0.0.7:8484");
        let allowed = |method: &Method, given: &[(&'static str, &'static str)]| {
            check_page(method, &headers(given), OURS).is_ok()
        };
        assert!(allowed(&Method::GET, &[("origin", "https://evil.example")]), "reads need no origin");
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH] {
            for (given, fine) in [
                (vec![], false),
                (vec![("x-holdpoint-page", "0")], false),
                (vec![page], true),
                (vec![page, ("origin", "https://a.example")], true),
                (vec![page, ("origin", "https://a.example"), ("sec-fetch-site", "same-origin")], true),
                (vec![page, ("origin", "https://a.example"), ("sec-fetch-site", "same-site")], false),
                (vec![page, ("sec-fetch-site", "cross-site")], false),
                (vec![page, ("sec-fetch-site", "none")], false),
                (vec![page, ("origin", "https://evil.example")], false),
                (vec![page, ("origin", "https://a.example.evil.example")], false),
                (vec![page, ("origin", "null")], false),
                (vec![page, ("origin", "https://a.example"), ("origin", "https://evil.example")], false),
                (vec![page, host, ("origin", "https://10.0.0.7:8484")], true),
                (vec![page, host, ("origin", "http://10.0.0.7:8484")], false),
                (vec![page, host, ("origin", "https://10.0.0.7:9999")], false),
                (vec![("origin", "https://a.example")], false),
            ] {
                assert_eq!(allowed(&method, &given), fine, "{method} {given:?}");
            }
        }
        let local = headers(&[page, host, ("origin", "http://10.0.0.7:8484")]);
        assert!(check_page(&Method::POST, &local, "http://127.0.0.1:8484").is_ok());
    }
}
