//! Headers for browsers and caches, the cookie over https, and access to metrics.

use serde_json::json;
use ureq::http::Response;

use crate::harness::{Client, KEY, Server, client_with_key};

fn get(client: &Client, path: &str) -> Response<String> {
    client.exchange("GET", path, None, &[])
}

fn header<'r>(response: &'r Response<String>, name: &str) -> &'r str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

#[test]
fn responses_have_nosniff_and_data_responses_have_no_store() {
    let server = Server::start();
    for (path, caching) in [
        ("/v1/runs", "no-store"),
        ("/v1/runs/unknown", "no-store"),
        ("/v1/keys", "no-store"),
        ("/healthz", "no-store"),
        ("/unknown", "no-store"),
        ("/v1/openapi.json", "public, max-age=300"),
        ("/inbox", "no-cache"),
    ] {
        let answer = get(&server.client, path);
        let found = (header(&answer, "x-content-type-options"), header(&answer, "cache-control"));
        assert_eq!(found, ("nosniff", caching), "{path}");
        assert_eq!(header(&answer, "referrer-policy"), "no-referrer", "{path}");
        assert_eq!(header(&answer, "strict-transport-security"), "", "{path}: plain http");
    }
}

#[test]
fn with_an_https_url_hsts_is_sent_and_only_the_prefixed_cookie_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_in(folder.path(), &["--public-url", "https://a.example/b"]);
    let client = &server.client.with_key(None);
    assert_eq!(header(&get(client, "/healthz"), "strict-transport-security"), "max-age=15768000");
    let local = client.exchange("GET", "/healthz", None, &[("host", "localhost:8484")]);
    assert_eq!(header(&local, "strict-transport-security"), "");
    let body = json!({"key": KEY}).to_string();
    let answer = client.exchange("POST", "/v1/session", Some(body.as_bytes()), &[]);
    let cookie = header(&answer, "set-cookie");
    let (pair, flags) = cookie.split_once("; ").unwrap();
    let (name, token) = pair.split_once('=').unwrap();
    assert_eq!(name, "__Host-holdpoint_session");
    assert!(flags.contains("Path=/;") && flags.ends_with("; Secure") && !flags.contains("Domain"), "{flags}");
    let status =
        |cookie: &str| client.exchange("GET", "/v1/runs", None, &[("cookie", cookie)]).status().as_u16();
    assert_eq!(status(pair), 200);
    assert_eq!(
        status(&format!("holdpoint_session={token}")),
        401,
        "any host of the domain could set this cookie"
    );
    assert_eq!(status(&format!("holdpoint_session=of-another-host; {pair}")), 200);
}

#[test]
fn metrics_need_no_key_unless_the_operator_requires_a_scope() {
    let open = Server::start();
    assert_eq!(get(&open.client.with_key(None), "/metrics").status(), 200);
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_in(folder.path(), &["--metrics-scope", "runs:read"]);
    let reader = client_with_key(&server.client, &json!({"scopes": ["runs:read"]}));
    let other = client_with_key(&server.client, &json!({"scopes": ["events:send"]}));
    let anonymous = server.client.with_key(None);
    assert_eq!(
        [&reader, &other, &anonymous].map(|client| get(client, "/metrics").status().as_u16()),
        [200, 403, 401]
    );
    assert!(get(&other, "/metrics").body().contains("runs:read"));
    assert_eq!(get(&anonymous, "/healthz").status(), 200);
}

#[test]
fn metrics_with_a_separate_address_are_served_only_there() {
    let (mut server, log) = Server::start_logging(&["--metrics-listen", "127.0.0.1:0"], "info");
    let log = std::fs::read_to_string(log).unwrap();
    let line = log.lines().find(|line| line.contains("metrics are served")).unwrap();
    let address = line.rsplit('=').next().unwrap();
    let metrics = Client::new(&format!("http://{address}"), None);
    let answer = get(&metrics, "/metrics");
    assert!(answer.status() == 200 && answer.body().contains("holdpoint_commits_total"));
    assert_eq!(get(&metrics, "/healthz").status(), 200);
    assert_eq!(get(&metrics, "/readyz").status(), 200);
    let elsewhere = metrics.with_key(Some(KEY));
    assert_eq!(get(&elsewhere, "/v1/runs").status(), 404, "the address of metrics serves no API");
    assert_eq!(get(&server.client, "/metrics").status(), 404);
    server.terminate();
    assert!(server.wait().success());
}
