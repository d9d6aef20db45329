//! `Idempotency-Key` on every route that changes state: a repeated request with the same key is executed once and gets
//! the same response, also after a restart of the server.

use serde_json::{Value, json};
use ureq::http::Response;

use crate::contract::{Contract, Operation};
use crate::examples::{create_trigger, create_webhook, trigger_body};
use crate::harness::{Client, Server, client_with_key, gated};
use crate::mailbox::acknowledged_dispatch;

/// A request that changes state, and another body for the same idempotency key.
struct Example {
    path: String,
    body: Option<Value>,
    other: Option<Value>,
    status: u16,
}

/// Returns the example of an operation. Panics if there is none.
fn example(operation: &Operation, client: &Client) -> Example {
    let (webhook, delivery) = create_webhook(client, operation.id.starts_with("replay"));
    let run = client.start_run(if operation.id == "answerAsk" {
        register_asking_workflow(client)
    } else {
        "gated"
    });
    client.answer(&run, "gate", &json!({"action": "ask", "question": "Why?"}));
    let dispatch = acknowledged_dispatch(client);
    let grant = approved_grant(client);
    let mut renamed = gated("fresh");
    renamed["name"] = json!("another");
    let (body, other, status) = match operation.id.as_str() {
        "putWorkflow" => (gated("fresh"), renamed, 201),
        "createRun" => (json!({"workflowId": "gated"}), json!({"workflowId": "gated", "tags": ["b"]}), 201),
        "cancelRun" => (json!({"reason": "a"}), json!({"reason": "b"}), 200),
        "bulkCancel" => (json!({"runIds": [run, "unknown"]}), json!({"runIds": ["unknown"]}), 200),
        "pauseRun" => (json!({"reason": "a"}), json!({"reason": "b"}), 202),
        "resumeRun" => {
            client.send("POST", &format!("/v1/runs/{run}:pause"), None);
            (json!({}), json!({"more": 1}), 202)
        }
        "forkRun" => (json!({"mode": "replay"}), json!({"mode": "branch", "fromSeq": 0}), 201),
        "resolveInterrupt" => {
            (json!({"resumeValue": {"action": "accept"}}), json!({"resumeValue": {"action": "reject"}}), 200)
        }
        "resolveApproval" => (json!({"decision": "approved"}), json!({"decision": "rejected"}), 200),
        "answerAsk" => (json!({"answer": "a"}), json!({"answer": "b"}), 200),
        "sendEvent" => {
            let event = |id: &str| json!({"eventType": "paid", "eventId": id});
            (event("e1"), event("e2"), 202)
        }
        // An activation without effects has ended before a caller can see it. The refusal is final and stored.
        "cancelDispatch" | "requeueDispatch" => (json!({}), Value::Null, 409),
        "createKey" => (json!({"scopes": ["runs:read"]}), json!({"scopes": []}), 201),
        "mintToken" => (json!({"intent": "inspect"}), json!({}), 201),
        "resolveByToken" => {
            (json!({"resumeValue": {"action": "accept"}}), json!({"resumeValue": {"action": "reject"}}), 200)
        }
        "createWebhook" => {
            let hook =
                |path: &str| json!({"url": format!("https://8.8.8.8/{path}"), "events": ["cap.breached"]});
            (hook("a"), hook("b"), 201)
        }
        "deleteWebhook" | "revokeKey" => (Value::Null, Value::Null, 204),
        "resumeWebhook" => {
            client.send("POST", &format!("/v1/webhooks/{webhook}:pause"), None);
            (json!({}), Value::Null, 200)
        }
        "replayDelivery" => (json!({}), Value::Null, 202),
        "replayDeliveries" => {
            let window = |to: &str| json!({"from": "2020-01-01T00:00:00Z", "to": to});
            (window("2020-01-02T00:00:00Z"), window("2020-01-03T00:00:00Z"), 202)
        }
        "consumeGrant" => (json!({"digest": digest(client, &grant)}), json!({"digest": "another"}), 200),
        id => of_holds_and_agents(id, client, &run),
    };
    let path = fill_path(operation, client, &run);
    let path = path.replace("{dispatchId}", &dispatch).replace("{grantId}", &grant);
    let delivery = if delivery.is_empty() { "none" } else { &delivery };
    let path = path.replace("{webhookId}", &webhook).replace("{deliveryId}", delivery);
    let given = |body: Value| Some(body).filter(|body| !body.is_null());
    Example { path, body: given(body), other: given(other), status }
}

/// Returns the path of an operation on a run, with new objects for the other parameters.
fn fill_path(operation: &Operation, client: &Client, run: &str) -> String {
    let key = client.post("/v1/keys", &json!({"scopes": []})).body["keyId"].as_str().unwrap().to_owned();
    let path = operation.path.replace("{workflowId}", "fresh").replace("{runId}", run);
    let path = path.replace("{triggerId}", &create_trigger(client));
    // The run is still open in its own thread, where no other run can start.
    let thread = if operation.id == "sayInThread" { format!("of-{run}") } else { run.to_owned() };
    let path = path.replace("{agentId}", "fresh-agent").replace("{threadId}", &thread);
    let path = path.replace("{nodeId}", "gate").replace("{keyId}", &key).replace("{askId}", "1");
    let minted = client.send("POST", &format!("/v1/runs/{run}/interrupts/gate/tokens"), None).body;
    let path = path.replace("{token}", minted["token"].as_str().unwrap_or("cancelled"));
    let hold = client.post("/v1/holds", &json!({"title": "Go on?"})).body["holdId"].clone();
    path.replace("{holdId}", hold.as_str().unwrap())
}

/// Returns the grant of a run that was just approved.
fn approved_grant(client: &Client) -> String {
    let run = client.start_run("gated");
    let accepted = client.answer(&run, "gate", &json!({"action": "accept"})).body;
    accepted["grantId"].as_str().unwrap().to_owned()
}

fn digest(client: &Client, grant: &str) -> Value {
    client.get(&format!("/v1/grants/{grant}")).body["digest"].clone()
}

/// Routes of holds and agents, and routes with one row. The run has no agent, so messages to it are refused. The
/// refusal is final and stored.
fn of_holds_and_agents(id: &str, client: &Client, run: &str) -> (Value, Value, u16) {
    let agent = |name: &str| json!({"name": name, "model": {"use": "main"}});
    let message = |text: &str| json!({"message": text});
    let decision = |action: &str| json!({"toolCallId": "c1", "action": action});
    match id {
        "createTrigger" => {
            let source = json!({"source": "event", "workflowId": "gated", "event": {"eventType": "e"}});
            (trigger_body(), source, 201)
        }
        "pauseTrigger" | "resumeTrigger" => (json!({}), Value::Null, 200),
        "deleteTrigger" => (Value::Null, Value::Null, 204),
        // The trigger has no delivery. The refusal is stored.
        "requeueTriggerDelivery" => (json!({}), Value::Null, 404),
        "rotateKey" => (json!({"overlapSeconds": 60}), json!({"overlapSeconds": 90}), 201),
        "rotateWebhook" => (json!({"overlapSeconds": 60}), json!({"overlapSeconds": 90}), 200),
        "rotateSecrets" => (json!({}), json!({"revokeOld": true}), 200),
        "pauseWebhook" => (json!({}), Value::Null, 200),
        "createHold" => (json!({"title": "a"}), json!({"title": "b"}), 201),
        "cancelHold" => (Value::Null, Value::Null, 200),
        "putAgent" => (agent("a"), agent("b"), 201),
        "startAgent" => {
            client.put("/v1/agents/fresh-agent", &agent("a"));
            (message("a"), message("b"), 202)
        }
        "sayInThread" => {
            client.put("/v1/agents/fresh-agent", &agent("a"));
            let message = |text: &str| json!({"message": text, "agentId": "fresh-agent"});
            (message("a"), message("b"), 202)
        }
        "tellRun" => (message("a"), message("b"), 404),
        "decideCall" | "decideInThread" => (decision("resume"), decision("cancel"), 404),
        "interruptThread" => (json!({}), json!({"keepWaiting": true}), 200),
        "cancelThread" => (json!({"reason": "a"}), json!({"reason": run}), 404),
        other => panic!("{other} changes state and has no example here"),
    }
}

/// Registers a workflow whose approvers may ask side questions.
fn register_asking_workflow(client: &Client) -> &'static str {
    let mut flow = gated("asking");
    flow["nodes"][1]["config"]["actions"] = json!(["accept", "ask"]);
    client.put("/v1/workflows/asking", &flow);
    "asking"
}

pub(crate) fn send(
    client: &Client,
    method: &str,
    path: &str,
    body: Option<&Value>,
    key: &str,
) -> Response<String> {
    let body = body.map(Value::to_string);
    client.exchange(method, path, body.as_deref().map(str::as_bytes), &[("idempotency-key", key)])
}

pub(crate) fn is_replay(answer: &Response<String>) -> bool {
    let names = ["openwop-idempotent-replay", "wop-idempotent-replay"];
    let flags = names.map(|name| answer.headers().get(name).is_some_and(|value| value == "true"));
    assert_eq!(flags[0], flags[1], "both headers are equal");
    flags[0]
}

/// Returns the state that the routes can change.
pub(crate) fn state(client: &Client) -> Value {
    let runs = client.get("/v1/runs?limit=200").body;
    let of = |run: &Value| client.events(run["runId"].as_str().unwrap()).len();
    let events: Vec<usize> = runs["runs"].as_array().unwrap().iter().map(of).collect();
    json!({
        "runs": runs, "events": events, "workflows": client.get("/v1/workflows").body,
        "keys": client.get("/v1/keys").body, "secrets": client.get("/v1/secrets").body, "mailbox": client.get("/v1/mailbox/stats").body,
        "webhooks": client.get("/v1/webhooks?limit=200").body,
        "triggers": client.get("/v1/trigger-subscriptions?limit=200").body,
    })
}

#[test]
fn a_repeated_request_with_the_same_idempotency_key_is_executed_once_on_every_route() {
    let server = Server::start();
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let contract = Contract::of(&server.client);
    let mut done = Vec::new();
    // Streams have no receipts: a repeated request gets the current state of the thread. The chat routes have their own
    // ids for repeated requests.
    let without_receipts = ["runAgent", "chat", "cancelChat"];
    // Cookies and sign-in links are not stored for repeated requests.
    let signing_in = ["createSession", "endSession", "createSessionLink", "revokeSession"];
    let changes = |operation: &Operation| {
        let id = operation.id.as_str();
        operation.method != "GET" && !without_receipts.contains(&id) && !signing_in.contains(&id)
    };
    for operation in contract.operations().into_iter().filter(changes) {
        let client = &server.client;
        let Example { path, body, other, status } = example(&operation, client);
        let key = format!("a key of {}", operation.id);
        let first = send(client, &operation.method, &path, body.as_ref(), &key);
        assert_eq!(first.status().as_u16(), status, "{} {}", operation.id, first.body());
        assert!(!is_replay(&first), "{}", operation.id);
        contract.check(&operation, &first);
        if ["startAgent", "sayInThread"].contains(&operation.id.as_str()) {
            // Without a model the run ends at once, and its stream with it.
            let run = serde_json::from_str::<Value>(first.body()).unwrap()["runId"].clone();
            client.get(&format!("/v1/runs/{}/events", run.as_str().unwrap()));
        }
        let before = state(client);
        let again = send(client, &operation.method, &path, body.as_ref(), &key);
        assert_same(&operation, &first, &again);
        // A DELETE and a body without members have no other form.
        if let Some(other) = &other {
            let answer = send(client, &operation.method, &path, Some(other), &key);
            let shown: Value = serde_json::from_str(answer.body()).unwrap();
            assert_eq!(
                (answer.status().as_u16(), &shown["error"]),
                (409, &json!("idempotency_key_mismatch"))
            );
            assert!(!is_replay(&answer), "{}", operation.id);
            contract.check(&operation, &answer);
        }
        assert_eq!(state(client), before, "{} was executed again", operation.id);
        done.push((operation, path, body, key, first));
    }
    assert!(done.len() >= 12);
    let server = server.kill_and_restart();
    let before = state(&server.client);
    for (operation, path, body, key, first) in &done {
        assert_same(operation, first, &send(&server.client, &operation.method, path, body.as_ref(), key));
    }
    assert_eq!(state(&server.client), before, "a new server repeats no request of the old one");
}

/// Asserts equal status and body, except for secrets that are shown once and not stored: a new key, a new link.
fn assert_same(operation: &Operation, first: &Response<String>, again: &Response<String>) {
    assert_eq!(again.status(), first.status(), "{}", operation.id);
    assert!(is_replay(again), "{}", operation.id);
    assert_eq!(again.headers().get("content-type"), first.headers().get("content-type"), "{}", operation.id);
    let once: &[&str] = match operation.id.as_str() {
        "createKey" | "rotateKey" => &["key"],
        "createWebhook" | "rotateWebhook" => &["secret"],
        "mintToken" => &["token", "url"],
        _ => return assert_eq!(again.body(), first.body(), "{}", operation.id),
    };
    let (mut first, again): (Value, Value) =
        (serde_json::from_str(first.body()).unwrap(), serde_json::from_str(again.body()).unwrap());
    for name in once {
        let secret = first.as_object_mut().unwrap().shift_remove(*name).unwrap();
        assert!(!again.to_string().contains(secret.as_str().unwrap()));
    }
    assert_eq!(again, first);
}

#[test]
fn a_refusal_that_can_change_is_not_stored() {
    let server = Server::start();
    let client = &server.client;
    let body = json!({"workflowId": "late"});
    let create = |client: &Client| send(client, "POST", "/v1/runs", Some(&body), "k");
    assert_eq!(create(client).status(), 400, "the workflow does not exist yet");
    client.put("/v1/workflows/late", &gated("late"));
    assert_eq!(create(&client.with_key(None)).status(), 401);
    let reader = client.post("/v1/keys", &json!({"scopes": ["runs:read"]})).body;
    assert_eq!(create(&client.with_key(reader["key"].as_str())).status(), 403);
    let done = create(client);
    assert_eq!((done.status().as_u16(), is_replay(&done)), (201, false));
    assert!(is_replay(&create(client)));
    assert_eq!(
        create(&client.with_key(reader["key"].as_str())).status(),
        403,
        "an idempotency key does not replace a scope"
    );
}

#[test]
fn a_final_refusal_is_stored() {
    let server = Server::start();
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    let run = client.start_run("gated");
    let cancelled = client.start_run("gated");
    client.send("POST", &format!("/v1/runs/{cancelled}/cancel"), None);
    let beyond = client.events(&run).len() + 1;
    let requests = [
        ("/v1/runs/unknown/cancel".to_owned(), json!({}), 404),
        (format!("/v1/runs/{run}:resume"), json!({}), 409),
        (format!("/v1/runs/{run}:fork"), json!({"mode": "replay", "fromSeq": beyond}), 422),
        (format!("/v1/runs/{cancelled}/interrupts/gate"), json!({"resumeValue": {"action": "accept"}}), 422),
    ];
    let ask = || requests.clone().map(|(path, body, _)| send(client, "POST", &path, Some(&body), "k"));
    let first = ask();
    // Now two of them would succeed.
    client.send("POST", &format!("/v1/runs/{run}:pause"), None);
    assert!(client.events(&run).len() >= beyond);
    for ((first, again), (_, _, status)) in first.iter().zip(ask()).zip(&requests) {
        assert_eq!((first.status().as_u16(), is_replay(first)), (*status, false), "{}", first.body());
        assert_eq!((again.status().as_u16(), again.body()), (*status, first.body()));
        assert!(is_replay(&again), "{}", first.body());
    }
}

#[test]
fn a_repeated_key_creation_returns_the_key_after_its_expiry() {
    let server = Server::start();
    let client = &server.client;
    let end = client.post("/v1/keys", &json!({"scopes": [], "expiresInSeconds": 1})).body;
    let body = json!({"scopes": [], "expiresAt": end["expiresAt"]});
    let first = send(client, "POST", "/v1/keys", Some(&body), "k");
    assert_eq!(first.status(), 201, "{}", first.body());
    client.put("/v1/workflows/gated", &gated("gated"));
    let run = client.start_run("gated");
    // The poll takes one second without an event; then the key has expired.
    client.get(&format!("/v1/runs/{run}/events/poll?lastSequence=999&timeout=1"));
    let again = send(client, "POST", "/v1/keys", Some(&body), "k");
    assert_eq!((again.status().as_u16(), is_replay(&again)), (201, true), "{}", again.body());
    assert_eq!(send(client, "POST", "/v1/keys", Some(&body), "another").status(), 400);
}

#[test]
fn an_idempotency_key_belongs_to_one_tenant_and_one_operation() {
    let server = Server::start();
    let client = &server.client;
    let elsewhere = client.post("/v1/keys", &json!({"tenant": "elsewhere"})).body;
    let elsewhere = client.with_key(elsewhere["key"].as_str());
    let mut runs = Vec::new();
    for client in [client, &elsewhere] {
        client.put("/v1/workflows/gated", &gated("gated"));
        let made = send(client, "POST", "/v1/runs", Some(&json!({"workflowId": "gated"})), "k");
        assert_eq!((made.status().as_u16(), is_replay(&made)), (201, false));
        let made: Value = serde_json::from_str(made.body()).unwrap();
        runs.push(made["runId"].as_str().unwrap().to_owned());
    }
    assert_ne!(runs[0], runs[1]);
    let second = client.start_run("gated");
    for run in [&runs[0], &second] {
        let answer = send(client, "POST", &format!("/v1/runs/{run}/cancel"), None, "k");
        assert_eq!((answer.status().as_u16(), is_replay(&answer)), (200, false), "{}", answer.body());
        assert_eq!(client.status(run), "cancelled");
    }
}

#[test]
fn an_idempotency_key_belongs_to_one_principal() {
    let server = Server::start();
    let client = &server.client;
    let mut voting = gated("voting");
    voting["nodes"][1]["config"]["requiredApprovals"] = json!(3);
    client.put("/v1/workflows/voting", &voting);
    let run = client.start_run("voting");
    let of = |name: &str| client_with_key(client, &json!({"principal": name}));
    let path = format!("/v1/runs/{run}/interrupts/gate");
    let body = json!({"resumeValue": {"action": "accept"}});
    let vote = |client: &Client| send(client, "POST", &path, Some(&body), "vote");
    for name in ["ann", "bob"] {
        let voted = vote(&of(name));
        assert_eq!((voted.status().as_u16(), is_replay(&voted)), (200, false), "{name}: {}", voted.body());
    }
    assert!(is_replay(&vote(&of("ann"))), "the same principal with another API key");
    let pending = client.get("/v1/interrupts").body;
    assert_eq!(pending["interrupts"][0]["votes"]["voters"], json!(["ann", "bob"]), "{pending}");
}

#[test]
fn an_idempotency_key_is_one_header_of_bounded_length() {
    let server = Server::start();
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    let body = br#"{"workflowId": "gated"}"#;
    let (longest, too_long) = ("k".repeat(255), "k".repeat(256));
    let name = "idempotency-key";
    for headers in [
        vec![(name, "")],
        vec![(name, "  ")],
        vec![(name, "a\tb")],
        vec![(name, "\u{e9}")],
        vec![(name, too_long.as_str())],
        vec![(name, "a"), (name, "a")],
    ] {
        let answer = client.exchange("POST", "/v1/runs", Some(body), &headers);
        assert_eq!(answer.status(), 400, "{headers:?}");
        let shown: Value = serde_json::from_str(answer.body()).unwrap();
        assert_eq!(shown["details"]["field"], "Idempotency-Key");
    }
    let answer = client.exchange("POST", "/v1/runs", Some(body), &[(name, &longest)]);
    assert_eq!(answer.status(), 201);
    assert_eq!(client.get("/v1/runs").body["runs"].as_array().unwrap().len(), 1);
}
