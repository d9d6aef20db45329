//! Every route against every kind of caller. The routes are those of the OpenAPI document, which is made from the table
//! that makes the router; one that has no row here fails the test.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::contract::{Contract, Operation};
use crate::harness::{Client, KEY, Server, accept, gated};
use crate::once::subscribed;

mod rows;

/// What the paths of one row can name: a waiting run, one that has ended, its activation, a key, a link to
/// what the first one waits for.
struct Things {
    waiting: String,
    ended: String,
    dispatch: String,
    key: String,
    token: String,
    webhook: String,
    delivery: String,
    active: String,
    session: String,
    hold: String,
    grant: String,
}

impl Things {
    fn new(admin: &Client) -> Self {
        let (webhook, delivery) = subscribed(admin, true);
        let (active, _) = subscribed(admin, false);
        let (waiting, ended) = (admin.start_run("gated"), admin.start_run("gated"));
        admin.send("POST", &format!("/v1/runs/{ended}/cancel"), None);
        admin.answer(&waiting, "gate", &json!({"action": "ask", "question": "Why?"}));
        let queue = admin.get(&format!("/v1/threads/{waiting}/dispatches")).body;
        let dispatch = queue["dispatches"][0]["dispatchId"].as_str().unwrap().to_owned();
        let key = admin.post("/v1/keys", &json!({"scopes": []})).body["keyId"].as_str().unwrap().to_owned();
        let minted = admin.send("POST", &format!("/v1/runs/{waiting}/interrupts/gate/tokens"), None);
        let token = minted.body["token"].as_str().unwrap().to_owned();
        let session = admin.post("/v1/session", &json!({"key": KEY})).body;
        let session = session["sessionId"].as_str().unwrap().to_owned();
        let hold = admin.post("/v1/holds", &json!({"title": "Go on?"})).body;
        let hold = hold["holdId"].as_str().unwrap().to_owned();
        let granted = admin.start_run("gated");
        let grant = admin.answer(&granted, "gate", &accept()).body["grantId"].as_str().unwrap().to_owned();
        Self { waiting, ended, dispatch, key, token, webhook, delivery, active, session, hold, grant }
    }

    /// Puts names into a path of the document.
    fn path(&self, row: &Row, template: &str) -> String {
        let run = if row.of_ended_run { &self.ended } else { &self.waiting };
        let webhook = if row.id == "resumeWebhook" { &self.active } else { &self.webhook };
        let path = template
            .replace("{workflowId}", "gated")
            .replace("{runId}", run)
            .replace("{nodeId}", "gate")
            .replace("{askId}", "1")
            .replace("{artifactId}", &format!("{run}:before"))
            .replace("{threadId}", if row.of_talk { "talk" } else { run })
            .replace("{agentId}", "mailer")
            .replace("{dispatchId}", &self.dispatch)
            .replace("{keyId}", &self.key)
            .replace("{webhookId}", webhook)
            .replace("{deliveryId}", &self.delivery)
            .replace("{stateKey}", "talked-about")
            .replace("{sessionId}", &self.session)
            .replace("{holdId}", &self.hold)
            .replace("{grantId}", &self.grant)
            .replace("{token}", &self.token);
        assert!(!path.contains('{'), "{template} names something that this test does not have");
        path + row.query
    }
}

struct Row {
    id: &'static str,
    /// Said once more, so that a change of who may call is a change of this line: none, `a`, `a or b`, `a and b`.
    scopes: &'static str,
    body: Option<Value>,
    query: &'static str,
    of_ended_run: bool,
    /// The thread of an agent, and not that of a run.
    of_talk: bool,
    /// The status for who may call.
    right: u16,
    /// The status for the same request of another tenant.
    elsewhere: u16,
}

fn row(id: &'static str, scopes: &'static str, right: u16, elsewhere: u16) -> Row {
    Row { id, scopes, body: None, query: "", of_ended_run: false, of_talk: false, right, elsewhere }
}

/// Stops at a gate, after a node that makes something.
fn flow() -> Value {
    let mut flow = gated("gated");
    flow["nodes"][0]["artifactType"] = json!("note");
    flow["nodes"][1]["config"]["actions"] = json!(["accept", "reject", "ask"]);
    flow
}

/// Without a model, runs of agents end as soon as they are worked on: what needs an open one finds none.
fn of_agents() -> Vec<Row> {
    let message = || Some(json!({"message": "Hello"}));
    let decision = || Some(json!({"toolCallId": "c1", "action": "resume"}));
    let talk = |id, scopes, right, elsewhere| Row { of_talk: true, ..row(id, scopes, right, elsewhere) };
    vec![
        row("listAgents", "manifest:read", 200, 200),
        row("getAgent", "manifest:read", 200, 404),
        Row { body: Some(json!({"model": {"use": "main"}})), ..row("putAgent", "manifest:write", 200, 201) },
        // Elsewhere it was declared by the row before.
        Row { body: message(), ..row("startAgent", "runs:create", 202, 202) },
        // The run has no agent.
        Row { body: message(), ..row("tellRun", "runs:create", 404, 404) },
        Row { body: decision(), ..row("decideCall", "approvals:respond", 404, 404) },
        row("getWaiting", "runs:read", 200, 404),
        Row { body: message(), ..talk("sayInThread", "runs:create", 202, 400) },
        talk("listMessages", "runs:read", 200, 200),
        talk("listThreadEvents", "runs:read", 200, 404),
        talk("listThreadRuns", "runs:read", 200, 200),
        row("getActiveRun", "runs:read", 404, 404),
        talk("getLatestRun", "runs:read", 200, 404),
        row("interruptThread", "runs:cancel", 200, 200),
        row("cancelThread", "runs:cancel", 404, 404),
        Row { body: decision(), ..talk("decideInThread", "approvals:respond", 404, 404) },
    ]
}

/// The one who is spoken to has no model, so that runs end as soon as they are worked on.
fn of_ag_ui() -> Vec<Row> {
    let input = json!({"threadId": "talk", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "Hello"}]});
    let talk = |id, right, elsewhere| Row { of_talk: true, ..row(id, "runs:read", right, elsewhere) };
    vec![
        Row { body: Some(input), ..row("runAgent", "runs:create", 200, 404) },
        row("getCapabilities", "runs:read", 200, 404),
        talk("getAgUiThread", 200, 404),
        talk("streamAgUiThread", 200, 404),
    ]
}

/// A graph of our own, which another tenant does not have.
fn of_chat() -> Vec<Row> {
    let start = json!({"graph": "native:only-ours", "stateKey": "talked-about"});
    let chat = |id, scope, right, elsewhere| row(id, scope, right, elsewhere);
    vec![
        Row { body: Some(start), ..chat("chat", "runs:create", 200, 404) },
        chat("getChat", "runs:read", 200, 404),
        chat("cancelChat", "runs:cancel", 200, 404),
    ]
}

fn of_grants() -> Vec<Row> {
    vec![
        // Elsewhere it was registered by the row of putWorkflow.
        row("getWorkflowGrants", "manifest:read", 200, 200),
        row("getGrant", "runs:read", 200, 404),
        // Without an Idempotency-Key.
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
        // A workflow of another tenant is as good as none.
        Row { body: Some(json!({"workflowId": "only-ours"})), ..row("createRun", "runs:create", 201, 400) },
        row("listRuns", "runs:read", 200, 200),
        row("getRun", "runs:read", 200, 404),
        row("cancelRun", "runs:cancel", 200, 404),
        // A run of another tenant is one of the results, not an answer of its own.
        Row { body: Some(json!({"runIds": ["nobody"]})), ..row("bulkCancel", "runs:cancel", 200, 200) },
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
        // Nobody waits for it, anywhere.
        Row {
            body: Some(json!({"eventType": "paid", "eventId": "e1"})),
            ..row("sendEvent", "events:send", 202, 202)
        },
        row("listDispatches", "runs:read", 200, 200),
        row("getDispatch", "runs:read", 200, 404),
        // An activation without effects has ended when anybody can see it.
        row("cancelDispatch", "runs:cancel", 409, 404),
        row("requeueDispatch", "runs:create", 409, 404),
        row("mailboxStats", "runs:read", 200, 200),
        Row { body: Some(json!({"scopes": []})), ..row("createKey", "keys:manage", 201, 201) },
        row("getUsage", "runs:read", 200, 200),
        row("listKeys", "keys:manage", 200, 200),
        row("revokeKey", "keys:manage", 204, 404),
        row("rotateKey", "keys:manage", 201, 404),
        // All tenants share them, so that only administrators may.
        row("listSecrets", "tenants:manage", 200, 403),
        row("rotateSecrets", "tenants:manage", 200, 403),
    ]
}

/// Callers of every kind but the right ones.
struct Strangers {
    unknown: Client,
    expired: Client,
    revoked: Client,
    elsewhere: Client,
}

impl Strangers {
    fn new(admin: &Client) -> Self {
        let all = scopes();
        let made = |body: Value| admin.post("/v1/keys", &body).body;
        let client = |key: &Value| admin.with_key(key["key"].as_str());
        let expired = client(&made(json!({"scopes": all, "expiresInSeconds": 1})));
        let revoked = made(json!({"scopes": all}));
        admin.send("DELETE", &format!("/v1/keys/{}", revoked["keyId"].as_str().unwrap()), None);
        let elsewhere = client(&made(json!({"scopes": all, "tenant": "elsewhere"})));
        // Nothing comes within this second, so that the first key has ended when the answer is here.
        let run = admin.start_run("gated");
        admin.get(&format!("/v1/runs/{run}/events/poll?lastSequence=999&timeout=1"));
        Self { unknown: admin.with_key(Some("hp_0000")), expired, revoked: client(&revoked), elsewhere }
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
        "webhooks:manage",
        "keys:manage",
    ]
}

#[test]
fn every_route_is_open_to_those_it_is_for_and_to_nobody_else() {
    let server = Server::start();
    let admin = &server.client;
    admin.put("/v1/workflows/gated", &flow());
    admin.put("/v1/workflows/only-ours", &gated("only-ours"));
    admin.put("/v1/agents/mailer", &json!({"model": {"use": "main"}}));
    admin.post("/v1/agents/mailer/runs", &json!({"threadId": "talk", "message": "Hello"}));
    admin.post("/api/v1/ai/chat", &json!({"graph": "native:only-ours", "stateKey": "talked-about"}));
    let strangers = Strangers::new(admin);
    let contract = Contract::of(admin);
    let operations = contract.operations();
    let rows: Vec<Row> = rows()
        .into_iter()
        .chain(rows::of_webhooks())
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
        assert_eq!(alternatives.join(" or "), row.scopes, "who may call {}", operation.id);
        let things = Things::new(admin);
        let attempt = Attempt { contract: &contract, operation, row, things: &things };
        if operation.scopes.is_empty() {
            attempt.expect(&admin.with_key(None), row.right, None);
            continue;
        }
        attempt.expect(&admin.with_key(None), 401, Some("unauthenticated"));
        attempt.expect(&strangers.unknown, 401, Some("unauthenticated"));
        attempt.expect(&strangers.expired, 401, Some("key_expired"));
        attempt.expect(&strangers.revoked, 401, Some("key_revoked"));
        attempt.refuse_without_scopes(admin);
        let shown = attempt.expect(&strangers.elsewhere, row.elsewhere, None);
        for ours in [&things.waiting, &things.ended, &things.dispatch, &things.key, &things.webhook] {
            assert!(!shown.contains(ours.as_str()), "{} shows what is not theirs: {shown}", operation.id);
        }
        assert_eq!(admin.status(&things.waiting), "waiting-approval", "{} changed something", operation.id);
        for scopes in &operation.scopes {
            let things = Things::new(admin);
            let made = admin.post("/v1/keys", &json!({"scopes": scopes})).body;
            let right = Attempt { things: &things, ..attempt };
            right.expect(&admin.with_key(made["key"].as_str()), row.right, None);
        }
    }
}

#[derive(Clone, Copy)]
struct Attempt<'a> {
    contract: &'a Contract,
    operation: &'a Operation,
    row: &'a Row,
    things: &'a Things,
}

impl Attempt<'_> {
    /// Sends the request of the row and holds the answer against the document. Returns what was shown.
    fn expect(&self, client: &Client, status: u16, code: Option<&str>) -> String {
        let path = self.things.path(self.row, &self.operation.path);
        let body = self.row.body.as_ref().map(Value::to_string);
        // Broken on purpose where it must not be read: who may not call does not learn whether it was good.
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

    /// Every scope but the needed ones is not enough; where several are needed together, neither is all but one.
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
fn there_is_no_pack_registry_and_nothing_looks_like_one() {
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
fn a_method_that_a_path_does_not_take_is_told_which_ones_it_does() {
    let server = Server::start();
    let answer = server.client.exchange("DELETE", "/v1/runs", None, &[]);
    assert_eq!(answer.status(), 405);
    let allowed = answer.headers()["allow"].to_str().unwrap();
    assert!(allowed.contains("GET") && allowed.contains("POST"), "{allowed}");
}
