//! The inbox pages: assets, cache and security headers, and signed links that are opened in a browser.

use serde_json::json;
use ureq::http::Response;

use crate::harness::{Client, Server, gated};

const BROWSER: (&str, &str) = ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8");
const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

fn header<'a>(answer: &'a Response<String>, name: &str) -> &'a str {
    answer.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

fn assert_security_headers(answer: &Response<String>, what: &str) {
    for (name, value) in [
        ("content-security-policy", CSP),
        ("x-frame-options", "DENY"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
    ] {
        assert_eq!(header(answer, name), value, "{name} of {what}");
    }
    let policy = header(answer, "permissions-policy");
    assert!(
        policy.split(", ").all(|feature| feature.ends_with("=()")) && policy.contains("camera"),
        "{policy}"
    );
}

/// Returns the paths of all assets that a page and its modules load.
fn assets_of(client: &Client, page: &str, text: &str) -> Vec<String> {
    let top = |relative: &str| format!("/{}", relative.trim_start_matches("../"));
    let mut found: Vec<String> =
        text.split('"').filter(|part| part.contains("inbox/assets/")).map(top).collect();
    assert!(!found.is_empty(), "{page} loads no asset");
    let mut at = 0;
    while at < found.len() {
        let folder = found[at].rsplit_once('/').unwrap().0.to_owned();
        let module = client.exchange("GET", &found[at], None, &[]);
        let imports = module.body().lines().filter(|line| line.contains("import") || line.contains("export"));
        let imports = imports.filter_map(|line| line.split(" from \"").nth(1)?.split('"').next());
        for import in imports.filter(|import| import.starts_with('.')) {
            let path = resolved(&folder, import);
            if !found.contains(&path) {
                found.push(path);
            }
        }
        at += 1;
    }
    found
}

fn resolved(folder: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in relative.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            other => parts.push(other),
        }
    }
    parts.join("/")
}

#[test]
fn the_page_and_its_assets_have_security_and_cache_headers() {
    let server = Server::start();
    let client = server.client.with_key(None);
    for path in ["/inbox", "/inbox/", "/inbox/runs/r1"] {
        let page = client.exchange("GET", path, None, &[BROWSER]);
        assert_eq!(
            (page.status().as_u16(), header(&page, "content-type")),
            (200, "text/html; charset=utf-8")
        );
        assert_eq!(header(&page, "cache-control"), "no-cache");
        assert_security_headers(&page, path);
        let again = client.exchange("GET", path, None, &[("if-none-match", header(&page, "etag"))]);
        assert_eq!((again.status().as_u16(), again.body().as_str()), (304, ""));
        assert_security_headers(&again, path);
        for asset in assets_of(&client, path, page.body()) {
            let found = client.exchange("GET", &asset, None, &[]);
            assert_eq!(found.status(), 200, "{asset}");
            assert_security_headers(&found, &asset);
            assert_eq!(header(&found, "cache-control"), "public, max-age=31536000, immutable", "{asset}");
            let media = if asset.ends_with(".js") { "text/javascript" } else { "text/css" };
            assert!(header(&found, "content-type").starts_with(media), "{asset}");
            let old = client.exchange("GET", &asset.replacen("/assets/", "/assets/0", 1), None, &[]);
            assert_eq!((old.status().as_u16(), header(&old, "cache-control")), (404, "no-store"), "{asset}");
            assert_security_headers(&old, &asset);
        }
    }
    let page = client.exchange("GET", "/inbox", None, &[BROWSER]);
    let asset = page.body().split('"').find(|part| part.starts_with("inbox/assets/")).unwrap().to_owned();
    let hash = asset.split('/').nth(2).unwrap();
    for odd in ["", "unknown.js", "../index.html", "..%2Findex.html", "%2e%2e/app.js", "app.js/"] {
        let answer = client.exchange("GET", &format!("/inbox/assets/{hash}/{odd}"), None, &[]);
        assert_eq!(answer.status(), 404, "{odd}");
    }
    assert_eq!(client.send("POST", "/inbox", None).status, 405);
}

#[test]
fn browsers_are_redirected_from_the_root_to_the_inbox() {
    let server = Server::start();
    let config = ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0);
    let agent = config.build().new_agent();
    let ask = |accept: &str| agent.get(format!("{}/", server.url)).header("accept", accept).call().unwrap();
    let led = ask(BROWSER.1);
    assert_eq!((led.status().as_u16(), led.headers()["location"].to_str().unwrap()), (307, "inbox"));
    assert_eq!(ask("*/*").status(), 404);
}

#[test]
fn opening_a_signed_link_in_a_browser_shows_a_page_and_does_not_decide() {
    let (server, log) = Server::start_logging(&[], "trace");
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let run = server.client.start_run("gated");
    let minted = server.client.send("POST", &format!("/v1/runs/{run}/interrupts/gate/tokens"), None).body;
    let token = minted["token"].as_str().unwrap();
    let path = format!("/v1/interrupts/{token}");
    let client = server.client.with_key(None);
    for path in [path.as_str(), "/v1/interrupts/nonsense"] {
        let page = client.exchange("GET", path, None, &[BROWSER]);
        assert_eq!(
            (page.status().as_u16(), header(&page, "content-type")),
            (200, "text/html; charset=utf-8")
        );
        assert_eq!(header(&page, "cache-control"), "no-store");
        assert_security_headers(&page, path);
        assert!(!page.body().contains(token));
        for asset in assets_of(&client, path, page.body()) {
            assert_eq!(client.get(&asset).status, 200, "{asset}");
        }
    }
    for accept in ["application/json", "*/*"] {
        let shown = client.exchange("GET", &path, None, &[("accept", accept)]);
        assert_eq!(header(&shown, "content-type"), "application/json");
        assert_eq!(header(&shown, "cache-control"), "no-store");
        assert!(shown.body().contains("Go on?"));
    }
    assert_eq!(server.client.status(&run), "waiting-approval");
    let used = client.post(&path, &json!({"resumeValue": {"action": "accept"}}));
    assert_eq!(used.status, 200);
    assert!(!std::fs::read_to_string(log).unwrap().contains(token), "the log contains no token");
}
