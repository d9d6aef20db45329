//! Paths whose last segment ends in a verb: `/v1/runs/{runId}:fork`. The router matches whole segments only, so the
//! verb is taken off here, in front of it, and nowhere else. A segment that ends in anything but a verb of its path
//! stays as it is: ids may have colons in them.

use axum::http::Uri;
use axum::http::uri::PathAndQuery;

/// Routes with verbs live below here inside the router. From outside nothing leads there.
const INSIDE: &str = "/!";

/// Where the router keeps a route, as a pattern it can match.
pub(crate) fn pattern(path: &str) -> String {
    match split(path) {
        Some((before, verb)) if before.ends_with('}') => format!("{INSIDE}{before}/{verb}"),
        _ => path.to_owned(),
    }
}

/// Returns the path of a route from the pattern that the router matched.
pub(crate) fn shown(pattern: &str) -> String {
    let inside = pattern.strip_prefix(INSIDE).filter(|rest| rest.starts_with('/'));
    match inside.and_then(|rest| rest.rsplit_once('/')) {
        Some((before, verb)) => format!("{before}:{verb}"),
        None => pattern.to_owned(),
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

    /// Leads a request to its route; nothing when it asks for what is inside.
    pub(crate) fn lead(&self, uri: Uri) -> Option<Uri> {
        let path = uri.path();
        if path == INSIDE || path.strip_prefix(INSIDE).is_some_and(|rest| rest.starts_with('/')) {
            return None;
        }
        let Some((before, verb)) = split(path).filter(|(before, verb)| self.knows(before, verb)) else {
            return Some(uri);
        };
        let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let inside = format!("{INSIDE}{before}/{verb}{query}");
        let mut parts = uri.into_parts();
        // Made of pieces of a valid one, so it is one; if not, there is nothing at that path.
        parts.path_and_query = Some(PathAndQuery::try_from(inside).ok()?);
        Uri::from_parts(parts).ok()
    }

    fn knows(&self, before: &str, verb: &str) -> bool {
        self.0.iter().any(|(pattern, known)| *known == verb && fits(pattern, before))
    }
}

fn fits(pattern: &[&str], path: &str) -> bool {
    let mut segments = path.split('/');
    let fitting = pattern.iter().all(|expected| match segments.next() {
        Some("") => expected.is_empty(),
        Some(segment) => expected.starts_with('{') || *expected == segment,
        None => false,
    });
    fitting && segments.next().is_none()
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

    fn led(path: &str) -> Option<String> {
        let verbs =
            Verbs::of(["/v1/runs/{runId}:fork", "/v1/runs/{runId}", "/v1/runs:bulk-cancel"].into_iter());
        verbs.lead(path.parse().unwrap()).map(|uri| uri.to_string())
    }

    #[test]
    fn a_verb_is_no_part_of_the_id() {
        assert_eq!(pattern("/v1/runs/{runId}:fork"), "/!/v1/runs/{runId}/fork");
        for path in ["/v1/runs/{runId}:fork", "/v1/runs/{runId}", "/v1/runs:bulk-cancel"] {
            assert_eq!(shown(&pattern(path)), path);
        }
        assert_eq!(led("/v1/runs/a:fork").unwrap(), "/!/v1/runs/a/fork");
        assert_eq!(led("/v1/runs/a%3Afork?x=1:2").unwrap(), "/!/v1/runs/a/fork?x=1:2");
        assert_eq!(led("/v1/runs/a:b:fork").unwrap(), "/!/v1/runs/a:b/fork");
        assert_eq!(led("http://host/v1/runs/a:fork").unwrap(), "http://host/!/v1/runs/a/fork");
    }

    #[test]
    fn what_is_no_verb_of_this_path_stays() {
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
            assert_eq!(led(path).unwrap(), path);
        }
        assert_eq!(pattern("/v1/runs:bulk-cancel"), "/v1/runs:bulk-cancel");
    }

    #[test]
    fn nothing_leads_inside_from_outside() {
        assert_eq!(led("/!/v1/runs/a/fork"), None);
        assert_eq!(led("/!"), None);
        assert_eq!(led("/!a").unwrap(), "/!a");
    }
}
