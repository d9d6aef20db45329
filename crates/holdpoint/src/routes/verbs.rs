//! Paths whose last segment ends in a verb: `/v1/runs/{runId}:fork`. The router matches whole segments only, so the
//! path is rewritten before the router sees it. A segment without a known verb is not changed: ids may contain colons.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Bytes, HttpBody};
use axum::http::uri::PathAndQuery;
use axum::http::{Request, Response, Uri};
use axum::routing::future::RouteFuture;
use tower_service::Service;

/// Prefix of routes with verbs inside the router. Requests to paths with this prefix are rejected.
const INTERNAL_PREFIX: &str = "/!";

/// Returns the pattern of a route that the router can match.
pub(crate) fn pattern(path: &str) -> String {
    match split(path) {
        Some((before, verb)) if before.ends_with('}') => format!("{INTERNAL_PREFIX}{before}/{verb}"),
        _ => path.to_owned(),
    }
}

/// Returns the path of a route from the pattern that the router matched.
pub(crate) fn public_path(pattern: &str) -> String {
    let inside = pattern.strip_prefix(INTERNAL_PREFIX).filter(|rest| rest.starts_with('/'));
    match inside.and_then(|rest| rest.rsplit_once('/')) {
        Some((before, verb)) => format!("{before}:{verb}"),
        None => pattern.to_owned(),
    }
}

/// A router that rewrites the path of each request before it chooses a route. It is not a layer, because a layer boxes
/// another future for each request.
#[derive(Clone, Debug)]
pub(crate) struct VerbRouter {
    verbs: Arc<Verbs>,
    pub inner: Router,
}

impl VerbRouter {
    pub(crate) fn new(verbs: Verbs, inner: Router) -> Self {
        Self { verbs: Arc::new(verbs), inner }
    }
}

impl<B> Service<Request<B>> for VerbRouter
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    type Response = Response<axum::body::Body>;
    type Error = Infallible;
    type Future = RouteFuture<Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let uri = std::mem::take(request.uri_mut());
        // No route has the internal prefix as its path, so the router responds that the path is unknown.
        *request.uri_mut() = self.verbs.rewrite(uri).unwrap_or_else(|| Uri::from_static(INTERNAL_PREFIX));
        self.inner.call(request)
    }
}

/// The verbs of a table of routes, each with the segments before it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verbs(Vec<(Vec<&'static str>, &'static str)>);

impl Verbs {
    pub(crate) fn of(paths: impl Iterator<Item = &'static str>) -> Self {
        let verbs = paths.filter_map(split).filter(|(before, _)| before.ends_with('}'));
        Self(verbs.map(|(before, verb)| (before.split('/').collect(), verb)).collect())
    }

    /// Rewrites the path of a request to the pattern of its route. Returns None for a path with the internal prefix.
    pub(crate) fn rewrite(&self, uri: Uri) -> Option<Uri> {
        let path = uri.path();
        if path == INTERNAL_PREFIX
            || path.strip_prefix(INTERNAL_PREFIX).is_some_and(|rest| rest.starts_with('/'))
        {
            return None;
        }
        let Some((before, verb)) = split(path).filter(|(before, verb)| self.contains(before, verb)) else {
            return Some(uri);
        };
        let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let inside = format!("{INTERNAL_PREFIX}{before}/{verb}{query}");
        let mut parts = uri.into_parts();
        // The path is built from parts of a valid path, so it is valid. If it were not, no route would match.
        parts.path_and_query = Some(PathAndQuery::try_from(inside).ok()?);
        Uri::from_parts(parts).ok()
    }

    fn contains(&self, before: &str, verb: &str) -> bool {
        self.0.iter().any(|(pattern, known)| *known == verb && matches_pattern(pattern, before))
    }
}

fn matches_pattern(pattern: &[&str], path: &str) -> bool {
    let mut segments = path.split('/');
    let is_match = pattern.iter().all(|expected| match segments.next() {
        Some("") => expected.is_empty(),
        Some(segment) => expected.starts_with('{') || *expected == segment,
        None => false,
    });
    is_match && segments.next().is_none()
}

/// Splits at the last colon of the last segment. Clients may write the colon as `%3A`.
fn split(path: &str) -> Option<(&str, &str)> {
    let last = path.rfind('/')? + 1;
    let segment = &path[last..];
    let plain = segment.rfind(':').map(|at| (at, 1));
    let escaped = segment.rfind("%3A").max(segment.rfind("%3a")).map(|at| (at, 3));
    let (at, length) = plain.max(escaped)?;
    Some((&path[..last + at], &segment[at + length..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(path: &str) -> Option<String> {
        let verbs =
            Verbs::of(["/v1/runs/{runId}:fork", "/v1/runs/{runId}", "/v1/runs:bulk-cancel"].into_iter());
        verbs.rewrite(path.parse().unwrap()).map(|uri| uri.to_string())
    }

    #[test]
    fn a_verb_is_not_part_of_the_id() {
        assert_eq!(pattern("/v1/runs/{runId}:fork"), "/!/v1/runs/{runId}/fork");
        for path in ["/v1/runs/{runId}:fork", "/v1/runs/{runId}", "/v1/runs:bulk-cancel"] {
            assert_eq!(public_path(&pattern(path)), path);
        }
        assert_eq!(rewritten("/v1/runs/a:fork").unwrap(), "/!/v1/runs/a/fork");
        assert_eq!(rewritten("/v1/runs/a%3Afork?x=1:2").unwrap(), "/!/v1/runs/a/fork?x=1:2");
        assert_eq!(rewritten("/v1/runs/a:b:fork").unwrap(), "/!/v1/runs/a:b/fork");
        assert_eq!(rewritten("http://host/v1/runs/a:fork").unwrap(), "http://host/!/v1/runs/a/fork");
    }

    #[test]
    fn a_path_without_a_known_verb_is_not_changed() {
        for path in [
            "/v1/runs/a",
            "/v1/runs/a:i1",
            "/v1/runs/a:fork/events",
            "/v1/runs/:fork",
            "/v1/runs/a/artifacts/a:fork",
            "/v1/workflows/a:fork",
            "/v1/runs:bulk-cancel",
            "/v1/runs/a?b=c:fork",
        ] {
            assert_eq!(rewritten(path).unwrap(), path);
        }
        assert_eq!(pattern("/v1/runs:bulk-cancel"), "/v1/runs:bulk-cancel");
    }

    #[test]
    fn paths_with_the_internal_prefix_are_rejected() {
        assert_eq!(rewritten("/!/v1/runs/a/fork"), None);
        assert_eq!(rewritten("/!"), None);
        assert_eq!(rewritten("/!a").unwrap(), "/!a");
    }
}
