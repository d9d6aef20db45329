//! Sessions of browsers: a cookie that stands for a key. What is remembered of one is a copy that is soon asked for
//! again; the store decides. What changes something must come from a page of ours.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderValue, Method, header};
use holdpoint_api::ErrorCode;
use holdpoint_core::Timestamp;
use holdpoint_engine::{ApiKey, Engine, Session};
use tokio::sync::watch;

use super::failures::FailureGuard;
use super::minting::{hash, random_hex};
use crate::error::ApiError;
use crate::response_headers::Reach;

const COOKIE: &str = "holdpoint_session";
/// The name where the server is reached by https. Browsers let no other host and no plain http set such a cookie.
const COOKIE_HTTPS: &str = "__Host-holdpoint_session";
/// What our page sends with everything that changes something. Forms cannot, and pages of others would have to ask.
const PAGE: &str = "x-holdpoint-page";

/// A session that is still good, and its key.
#[derive(Clone, Debug)]
pub(crate) struct SignedIn {
    pub session: Arc<Session>,
    pub key: Arc<ApiKey>,
}

impl SignedIn {
    /// When it ends if nobody uses it: with its key at the latest.
    pub(crate) fn expires_at(&self) -> Timestamp {
        self.key.expires_at.map_or(self.session.expires_at, |end| end.min(self.session.expires_at))
    }
}

/// Sessions that were used lately, so that not every request asks the store. Another node may end one without this one
/// hearing of it: what is remembered counts for a moment only. After that the entry only says that this node knows the
/// session, so that it may be looked up however many unknown tokens come from its address.
#[derive(Debug, Default)]
pub(crate) struct SessionRing {
    by_hash: RwLock<HashMap<String, Remembered>>,
    /// Counts what ended here, so that what was read before is not trusted after it.
    endings: watch::Sender<u64>,
}

#[derive(Debug)]
struct Remembered {
    found: SignedIn,
    /// When the store was asked.
    asked: Instant,
    /// The count of endings when the store was asked.
    endings: u64,
}

impl SessionRing {
    const SESSIONS_MAX: usize = 10_000;
    /// How long a session that was ended elsewhere may still be taken here.
    const TRUSTED: Duration = Duration::from_secs(1);

    /// The session of a token, whether it is still good or not.
    pub(crate) async fn find(
        &self,
        engine: &Engine,
        failures: &FailureGuard<'_>,
        token: &str,
    ) -> Result<Option<SignedIn>, ApiError> {
        let hash = hash(token);
        if let Some(known) = self.remembered(&hash, Instant::now()) {
            return Ok(Some(known));
        }
        if !self.by_hash.read().unwrap_or_else(PoisonError::into_inner).contains_key(&hash) {
            failures.check()?;
        }
        // The clock starts before the question: what was read is no younger than that.
        let (asked, endings) = (Instant::now(), *self.endings.borrow());
        let Some((session, key)) = engine.session_by_hash(&hash).await? else {
            failures.count();
            return Ok(None);
        };
        let found = SignedIn { session: Arc::new(used(engine, session).await), key: Arc::new(key) };
        let mut ring = self.by_hash.write().unwrap_or_else(PoisonError::into_inner);
        if ring.len() >= Self::SESSIONS_MAX && !ring.contains_key(&hash) {
            ring.clear();
        }
        ring.insert(hash, Remembered { found: found.clone(), asked, endings });
        Ok(Some(found))
    }

    fn remembered(&self, hash: &str, now: Instant) -> Option<SignedIn> {
        let ring = self.by_hash.read().unwrap_or_else(PoisonError::into_inner);
        let known = ring.get(hash)?;
        let is_fresh = now.saturating_duration_since(known.asked) < Self::TRUSTED
            && known.endings == *self.endings.borrow();
        is_fresh.then(|| known.found.clone())
    }

    /// Called when a session or a key was revoked: every session is read from the store again.
    pub(crate) fn clear(&self) {
        self.endings.send_modify(|count| *count += 1);
    }

    /// Returns the session again that a response depends on, by the hash of its token. That is no use of the session
    /// and does not prolong it.
    pub(super) async fn recheck(&self, engine: &Engine, hash: &str) -> Result<Option<SignedIn>, ApiError> {
        if let Some(known) = self.remembered(hash, Instant::now()) {
            return Ok(Some(known));
        }
        let (asked, endings) = (Instant::now(), *self.endings.borrow());
        let Some((session, key)) = engine.session_by_hash(hash).await? else { return Ok(None) };
        let found = SignedIn { session: Arc::new(session), key: Arc::new(key) };
        // Other streams of the session use the same answer.
        let mut ring = self.by_hash.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = ring.get_mut(hash) {
            *known = Remembered { found: found.clone(), asked, endings };
        }
        Ok(Some(found))
    }

    /// Tells when a session or a key was revoked at this node.
    pub(super) fn revocations(&self) -> watch::Receiver<u64> {
        self.endings.subscribe()
    }
}

/// One that has ended is not used, whoever has its cookie.
async fn used(engine: &Engine, session: Session) -> Session {
    if session.revoked_at.is_some() || session.expires_at <= engine.now() {
        return session;
    }
    match engine.use_session(session.clone()).await {
        Ok(used) => used,
        Err(error) => {
            tracing::debug!(%error, "the use of a session is written down the next time");
            session
        }
    }
}

/// A token nobody can guess, what is stored of it, and the name of what it opens.
pub(crate) fn fresh_token(prefix: &str) -> Result<(String, String, String), ApiError> {
    let token = random_hex(32)?;
    let hash = hash(&token);
    Ok((token, hash, format!("{prefix}{}", random_hex(8)?)))
}

/// What is stored of a token.
pub(crate) fn token_hash(token: &str) -> String {
    hash(token)
}

fn cookie_name(reach: Reach) -> &'static str {
    match reach {
        Reach::Http => COOKIE,
        Reach::Https => COOKIE_HTTPS,
    }
}

/// Returns the token in the cookie, if there is one. By https the plain name does not count: another host of the domain
/// could have set it.
pub(crate) fn cookie(headers: &HeaderMap, reach: Reach) -> Option<&str> {
    let expected = cookie_name(reach);
    let texts = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == expected).map(|(_, token)| token)
}

/// Keeps the token in the browser, out of reach of scripts and of other sites, or takes it away again.
pub(crate) fn set_cookie(token: &str, seconds: i64, reach: Reach) -> Result<HeaderValue, ApiError> {
    let (name, seconds) = (cookie_name(reach), seconds.max(0));
    let secure = if reach == Reach::Https { "; Secure" } else { "" };
    let text = format!("{name}={token}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}{secure}");
    HeaderValue::from_str(&text).map_err(ApiError::internal)
}

/// What changes something on the strength of a cookie must come from our own page: browsers send cookies along
/// whoever asks them to.
pub(super) fn check_page(method: &Method, headers: &HeaderMap, public_url: &str) -> Result<(), ApiError> {
    if [Method::GET, Method::HEAD].contains(method) {
        return Ok(());
    }
    if headers.get(PAGE).is_none_or(|value| value != "1") {
        return Err(refused("with a session, send the header X-Holdpoint-Page: 1"));
    }
    check_origin(headers, public_url)
}

/// Browsers say where a request comes from. Who does not say is no browser, or one that is told by the header.
pub(crate) fn check_origin(headers: &HeaderMap, public_url: &str) -> Result<(), ApiError> {
    let site = headers.get("sec-fetch-site");
    let origins: Vec<&HeaderValue> = headers.get_all(header::ORIGIN).iter().collect();
    let ours = match origins[..] {
        [] => true,
        [origin] => origin.to_str().is_ok_and(|origin| is_ours(origin, headers, public_url)),
        _ => false,
    };
    if !ours || site.is_some_and(|site| site != "same-origin") {
        return Err(refused("this request comes from a page of another origin"));
    }
    Ok(())
}

fn is_ours(origin: &str, headers: &HeaderMap, public_url: &str) -> bool {
    let public = public_url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
    if origin == public {
        return true;
    }
    // By another name than the one that links have: the one that this very request was sent to.
    let Some((scheme, host)) = origin.split_once("://") else { return false };
    let downgraded = public.starts_with("https://") && scheme != "https";
    let asked = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    ["http", "https"].contains(&scheme) && !downgraded && asked.is_some_and(|asked| asked == host)
}

fn refused(message: &str) -> ApiError {
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
            assert_eq!(cookie(&headers(&given), Reach::Http), found, "{given:?}");
        }
    }

    #[test]
    fn by_https_only_the_cookie_counts_that_no_other_host_can_set() {
        for (given, found) in [
            (vec![("cookie", "holdpoint_session=t")], None),
            (vec![("cookie", "holdpoint_session=t; __Host-holdpoint_session=u")], Some("u")),
        ] {
            assert_eq!(cookie(&headers(&given), Reach::Https), found, "{given:?}");
        }
    }

    #[test]
    fn a_cookie_is_secure_where_the_server_is() {
        let text = |reach, seconds| set_cookie("t", seconds, reach).unwrap().to_str().unwrap().to_owned();
        let plain = "holdpoint_session=t; HttpOnly; SameSite=Strict; Path=/; Max-Age=9";
        assert_eq!(text(Reach::Http, 9), plain);
        assert_eq!(text(Reach::Https, 9), format!("__Host-{plain}; Secure"));
        assert!(text(Reach::Http, -5).ends_with("Max-Age=0"));
    }

    #[test]
    fn what_changes_something_comes_from_our_own_page() {
        const OURS: &str = "https://a.example/holdpoint";
        let page = ("x-holdpoint-page", "1");
        let host = ("host", "10.0.0.7:8484");
        let judged = |method: &Method, given: &[(&'static str, &'static str)]| {
            check_page(method, &headers(given), OURS).is_ok()
        };
        assert!(judged(&Method::GET, &[("origin", "https://evil.example")]), "reading changes nothing");
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
                assert_eq!(judged(&method, &given), fine, "{method} {given:?}");
            }
        }
        let local = headers(&[page, host, ("origin", "http://10.0.0.7:8484")]);
        assert!(check_page(&Method::POST, &local, "http://127.0.0.1:8484").is_ok());
    }
}
