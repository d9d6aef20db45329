//! Every route with every kind of caller. The routes are those of the OpenAPI document, which is generated from the
//! table of the router; a route without a row here fails the test.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::contract::{Contract, Operation};
use crate::harness::{Client, Server, gated};

mod fixtures;
mod rows;

use fixtures::Fixtures;

struct Row {
    id: &'static str,
    /// The scopes, repeated here so that a change of permissions changes this table: empty, `a`, `a or b`, `a and b`.
    scopes: &'static str,
    body: Option<Value>,
    query: &'static str,
    of_ended_run: bool,
    /// True if the thread is that of an agent, not that of a run.
    of_agent: bool,
    /// The status for a permitted caller.
    allowed: u16,
    /// The status for the same request from another tenant.
    foreign: u16,
}

fn row(id: &'static str, scopes: &'static str, allowed: u16, foreign: u16) -> Row {
    Row { id, scopes, body: None, query: "", of_ended_run: false, of_agent: false, allowed, foreign }
}

/// A workflow with a node that creates an artifact, and a gate.
fn flow() -> Value {
    let mut flow = gated("gated");
    flow["nodes"][0]["artifactType"] = json!("note");
    flow["nodes"][1]["config"]["actions"] = json!(["accept", "reject", "ask"]);
    flow
}

/// Rows of agents. Without a model, the runs of agents end at once, so requests that need an open run are refused.
fn of_agents() -> Vec<Row> {
    let message = || Some(json!({"message": "Hello"}));
    let decision = || Some(json!({"toolCallId": "c1", "action": "resume"}));
    let threads = |id, scopes, allowed, foreign| Row { of_agent: true, ..row(id, scopes, allowed, foreign) };
    vec![
        row("listAgents", "manifest:read", 200, 200),
        row("getAgent", "manifest:read", 200, 404),
        Row { body: Some(json!({"model": {"use": "main"}})), ..row("putAgent", "manifest:write", 200, 201) },
        // In the other tenant the row before has registered the agent.
        Row { body: message(), ..row("startAgent", "runs:create", 202, 202) },
        // The run has no agent.
        Row { body: message(), ..row("tellRun", "runs:create", 404, 404) },
        Row { body: decision(), ..row("decideCall", "approvals:respond", 404, 404) },
        row("getWaiting", "runs:read", 200, 404),
        Row { body: message(), ..threads("sayInThread", "runs:create", 202, 400) },
        threads("listMessages", "runs:read", 200, 200),
        threads("listThreadEvents", "runs:read", 200, 404),
        threads("listThreadRuns", "runs:read", 200, 200),
        row("getActiveRun", "runs:read", 404, 404),
        threads("getLatestRun", "runs:read", 200, 404),
        row("interruptThread", "runs:cancel", 200, 200),
        row("cancelThread", "runs:cancel", 404, 404),
        Row { body: decision(), ..threads("decideInThread", "approvals:respond", 404, 404) },
    ]
}

/// Rows of AG-UI. The agent has no model, so its runs end at once.
fn of_ag_ui() -> Vec<Row> {
    let input = json!({"threadId": "talk", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "Hello"}]});
    let threads = |id, allowed, foreign| Row { of_agent: true, ..row(id, "runs:read", allowed, foreign) };
    vec![
        Row { body: Some(input), ..row("runAgent", "runs:create", 200, 404) },
        row("getCapabilities", "runs:read", 200, 404),
        threads("getAgUiThread", 200, 404),
        threads("streamAgUiThread", 200, 404),
    ]
}

/// Rows of the chat API, with a graph that the other tenant does not have.
fn of_chat() -> Vec<Row> {
    let start = json!({"graph": "native:only-ours", "stateKey": "talked-about"});
    vec![
        Row { body: Some(start), ..row("chat", "runs:create", 200, 404) },
        row("getChat", "runs:read", 200, 404),
        row("getChatHistory", "runs:read", 200, 404),
        row("cancelChat", "runs:cancel", 200, 404),
    ]
}

fn of_grants() -> Vec<Row> {
    vec![
        // In the other tenant the row of putWorkflow has registered the workflow.
        row("getWorkflowGrants", "manifest:read", 200, 200),
        row("getGrant", "runs:read", 200, 404),
        // The request has no Idempotency-Key.
        Row { body: Some(json!({"digest": "sha256:0"})), ..row("consumeGrant", "runs:create", 400, 400) },
    ]
}

fn rows() -> Vec<Row> {
    let public = |id| row(id, "", 200, 200);
    vec![
        public("discover"),
        public("discoverByOldName"),
        public("openapi"),
        public("isAlive"),
        public("isReady"),
        public("metrics"),
        row("listWorkflows", "manifest:read", 200, 200),
        row("getWorkflow", "manifest:read", 200, 404),
        Row { body: Some(flow()), ..row("putWorkflow", "manifest:write", 200, 201) },
        // A workflow of another tenant does not exist for the caller.
        Row { body: Some(json!({"workflowId": "only-ours"})), ..row("createRun", "runs:create", 201, 400) },
        row("listRuns", "runs:read", 200, 200),
        row("getRun", "runs:read", 200, 404),
        row("cancelRun", "runs:cancel", 200, 404),
        // A run of another tenant is an entry of the result, not an error.
        Row { body: Some(json!({"runIds": ["unknown"]})), ..row("bulkCancel", "runs:cancel", 200, 200) },
        row("pauseRun", "runs:cancel", 202, 404),
        row("resumeRun", "runs:cancel", 409, 404),
        Row {
            body: Some(json!({"mode": "replay"})),
            ..row("forkRun", "runs:create and runs:read", 201, 404)
        },
        row("getArtifact", "artifacts:read", 200, 404),
        row("getDebugBundle", "runs:read", 200, 404),
        Row { of_ended_run: true, ..row("streamEvents", "runs:read", 200, 404) },
        Row { query: "?timeout=1", ..row("pollEvents", "runs:read", 200, 404) },
        row("listPending", "approvals:respond or runs:read", 200, 200),
        row("countPending", "approvals:respond or runs:read", 200, 200),
        row("listInterrupts", "approvals:respond or runs:read", 200, 404),
        row("listAsks", "approvals:respond or runs:read", 200, 404),
        Row {
            body: Some(json!({"answer": "So."})),
            ..row("answerAsk", "approvals:respond or runs:create", 200, 404)
        },
        Row {
            body: Some(json!({"resumeValue": {"action": "accept"}})),
            ..row("resolveInterrupt", "approvals:respond", 200, 404)
        },
        row("mintToken", "approvals:respond", 201, 404),
        public("inspectByToken"),
        Row { body: Some(json!({"resumeValue": {"action": "accept"}})), ..public("resolveByToken") },
        Row {
            body: Some(json!({"decision": "approved"})),
            ..row("resolveApproval", "approvals:respond", 200, 404)
        },
        // No run waits for the event.
        Row {
            body: Some(json!({"eventType": "paid", "eventId": "e1"})),
            ..row("sendEvent", "events:send", 202, 202)
        },
        row("listDispatches", "runs:read", 200, 200),
        row("getDispatch", "runs:read", 200, 404),
        // An activation without effects has ended before a caller can see it.
        row("cancelDispatch", "runs:cancel", 409, 404),
        row("requeueDispatch", "runs:create", 409, 404),
        row("mailboxStats", "runs:read", 200, 200),
        Row { body: Some(json!({"scopes": []})), ..row("createKey", "keys:manage", 201, 201) },
        row("getUsage", "runs:read", 200, 200),
        row("listKeys", "keys:manage", 200, 200),
        row("revokeKey", "keys:manage", 204, 404),
        row("rotateKey", "keys:manage", 201, 404),
        // All tenants share the secrets, so only administrators have access.
        row("listSecrets", "tenants:manage", 200, 403),
        row("rotateSecrets", "tenants:manage", 200, 403),
    ]
}

/// Clients with keys that are not permitted.
struct InvalidCallers {
    unknown: Client,
    expired: Client,
    revoked: Client,
    foreign: Client,
}

impl InvalidCallers {
    fn new(admin: &Client) -> Self {
        let all = scopes();
        let made = |body: Value| admin.post("/v1/keys", &body).body;
        let client = |key: &Value| admin.with_key(key["key"].as_str());
        let expired = client(&made(json!({"scopes": all, "expiresInSeconds": 1})));
        let revoked = made(json!({"scopes": all}));
        admin.send("DELETE", &format!("/v1/keys/{}", revoked["keyId"].as_str().unwrap()), None);
        let foreign = client(&made(json!({"scopes": all, "tenant": "elsewhere"})));
        // The poll takes one second without an event; then the first key has expired.
        let run = admin.start_run("gated");
        admin.get(&format!("/v1/runs/{run}/events/poll?lastSequence=999&timeout=1"));
        Self { unknown: admin.with_key(Some("hp_0000")), expired, revoked: client(&revoked), foreign }
    }
}

fn scopes() -> Vec<&'static str> {
    vec![
        "manifest:read",
        "manifest:write",
        "runs:create",
        "runs:read",
        "runs:cancel",
        "artifacts:read",
        "approvals:respond",
        "approvals:act-as",
        "events:send",
        "runs:prioritize",
        "webhooks:manage",
        "triggers:manage",
        "keys:manage",
    ]
}

#[test]
fn every_route_accepts_permitted_callers_and_rejects_all_others() {
    let server = Server::start();
    let admin = &server.client;
    admin.put("/v1/workflows/gated", &flow());
    admin.put("/v1/workflows/only-ours", &gated("only-ours"));
    admin.put("/v1/agents/mailer", &json!({"model": {"use": "main"}}));
    admin.post("/v1/agents/mailer/runs", &json!({"threadId": "talk", "message": "Hello"}));
    admin.post("/api/v1/ai/chat", &json!({"graph": "native:only-ours", "stateKey": "talked-about"}));
    let invalid_callers = InvalidCallers::new(admin);
    let contract = Contract::of(admin);
    let operations = contract.operations();
    let rows: Vec<Row> = rows()
        .into_iter()
        .chain(rows::of_webhooks())
        .chain(rows::of_triggers())
        .chain(rows::of_inbox())
        .chain(of_agents())
        .chain(of_ag_ui())
        .chain(of_chat())
        .chain(of_grants())
        .collect();
    let (known, there): (BTreeSet<&str>, BTreeSet<&str>) =
        (rows.iter().map(|row| row.id).collect(), operations.iter().map(|one| one.id.as_str()).collect());
    assert_eq!(known, there, "every route needs a row here, and every row a route");
    for operation in &operations {
        let row = rows.iter().find(|row| row.id == operation.id).unwrap();
        let alternatives: Vec<String> = operation.scopes.iter().map(|one| one.join(" and ")).collect();
        assert_eq!(alternatives.join(" or "), row.scopes, "the scopes of {}", operation.id);
        let fixtures = Fixtures::new(admin);
        let attempt = Attempt { contract: &contract, operation, row, fixtures: &fixtures };
        if operation.scopes.is_empty() {
            attempt.expect(&admin.with_key(None), row.allowed, None);
            continue;
        }
        attempt.expect(&admin.with_key(None), 401, Some("unauthenticated"));
        attempt.expect(&invalid_callers.unknown, 401, Some("unauthenticated"));
        attempt.expect(&invalid_callers.expired, 401, Some("key_expired"));
        attempt.expect(&invalid_callers.revoked, 401, Some("key_revoked"));
        attempt.refuse_without_scopes(admin);
        let shown = attempt.expect(&invalid_callers.foreign, row.foreign, None);
        for ours in [&fixtures.waiting, &fixtures.ended, &fixtures.dispatch, &fixtures.key, &fixtures.webhook]
        {
            assert!(!shown.contains(ours.as_str()), "{} shows data of another tenant: {shown}", operation.id);
        }
        assert_eq!(admin.status(&fixtures.waiting), "waiting-approval", "{} changed the run", operation.id);
        for scopes in &operation.scopes {
            let fixtures = Fixtures::new(admin);
            let made = admin.post("/v1/keys", &json!({"scopes": scopes})).body;
            let allowed = Attempt { fixtures: &fixtures, ..attempt };
            allowed.expect(&admin.with_key(made["key"].as_str()), row.allowed, None);
        }
    }
}

#[derive(Clone, Copy)]
struct Attempt<'a> {
    contract: &'a Contract,
    operation: &'a Operation,
    row: &'a Row,
    fixtures: &'a Fixtures,
}

impl Attempt<'_> {
    /// Sends the request of the row and checks the response against the document. Returns the body.
    fn expect(&self, client: &Client, status: u16, code: Option<&str>) -> String {
        let path = self.fixtures.path(self.row, &self.operation.path);
        let body = self.row.body.as_ref().map(Value::to_string);
        // For a refused caller the body is invalid: it must not be read before the permission is checked.
        let body = if code.is_some() { body.map(|_| "{".to_owned()) } else { body };
        let answer = client.exchange(&self.operation.method, &path, body.as_deref().map(str::as_bytes), &[]);
        let shown = format!("{} {}", self.operation.id, answer.body());
        assert_eq!(answer.status().as_u16(), status, "{shown}");
        if let Some(code) = code {
            let envelope: Value = serde_json::from_str(answer.body()).unwrap();
            assert_eq!(envelope["error"], code, "{shown}");
            assert!(!answer.body().contains("hp_"), "a key is never repeated: {shown}");
        }
        self.contract.check(self.operation, &answer);
        answer.into_body()
    }

    /// Checks that a key without the needed scopes is refused; if several are needed together, a key without one of
    /// them.
    fn refuse_without_scopes(&self, admin: &Client) {
        let alternatives = &self.operation.scopes;
        let lacking: Vec<Vec<&String>> = match &alternatives[..] {
            [together] => together.iter().map(|one| vec![one]).collect(),
            several => vec![several.iter().flatten().collect()],
        };
        for lacking in lacking {
            let held: Vec<&str> =
                scopes().into_iter().filter(|scope| !lacking.iter().any(|one| one == scope)).collect();
            let made = admin.post("/v1/keys", &json!({"scopes": held})).body;
            let shown = self.expect(&admin.with_key(made["key"].as_str()), 403, Some("forbidden"));
            let envelope: Value = serde_json::from_str(&shown).unwrap();
            assert_eq!(envelope["details"]["scopeRequired"], *lacking[0], "{shown}");
        }
    }
}

#[test]
fn there_is_no_pack_registry() {
    let server = Server::start();
    for (method, path) in [
        ("GET", "/v1/packs"),
        ("GET", "/v1/packs/-/search?q=x"),
        ("GET", "/v1/packs/vendor.x/1.0.0"),
        ("PUT", "/v1/packs/vendor.x"),
    ] {
        for client in [&server.client, &server.client.with_key(None)] {
            let answer = client.exchange(method, path, None, &[]);
            assert_eq!(answer.status(), 404, "{path}");
            assert!(answer.headers()["content-type"].to_str().unwrap().starts_with("text/plain"), "{path}");
            assert!(!answer.body().contains('{'), "{path}");
        }
    }
    server.client.get("/v1/packsize").assert_envelope(404, "not_found");
}

#[test]
fn an_unsupported_method_gets_405_with_the_allowed_methods() {
    let server = Server::start();
    let answer = server.client.exchange("DELETE", "/v1/runs", None, &[]);
    assert_eq!(answer.status(), 405);
    let allowed = answer.headers()["allow"].to_str().unwrap();
    assert!(allowed.contains("GET") && allowed.contains("POST"), "{allowed}");
}
