//! Headers of every response: browsers must not guess media types, caches must not store responses, browsers must not
//! send the path to other sites, and browsers that reach the server over https must not use http.

use axum::http::{HeaderMap, HeaderValue, header};

/// The scheme over which browsers reach the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PublicScheme {
    #[default]
    Http,
    /// TLS of the server itself or of a proxy.
    Https,
}

impl PublicScheme {
    /// Returns the scheme for the headers of the response to this request. It is http for `localhost`: a browser that
    /// must use https for `localhost` would do so for every other server on that machine.
    pub(crate) fn of_request(self, headers: &HeaderMap) -> Self {
        let host = || headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let is_localhost =
            || host().split(':').next().is_some_and(|name| name.eq_ignore_ascii_case("localhost"));
        if self == Self::Https && is_localhost() { Self::Http } else { self }
    }
}

/// Completes the headers of a response. Keeps the caching header of a handler.
pub(crate) fn complete(response: &mut HeaderMap, public_scheme: PublicScheme) {
    response.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if !response.contains_key(header::CACHE_CONTROL) {
        response.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    // Some paths contain a secret.
    response.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    if public_scheme == PublicScheme::Https {
        // Browsers use only https for half a year.
        let value = HeaderValue::from_static("max-age=15768000");
        response.insert(header::STRICT_TRANSPORT_SECURITY, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_to_localhost_do_not_require_https() {
        let of = |public_scheme: PublicScheme, host: &'static str| {
            public_scheme.of_request(&HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))]))
        };
        assert_eq!(of(PublicScheme::Https, "holdpoint.example.com"), PublicScheme::Https);
        assert_eq!(of(PublicScheme::Https, "localhost:8484"), PublicScheme::Http);
        assert_eq!(of(PublicScheme::Http, "holdpoint.example.com"), PublicScheme::Http);
        assert_eq!(PublicScheme::Https.of_request(&HeaderMap::new()), PublicScheme::Https);
    }

    #[test]
    fn responses_are_not_cached_unless_the_handler_allows_it() {
        let mut data = HeaderMap::new();
        complete(&mut data, PublicScheme::Http);
        assert_eq!(
            (&data["cache-control"], &data["x-content-type-options"]),
            (&HeaderValue::from_static("no-store"), &HeaderValue::from_static("nosniff"))
        );
        assert_eq!(data["referrer-policy"], "no-referrer");
        assert!(!data.contains_key("strict-transport-security"));
        let mut stream =
            HeaderMap::from_iter([(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))]);
        complete(&mut stream, PublicScheme::Https);
        assert_eq!(stream["cache-control"], "no-cache");
        assert_eq!(stream["strict-transport-security"], "max-age=15768000");
    }
}
