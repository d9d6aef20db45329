//! Headers that every response has: they keep browsers from guessing types, caches from storing data, and where the
//! server is reached by https, browsers from using http.

use axum::http::{HeaderMap, HeaderValue, header};

/// The scheme by which browsers reach the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reach {
    #[default]
    Http,
    /// By TLS of the server itself or of a proxy in front.
    Https,
}

impl Reach {
    /// Returns how to answer this request. A browser that is told to use https for `localhost` would do so for every
    /// other server on that machine.
    pub(crate) fn of_request(self, headers: &HeaderMap) -> Self {
        let host = || headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let is_localhost =
            || host().split(':').next().is_some_and(|name| name.eq_ignore_ascii_case("localhost"));
        if self == Self::Https && is_localhost() { Self::Http } else { self }
    }
}

/// Completes the headers of a response. What a handler says about caching stays.
pub(crate) fn complete(response: &mut HeaderMap, reach: Reach) {
    response.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if !response.contains_key(header::CACHE_CONTROL) {
        response.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if reach == Reach::Https {
        // Half a year.
        let value = HeaderValue::from_static("max-age=15768000");
        response.insert(header::STRICT_TRANSPORT_SECURITY, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn https_is_demanded_where_the_server_is_reached_by_it_and_not_for_localhost() {
        let of = |reach: Reach, host: &'static str| {
            reach.of_request(&HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))]))
        };
        assert_eq!(of(Reach::Https, "holdpoint.example.com"), Reach::Https);
        assert_eq!(of(Reach::Https, "localhost:8484"), Reach::Http);
        assert_eq!(of(Reach::Http, "holdpoint.example.com"), Reach::Http);
        assert_eq!(Reach::Https.of_request(&HeaderMap::new()), Reach::Https);
    }

    #[test]
    fn data_is_not_stored_unless_the_handler_says_otherwise() {
        let mut data = HeaderMap::new();
        complete(&mut data, Reach::Http);
        assert_eq!(
            (&data["cache-control"], &data["x-content-type-options"]),
            (&HeaderValue::from_static("no-store"), &HeaderValue::from_static("nosniff"))
        );
        assert!(!data.contains_key("strict-transport-security"));
        let mut stream =
            HeaderMap::from_iter([(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))]);
        complete(&mut stream, Reach::Https);
        assert_eq!(stream["cache-control"], "no-cache");
        assert_eq!(stream["strict-transport-security"], "max-age=15768000");
    }
}
