//! Browser sessions: sign-in, the cookie, its permissions, and the end of a session.

use serde_json::{Value, json};
use ureq::http::Response;

use crate::harness::{Client, KEY, Server, accept, gated};
use crate::test_database::{TestDatabase, on_both};

on_both! {
    a_link_signs_in_once,
    one_of_sixteen_uses_of_a_sign_in_link_at_once_succeeds,
    a_session_ends_with_its_key,
    a_session_is_ended_only_by_sessions_of_the_same_key,
    a_session_cannot_outlive_itself_by_links_or_keys,
    a_sign_out_ends_keys_sessions_and_links_made_over_the_session,
    invalid_credentials_are_rate_limited_by_address_and_known_ones_pass,
}

/// A browser: a client with a cookie and without a key.
pub(crate) struct Browser {
    client: Client,
    pub cookie: String,
    pub session: Value,
}

const PAGE: (&str, &str) = ("x-holdpoint-page", "1");

impl Browser {
    pub(crate) fn sign_in(client: &Client, body: &Value) -> Result<Self, Box<Response<String>>> {
        let client = client.with_key(None);
        let answer = client.exchange("POST", "/v1/session", Some(body.to_string().as_bytes()), &[]);
        if answer.status() != 201 {
            return Err(Box::new(answer));
        }
        let set = answer.headers()["set-cookie"].to_str().unwrap();
        let cookie = set.split(';').next().unwrap().to_owned();
        let session = serde_json::from_str(answer.body()).unwrap();
        Ok(Self { client, cookie, session })
    }

    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        more: &[(&str, &str)],
    ) -> (u16, Value) {
        let headers = [&[("cookie", self.cookie.as_str())], more].concat();
        let body = body.map(Value::to_string);
        let answer = self.client.exchange(method, path, body.as_deref().map(str::as_bytes), &headers);
        (answer.status().as_u16(), serde_json::from_str(answer.body()).unwrap_or(Value::Null))
    }

    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, None, &[])
    }

    fn delete(&self, path: &str) -> u16 {
        self.send("DELETE", path, None, &[PAGE]).0
    }
}

fn create_key(client: &Client, body: Value) -> (Value, String) {
    let made = client.post("/v1/keys", &body).body;
    let key = made["key"].as_str().unwrap().to_owned();
    (made, key)
}

fn sign_in_with(client: &Client, key: &str) -> Browser {
    Browser::sign_in(client, &json!({"key": key})).unwrap()
}

#[test]
fn a_cookie_has_the_scopes_of_its_key_and_is_not_readable_by_scripts() {
    let server = Server::start();
    let (_, key) = create_key(&server.client, json!({"principal": "ann", "scopes": ["runs:read"]}));
    let body = json!({"key": key}).to_string();
    let answer = server.client.with_key(None).exchange("POST", "/v1/session", Some(body.as_bytes()), &[]);
    let set = answer.headers()["set-cookie"].to_str().unwrap().to_owned();
    let flags: Vec<&str> = set.split("; ").skip(1).collect();
    assert_eq!(flags, ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"], "{set}");
    let token = set.split(['=', ';']).nth(1).unwrap();
    assert_eq!(token.len(), 64, "256 bits");
    assert_eq!(answer.headers()["cache-control"], "no-store");
    let browser = sign_in_with(&server.client, &key);
    let (status, session) = browser.get("/v1/session");
    assert_eq!(
        (status, &session["principal"], &session["scopes"]),
        (200, &json!("ann"), &json!(["runs:read"]))
    );
    assert_eq!(session, browser.session);
    assert_eq!(browser.get("/v1/runs").0, 200);
    assert_eq!(browser.get("/v1/workflows").0, 403, "the session has only the scopes of its key");
    let header = ("authorization", "Bearer hp_unknown");
    assert_eq!(
        browser.send("GET", "/v1/runs", None, &[header]).0,
        401,
        "an Authorization header takes precedence over the cookie"
    );
    for stored in ["holdpoint.db", "holdpoint.db-wal"] {
        let bytes = std::fs::read(server.data().join(stored)).unwrap_or_default();
        assert!(!bytes.windows(token.len()).any(|part| part == token.as_bytes()), "{stored} has the token");
    }
    // Kept until the end of the test: the server opens connections to its database on demand.
    let folder = tempfile::tempdir().unwrap();
    let secure = Server::start_in(folder.path(), &["--public-url", "https://a.example/b"]);
    let body = json!({"key": KEY}).to_string();
    let answer = secure.client.with_key(None).exchange("POST", "/v1/session", Some(body.as_bytes()), &[]);
    assert!(answer.headers()["set-cookie"].to_str().unwrap().ends_with("; Secure"));
}

#[test]
fn requests_with_a_cookie_that_change_state_must_come_from_the_page() {
    let server = Server::start();
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let browser = sign_in_with(&server.client, KEY);
    let run = server.client.start_run("gated");
    let path = format!("/v1/runs/{run}/interrupts/gate");
    let answer = json!({"resumeValue": accept()});
    let (other, own) = (("origin", "https://evil.example"), ("origin", server.url.as_str()));
    for headers in [
        vec![],
        vec![own],
        vec![PAGE, other],
        vec![PAGE, ("origin", "null")],
        vec![PAGE, own, ("sec-fetch-site", "same-site")],
        vec![PAGE, ("sec-fetch-site", "cross-site")],
    ] {
        let (status, refused) = browser.send("POST", &path, Some(&answer), &headers);
        assert_eq!((status, &refused["error"]), (403, &json!("csrf_refused")), "{headers:?}");
        assert_eq!(browser.send("DELETE", "/v1/session", None, &headers).0, 403, "{headers:?}");
    }
    assert_eq!(server.client.status(&run), "waiting-approval");
    let fine = [PAGE, own, ("sec-fetch-site", "same-origin")];
    assert_eq!(browser.send("POST", &path, Some(&answer), &fine).0, 200);
    let body = json!({"key": KEY}).to_string();
    for from in [other, ("sec-fetch-site", "cross-site")] {
        let forced =
            server.client.with_key(None).exchange("POST", "/v1/session", Some(body.as_bytes()), &[from]);
        assert_eq!(forced.status(), 403, "a page of another origin cannot sign in");
        assert!(forced.headers().get("set-cookie").is_none());
    }
}

fn a_link_signs_in_once(database: &TestDatabase) {
    let server = database.start(&[]);
    let (_, key) = create_key(&server.client, json!({"principal": "ann", "scopes": ["runs:read"]}));
    let link = server.client.with_key(Some(&key)).send("POST", "/v1/session:link", None);
    assert_eq!(link.status, 201);
    let url = link.body["url"].as_str().unwrap();
    let (before, token) = url.split_once("#once=").unwrap();
    assert_eq!(before, format!("{}/inbox", server.url));
    let once = json!({"once": token});
    let browser = Browser::sign_in(&server.client, &once).unwrap();
    assert_eq!((&browser.session["principal"], browser.get("/v1/runs").0), (&json!("ann"), 200));
    let again = Browser::sign_in(&server.client, &once).err().unwrap();
    assert_eq!(again.status(), 401);
    assert!(again.body().contains("link_used") && !again.body().contains(token), "{}", again.body());
    let (revoked, key) = create_key(&server.client, json!({}));
    let link = server.client.with_key(Some(&key)).send("POST", "/v1/session:link", None).body;
    let token = link["url"].as_str().unwrap().split_once("#once=").unwrap().1.to_owned();
    server.client.send("DELETE", &format!("/v1/keys/{}", revoked["keyId"].as_str().unwrap()), None);
    assert!(Browser::sign_in(&server.client, &json!({"once": token})).is_err(), "its key was revoked");
}

fn one_of_sixteen_uses_of_a_sign_in_link_at_once_succeeds(database: &TestDatabase) {
    let server = database.start(&[]);
    for _ in 0..5 {
        let link = server.client.send("POST", "/v1/session:link", None).body;
        let token = link["url"].as_str().unwrap().split_once("#once=").unwrap().1.to_owned();
        let (client, once) = (&server.client, &json!({"once": token}));
        let good: usize = std::thread::scope(|scope| {
            let all: Vec<_> =
                (0..16).map(|_| scope.spawn(move || Browser::sign_in(client, once).is_ok())).collect();
            all.into_iter().map(|one| usize::from(one.join().unwrap())).sum()
        });
        assert_eq!(good, 1);
    }
}

fn a_session_ends_with_its_key(database: &TestDatabase) {
    let server = database.start(&[]);
    let client = &server.client;
    let (revoked, key) = create_key(client, json!({}));
    let browser = sign_in_with(client, &key);
    assert_eq!(browser.get("/v1/session").0, 200);
    client.send("DELETE", &format!("/v1/keys/{}", revoked["keyId"].as_str().unwrap()), None);
    let (status, refused) = browser.get("/v1/session");
    assert_eq!((status, &refused["error"]), (401, &json!("key_revoked")));
    let (expiring, key) = create_key(client, json!({"expiresInSeconds": 2}));
    let browser = sign_in_with(client, &key);
    assert_eq!(browser.session["expiresAt"], expiring["expiresAt"], "the session expires with its key");
    client.put("/v1/workflows/gated", &gated("gated"));
    let run = client.start_run("gated");
    // The poll takes two seconds without an event; then the key has expired.
    client.get(&format!("/v1/runs/{run}/events/poll?lastSequence=999&timeout=2"));
    let (status, refused) = browser.get("/v1/session");
    assert_eq!((status, &refused["error"]), (401, &json!("key_expired")));
}

fn a_session_is_ended_only_by_sessions_of_the_same_key(database: &TestDatabase) {
    let server = database.start(&[]);
    let (_, key) = create_key(&server.client, json!({}));
    let (one, two) = (sign_in_with(&server.client, &key), sign_in_with(&server.client, &key));
    let other = sign_in_with(&server.client, KEY);
    let (_, listed) = one.get("/v1/sessions");
    let current = |listed: &Value| -> Vec<bool> {
        listed["sessions"].as_array().unwrap().iter().map(|one| one["current"] == true).collect()
    };
    assert_eq!(current(&listed).iter().filter(|current| **current).count(), 1);
    assert_eq!(current(&listed).len(), 2, "{listed}");
    let path = |browser: &Browser| format!("/v1/sessions/{}", browser.session["sessionId"].as_str().unwrap());
    assert_eq!(other.delete(&path(&two)), 404);
    assert_eq!(two.get("/v1/runs").0, 200);
    assert_eq!(one.delete(&path(&two)), 204);
    assert_eq!((two.get("/v1/runs").0, one.get("/v1/runs").0), (401, 200));
    let out = one.send("DELETE", "/v1/session", None, &[PAGE]);
    assert_eq!(out.0, 204);
    let (status, refused) = one.get("/v1/runs");
    assert_eq!((status, &refused["error"]), (401, &json!("session_ended")));
    let forgotten = server.client.exchange("DELETE", "/v1/session", None, &[]);
    assert!(forgotten.headers()["set-cookie"].to_str().unwrap().contains("holdpoint_session=; "));
    assert_eq!(Browser { cookie: "holdpoint_session=unknown".to_owned(), ..one }.get("/v1/runs").0, 401);
}

fn a_session_cannot_outlive_itself_by_links_or_keys(database: &TestDatabase) {
    let server = database.start(&[]);
    let first = sign_in_with(&server.client, KEY);
    let make_key = |browser: &Browser, body: Value| browser.send("POST", "/v1/keys", Some(&body), &[PAGE]);
    let (status, of_session) = make_key(&first, json!({"scopes": ["keys:manage"]}));
    assert_eq!(status, 201, "{of_session}");
    let end = of_session["expiresAt"].clone();
    assert!(end.is_string(), "a key that was created over a session expires with it: {of_session}");
    let (status, link) = first.send("POST", "/v1/session:link", None, &[PAGE]);
    assert_eq!(status, 201, "{link}");
    let token = link["url"].as_str().unwrap().split_once("#once=").unwrap().1;
    let second = Browser::sign_in(&server.client, &json!({"once": token})).unwrap();
    let by_key = sign_in_with(&server.client, of_session["key"].as_str().unwrap());
    for next in [&second, &by_key] {
        let (status, key) = make_key(next, json!({}));
        assert_eq!((status, &key["expiresAt"]), (201, &end), "{key}");
        let (status, refused) = make_key(next, json!({"expiresAt": "2090-01-01T00:00:00Z"}));
        assert_eq!((status, &refused["details"]["expiresAtMax"]), (403, &end), "{refused}");
    }
    let (_, refused) = make_key(&second, json!({"expiresInSeconds": 8 * 24 * 3600}));
    assert!(refused["message"].as_str().unwrap().contains("send this request with an API key"), "{refused}");
    assert_eq!(make_key(&second, json!({"expiresInSeconds": 60})).0, 201);
    let (endless, _) = create_key(&server.client, json!({"scopes": ["runs:read"]}));
    let rotate = format!("/v1/keys/{}:rotate", endless["keyId"].as_str().unwrap());
    let late = json!({"expiresAt": "2090-01-01T00:00:00Z"});
    assert_eq!(second.send("POST", &rotate, Some(&late), &[PAGE]).0, 403);
    let (status, successor) = second.send("POST", &rotate, None, &[PAGE]);
    assert_eq!((status, &successor["expiresAt"]), (201, &end), "{successor}");
}

fn a_sign_out_ends_keys_sessions_and_links_made_over_the_session(database: &TestDatabase) {
    let server = database.start(&[]);
    let first = sign_in_with(&server.client, KEY);
    let make_link = |browser: &Browser| {
        let (status, link) = browser.send("POST", "/v1/session:link", None, &[PAGE]);
        assert_eq!(status, 201, "{link}");
        json!({"once": link["url"].as_str().unwrap().split_once("#once=").unwrap().1})
    };
    let second = Browser::sign_in(&server.client, &make_link(&first)).unwrap();
    let open_link = make_link(&second);
    let body = json!({"scopes": ["keys:manage", "runs:read"]});
    let (_, of_second) = second.send("POST", "/v1/keys", Some(&body), &[PAGE]);
    let by_key = server.client.with_key(of_second["key"].as_str());
    let (_, of_key) = create_key(&by_key, json!({"scopes": ["runs:read"]}));
    let (endless, rotated) = create_key(&server.client, json!({"scopes": ["runs:read"]}));
    let rotate = format!("/v1/keys/{}:rotate", endless["keyId"].as_str().unwrap());
    let (status, successor) = second.send("POST", &rotate, None, &[PAGE]);
    assert_eq!(status, 201, "{successor}");
    let key_status = |key: &str| server.client.with_key(Some(key)).get("/v1/runs").status;
    let made_keys = [of_second["key"].as_str().unwrap(), &of_key, successor["key"].as_str().unwrap()];
    assert_eq!(made_keys.map(key_status), [200; 3]);

    assert_eq!(first.send("DELETE", "/v1/session", None, &[PAGE]).0, 204);
    assert_eq!(made_keys.map(key_status), [401; 3], "the keys end with the sign-out");
    assert_eq!((second.get("/v1/runs").0, first.get("/v1/runs").0), (401, 401));
    assert_eq!(Browser::sign_in(&server.client, &open_link).err().unwrap().status(), 401);
    assert_eq!(
        [KEY, rotated.as_str()].map(key_status),
        [200; 2],
        "keys that were created with a key stay valid"
    );
}

fn invalid_credentials_are_rate_limited_by_address_and_known_ones_pass(database: &TestDatabase) {
    let server = database.start(&["--auth-failure-limit", "1"]);
    let (_, unused) = create_key(&server.client, json!({"scopes": ["runs:read"]}));
    let browser = sign_in_with(&server.client, KEY);
    assert_eq!(browser.get("/v1/runs").0, 200);
    let with_key = |key: &str| server.client.with_key(Some(key)).get("/v1/runs");
    with_key("hp_unknown").assert_envelope(401, "unauthenticated");
    let header = ("authorization", "Bearer hp_unknown");
    let refused = server.client.with_key(None).exchange("GET", "/v1/runs", None, &[header]);
    assert_eq!(refused.status(), 429, "{}", refused.body());
    let wait: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    assert!(refused.body().contains(r#""scope":"address""#), "{}", refused.body());
    with_key("hp_another").assert_envelope(429, "rate_limited");
    for body in [json!({"key": "hp_unknown"}), json!({"once": "unknown"})] {
        assert_eq!(Browser::sign_in(&server.client, &body).err().unwrap().status(), 429, "{body}");
    }
    let other =
        Browser { cookie: "holdpoint_session=unknown".to_owned(), ..sign_in_with(&server.client, KEY) };
    assert_eq!(other.get("/v1/runs").0, 429);
    assert_eq!((server.client.get("/v1/runs").status, browser.get("/v1/runs").0), (200, 200));
    // The cache does not contain this key yet, so it is treated like a guess.
    with_key(&unused).assert_envelope(429, "rate_limited");
}

#[test]
fn unknown_keys_are_rate_limited_by_default_and_a_sign_in_needs_a_key_or_a_link() {
    let server = Server::start();
    let attempt = |at: usize| server.client.with_key(Some(&format!("hp_{at}"))).get("/v1/runs").status;
    assert_eq!(server.client.get("/v1/runs").status, 200);
    let statuses: Vec<u16> = (0..300).map(attempt).collect();
    assert_eq!(statuses[..100], [401; 100]);
    assert!(statuses.contains(&429), "{statuses:?}");
    assert!(Browser::sign_in(&server.client, &json!({"key": KEY})).is_ok());
    for body in [json!({}), json!({"key": KEY, "once": "a"})] {
        assert_eq!(Browser::sign_in(&server.client, &body).err().unwrap().status(), 400, "{body}");
    }
}
