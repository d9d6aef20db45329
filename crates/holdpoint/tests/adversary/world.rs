//! A server with its callers: approvers, a requester, and attackers with several sets of scopes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use serde_json::{Value, json};

use crate::contract::Operation;
use crate::flows::{Shape, clerk, paying_child};
use crate::harness::{Client, Response, Server};
use crate::ledger::Ledger;
use crate::routes;
use crate::test_database::TestDatabase;

/// The scopes of the attackers. No set contains `approvals:respond`.
const ATTACKERS: [&[&str]; 5] = [
    &["runs:create"],
    &["runs:create", "runs:read"],
    &["runs:create", "runs:read", "runs:cancel"],
    &["runs:create", "runs:read", "runs:cancel", "manifest:write", "manifest:read"],
    &[
        "runs:create",
        "runs:read",
        "runs:cancel",
        "manifest:write",
        "manifest:read",
        "webhooks:manage",
        "events:send",
        "artifacts:read",
    ],
];

const APPROVER: &[&str] = &["approvals:respond", "runs:read", "runs:create", "runs:cancel"];
const FLAGS: [&str; 2] = ["--outgoing-allow-loopback", "--allow-private-webhooks"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Approver,
    Requester,
    Attacker,
}

/// A principal with one credential.
pub(crate) struct Caller {
    pub principal: String,
    pub side: Side,
    /// The credential as `via` shows it: `key:ID` or `session:ID`.
    pub credential: String,
    client: Client,
    cookie: Option<String>,
}

impl Caller {
    /// Returns the name of the caller in the log of a sequence.
    pub(crate) fn label(&self) -> String {
        if self.cookie.is_some() { format!("{} (session)", self.principal) } else { self.principal.clone() }
    }
}

/// A request for an operation of the OpenAPI document.
#[derive(Clone, Debug, Default)]
pub(crate) struct Call {
    pub operation: &'static str,
    pub places: Vec<(&'static str, String)>,
    pub query: String,
    pub body: Option<Value>,
    pub key: Option<String>,
}

impl Call {
    pub(crate) fn of(operation: &'static str) -> Self {
        Self { operation, ..Self::default() }
    }

    pub(crate) fn at(mut self, place: &'static str, value: impl Into<String>) -> Self {
        self.places.push((place, value.into()));
        self
    }

    pub(crate) fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }
}

pub(crate) struct World {
    pub ledger: Ledger,
    /// A caller with all scopes. It prepares and reads, and is not part of the sequences.
    pub admin: Caller,
    /// The approvers ann, bob and carol with keys, then ann and bob with sessions.
    pub approvers: Vec<Caller>,
    pub requester: Caller,
    /// One attacker for each set of scopes, then one with a session, then one without a credential.
    pub attackers: Vec<Caller>,
    operations: BTreeMap<String, Operation>,
    /// The operations that an attacker has called.
    called: Mutex<BTreeSet<&'static str>>,
    _server: Server,
}

impl World {
    pub(crate) fn open(database: &TestDatabase) -> Self {
        let server = database.start(&FLAGS);
        let operations = routes::classified_operations(&server.client);
        let operations = operations.into_iter().map(|one| (one.id.clone(), one)).collect();
        let ledger = Ledger::start();
        let root = &server.client;
        let mut approvers: Vec<Caller> = ["ann", "bob", "carol"]
            .iter()
            .map(|name| keyed(root, name, Side::Approver, APPROVER).0)
            .collect();
        let sessions: Vec<Caller> = ["ann", "bob"]
            .iter()
            .map(|name| session(root, keyed(root, name, Side::Approver, APPROVER)))
            .collect();
        approvers.extend(sessions);
        let named =
            |(at, scopes): (usize, &&[&str])| keyed(root, &format!("mallory-{at}"), Side::Attacker, scopes);
        let mut attackers: Vec<Caller> = ATTACKERS.iter().enumerate().map(|one| named(one).0).collect();
        attackers.push(session(root, named((4, &ATTACKERS[4]))));
        attackers.push(caller("anonymous", Side::Attacker, root.with_key(None), "none"));
        let requester = keyed(root, "ci", Side::Requester, &["runs:create", "runs:read", "runs:cancel"]).0;
        let admin = caller("bootstrap", Side::Requester, root.clone(), "key:bootstrap");
        let called = Mutex::default();
        let world =
            Self { ledger, admin, approvers, requester, attackers, operations, called, _server: server };
        world.define();
        world
    }

    /// Registers the flows that sequences share.
    fn define(&self) {
        let url = &self.ledger.url;
        let put = |operation, place, id: &str, body: Value| {
            let put = self.call(&self.admin, &Call::of(operation).at(place, id).body(body));
            assert_eq!(put.status, 201, "{put:?}");
        };
        put("putWorkflow", "workflowId", "child", paying_child(url));
        put("putAgent", "agentId", "clerk", clerk("clerk", url, "ask"));
        for shape in Shape::ALL {
            if let Some(flow) = shape.definition(shape.name(), url) {
                put("putWorkflow", "workflowId", shape.name(), flow);
            }
        }
    }

    pub(crate) fn call(&self, who: &Caller, call: &Call) -> Response {
        let operation = &self.operations[call.operation];
        if who.side == Side::Attacker {
            self.called.lock().unwrap().insert(call.operation);
        }
        let mut path = operation.path.clone();
        for (place, value) in &call.places {
            path = path.replace(&format!("{{{place}}}"), value);
        }
        assert!(!path.contains('{'), "{path} of {} has an unset path parameter", call.operation);
        let mut headers: Vec<(&str, &str)> = Vec::new();
        if let Some(cookie) = &who.cookie {
            headers.extend([("cookie", cookie.as_str()), ("x-holdpoint-page", "1")]);
        }
        if let Some(key) = &call.key {
            headers.push(("idempotency-key", key));
        }
        let body = call.body.as_ref().map(Value::to_string);
        let answer = who.client.exchange(
            &operation.method,
            &(path + &call.query),
            body.as_deref().map(str::as_bytes),
            &headers,
        );
        let status = answer.status().as_u16();
        let text = answer.into_body();
        Response { status, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) }
    }

    /// Returns the operations that attackers should have called and have not.
    pub(crate) fn never_called(&self) -> Vec<&'static str> {
        let called = self.called.lock().unwrap();
        let skipped = |class| matches!(class, routes::Class::Skipped(_));
        let expected = routes::OPERATIONS.iter().filter(|(_, class)| !skipped(*class)).map(|(id, _)| *id);
        expected.filter(|id| !called.contains(id)).collect()
    }

    /// Returns the caller without a credential.
    pub(crate) fn anonymous(&self) -> &Caller {
        &self.attackers[self.attackers.len() - 1]
    }

    /// Returns the key id of an approver.
    pub(crate) fn key_of_approver(&self) -> &str {
        self.approvers[0].credential.strip_prefix("key:").unwrap()
    }

    /// Returns the session id of an approver.
    pub(crate) fn session_of_approver(&self) -> &str {
        self.approvers[3].credential.strip_prefix("session:").unwrap()
    }
}

fn caller(principal: &str, side: Side, client: Client, credential: &str) -> Caller {
    Caller { principal: principal.to_owned(), side, credential: credential.to_owned(), client, cookie: None }
}

/// Creates a key. Returns a caller with it, and the key.
fn keyed(root: &Client, principal: &str, side: Side, scopes: &[&str]) -> (Caller, String) {
    let roles = if side == Side::Approver { json!(["release"]) } else { json!([]) };
    let made = root.post("/v1/keys", &json!({"principal": principal, "scopes": scopes, "roles": roles}));
    assert_eq!(made.status, 201, "{made:?}");
    let key = made.body["key"].as_str().unwrap().to_owned();
    let credential = format!("key:{}", made.body["keyId"].as_str().unwrap());
    (caller(principal, side, root.with_key(Some(&key)), &credential), key)
}

/// Creates a session for the principal of a key. Returns a caller with its cookie.
fn session(root: &Client, (of, key): (Caller, String)) -> Caller {
    let anonymous = root.with_key(None);
    let body = json!({ "key": key }).to_string();
    let made = anonymous.exchange("POST", "/v1/session", Some(body.as_bytes()), &[]);
    assert_eq!(made.status(), 201, "{}", made.body());
    let cookie = made.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let shown: Value = serde_json::from_str(made.body()).unwrap();
    let credential = format!("session:{}", shown["sessionId"].as_str().unwrap());
    Caller { client: anonymous, cookie: Some(cookie), credential, ..of }
}
