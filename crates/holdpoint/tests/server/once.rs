//! `Idempotency-Key` on every route that changes something: the same request under the same key is carried out once and
//! answered the same, also by a server that was started later.

use serde_json::{Value, json};
use ureq::http::Response;

use crate::contract::{Contract, Operation};
use crate::harness::{Client, Server, gated, keyed};

/// A request that changes something, and one under the same key that asks for something else.
struct Example {
    path: String,
    body: Option<Value>,
    other: Option<Value>,
    status: u16,
}

/// One for every operation; a route that is not here fails the test.
fn example(operation: &Operation, client: &Client) -> Example {
    let (webhook, delivery) = subscribed(client, operation.id.starts_with("replay"));
    let run = client.start_run(if operation.id == "answerAsk" { asking(client) } else { "gated" });
    client.answer(&run, "gate", &json!({"action": "ask", "question": "Why?"}));
    let queue = client.get(&format!("/v1/threads/{run}/dispatches")).body;
    let dispatch = queue["dispatches"][0]["dispatchId"].as_str().unwrap().to_owned();
    let grant = granted(client);
    let mut renamed = gated("fresh");
    renamed["name"] = json!("another");
    let (body, other, status) = match operation.id.as_str() {
        "putWorkflow" => (gated("fresh"), renamed, 201),
        "createRun" => (json!({"workflowId": "gated"}), json!({"workflowId": "gated", "tags": ["b"]}), 201),
        "cancelRun" => (json!({"reason": "a"}), json!({"reason": "b"}), 200),
        "bulkCancel" => (json!({"runIds": [run, "nobody"]}), json!({"runIds": ["nobody"]}), 200),
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
        // An activation without effects has ended when anybody can see it. That it has is final, and kept.
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
    let key = client.post("/v1/keys", &json!({"scopes": []})).body["keyId"].as_str().unwrap().to_owned();
    let path = operation.path.replace("{workflowId}", "fresh").replace("{runId}", &run);
    // The run is still open in its own thread, where nobody else can begin.
    let thread = if operation.id == "sayInThread" { format!("of-{run}") } else { run.clone() };
    let path = path.replace("{agentId}", "fresh-agent").replace("{threadId}", &thread);
    let path = path.replace("{nodeId}", "gate").replace("{dispatchId}", &dispatch).replace("{keyId}", &key);
    let minted = client.send("POST", &format!("/v1/runs/{run}/interrupts/gate/tokens"), None).body;
    let path = path.replace("{token}", minted["token"].as_str().unwrap_or("cancelled"));
    let hold = client.post("/v1/holds", &json!({"title": "Go on?"})).body["holdId"].clone();
    let path = path.replace("{holdId}", hold.as_str().unwrap()).replace("{grantId}", &grant);
    let path =
        path.replace("{askId}", "1").replace("{webhookId}", &webhook).replace("{deliveryId}", &delivery);
    let given = |body: Value| Some(body).filter(|body| !body.is_null());
    Example { path, body: given(body), other: given(other), status }
}

/// Returns the grant of a run that was just approved.
fn granted(client: &Client) -> String {
    let run = client.start_run("gated");
    let accepted = client.answer(&run, "gate", &json!({"action": "accept"})).body;
    accepted["grantId"].as_str().unwrap().to_owned()
}

fn digest(client: &Client, grant: &str) -> Value {
    client.get(&format!("/v1/grants/{grant}")).body["digest"].clone()
}

/// Routes of holds and agents, and routes with one row. The run has no agent, so messages to it are refused. The refusal
/// is final and stored.
fn of_holds_and_agents(id: &str, client: &Client, run: &str) -> (Value, Value, u16) {
    let agent = |name: &str| json!({"name": name, "model": {"use": "main"}});
    let said = |text: &str| json!({"message": text});
    let decision = |action: &str| json!({"toolCallId": "c1", "action": action});
    match id {
        "rotateKey" => (json!({"overlapSeconds": 60}), json!({"overlapSeconds": 90}), 201),
        "rotateWebhook" => (json!({"overlapSeconds": 60}), json!({"overlapSeconds": 90}), 200),
        "rotateSecrets" => (json!({}), json!({"revokeOld": true}), 200),
        "pauseWebhook" => (json!({}), Value::Null, 200),
        "createHold" => (json!({"title": "a"}), json!({"title": "b"}), 201),
        "cancelHold" => (Value::Null, Value::Null, 200),
        "putAgent" => (agent("a"), agent("b"), 201),
        "startAgent" => {
            client.put("/v1/agents/fresh-agent", &agent("a"));
            (said("a"), said("b"), 202)
        }
        "sayInThread" => {
            client.put("/v1/agents/fresh-agent", &agent("a"));
            let said = |text: &str| json!({"message": text, "agentId": "fresh-agent"});
            (said("a"), said("b"), 202)
        }
        "tellRun" => (said("a"), said("b"), 404),
        "decideCall" | "decideInThread" => (decision("resume"), decision("cancel"), 404),
        "interruptThread" => (json!({}), json!({"keepWaiting": true}), 200),
        "cancelThread" => (json!({"reason": "a"}), json!({"reason": run}), 404),
        other => panic!("{other} changes something and has no example here"),
    }
}

/// A webhook, and a delivery that waits because it is paused, if one is needed. Nothing is sent by either.
pub(crate) fn subscribed(client: &Client, waits: bool) -> (String, String) {
    let event = if waits { "run.started" } else { "cap.breached" };
    let body = json!({"url": "https://8.8.8.8/", "events": [event], "durable": true});
    let webhook = client.post("/v1/webhooks", &body).body["webhookId"].as_str().unwrap().to_owned();
    if !waits {
        return (webhook, String::new());
    }
    client.send("POST", &format!("/v1/webhooks/{webhook}:pause"), None);
    client.start_run("gated");
    let found = client.get(&format!("/v1/webhooks/{webhook}/deliveries")).body;
    (webhook, found["deliveries"][0]["deliveryId"].as_str().unwrap().to_owned())
}

/// A workflow whose approvers may ask something first.
fn asking(client: &Client) -> &'static str {
    let mut asking = gated("asking");
    asking["nodes"][1]["config"]["actions"] = json!(["accept", "ask"]);
    client.put("/v1/workflows/asking", &asking);
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
    let told = names.map(|name| answer.headers().get(name).is_some_and(|value| value == "true"));
    assert_eq!(told[0], told[1], "both names say the same");
    told[0]
}

/// Everything that a change would change.
pub(crate) fn world(client: &Client) -> Value {
    let runs = client.get("/v1/runs?limit=200").body;
    let of = |run: &Value| client.events(run["runId"].as_str().unwrap()).len();
    let events: Vec<usize> = runs["runs"].as_array().unwrap().iter().map(of).collect();
    json!({
        "runs": runs, "events": events, "workflows": client.get("/v1/workflows").body,
        "keys": client.get("/v1/keys").body, "secrets": client.get("/v1/secrets").body, "mailbox": client.get("/v1/mailbox/stats").body,
        "webhooks": client.get("/v1/webhooks?limit=200").body,
    })
}

#[test]
fn the_same_request_under_the_same_key_is_carried_out_once_on_every_route() {
    let server = Server::start();
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let contract = Contract::of(&server.client);
    let mut done = Vec::new();
    // Streams are no receipts: what is sent again there is told where the thread stands. Graphs have names of their own for
    // what is sent again.
    let own_way = ["runAgent", "chat", "cancelChat"];
    // Neither cookies nor links that sign in are kept for whoever sends the same again.
    let signing_in = ["createSession", "endSession", "createSessionLink", "revokeSession"];
    let changes = |operation: &Operation| {
        let id = operation.id.as_str();
        operation.method != "GET" && !own_way.contains(&id) && !signing_in.contains(&id)
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
            // Without a model the run ends by itself, and its stream with it.
            let run = serde_json::from_str::<Value>(first.body()).unwrap()["runId"].clone();
            client.get(&format!("/v1/runs/{}/events", run.as_str().unwrap()));
        }
        let before = world(client);
        let again = send(client, &operation.method, &path, body.as_ref(), &key);
        assert_same(&operation, &first, &again);
        // A DELETE, and a body without members, cannot be another one.
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
        assert_eq!(world(client), before, "{} was done again", operation.id);
        done.push((operation, path, body, key, first));
    }
    assert!(done.len() >= 12);
    let server = server.kill_and_restart();
    let before = world(&server.client);
    for (operation, path, body, key, first) in &done {
        assert_same(operation, first, &send(&server.client, &operation.method, path, body.as_ref(), key));
    }
    assert_eq!(world(&server.client), before, "a new server knows what the old one did");
}

/// Status and body to the byte, but for what is shown once and kept nowhere: a new key, a new link.
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
fn what_may_turn_out_otherwise_is_not_kept() {
    let server = Server::start();
    let client = &server.client;
    let body = json!({"workflowId": "late"});
    let create = |client: &Client| send(client, "POST", "/v1/runs", Some(&body), "k");
    assert_eq!(create(client).status(), 400, "there is no such workflow");
    client.put("/v1/workflows/late", &gated("late"));
    assert_eq!(create(&client.with_key(None)).status(), 401);
    let reader = client.post("/v1/keys", &json!({"scopes": ["runs:read"]})).body;
    assert_eq!(create(&client.with_key(reader["key"].as_str())).status(), 403);
    let done = create(client);
    assert_eq!((done.status().as_u16(), is_replay(&done)), (201, false));
    assert!(is_replay(&create(client)));
    assert_eq!(create(&client.with_key(reader["key"].as_str())).status(), 403, "a key opens no door");
}

#[test]
fn a_final_no_is_kept() {
    let server = Server::start();
    let client = &server.client;
    client.put("/v1/workflows/gated", &gated("gated"));
    let run = client.start_run("gated");
    let cancelled = client.start_run("gated");
    client.send("POST", &format!("/v1/runs/{cancelled}/cancel"), None);
    let beyond = client.events(&run).len() + 1;
    let requests = [
        ("/v1/runs/nobody/cancel".to_owned(), json!({}), 404),
        (format!("/v1/runs/{run}:resume"), json!({}), 409),
        (format!("/v1/runs/{run}:fork"), json!({"mode": "replay", "fromSeq": beyond}), 422),
        (format!("/v1/runs/{cancelled}/interrupts/gate"), json!({"resumeValue": {"action": "accept"}}), 422),
    ];
    let ask = || requests.clone().map(|(path, body, _)| send(client, "POST", &path, Some(&body), "k"));
    let first = ask();
    // Now two of them would be possible.
    client.send("POST", &format!("/v1/runs/{run}:pause"), None);
    assert!(client.events(&run).len() >= beyond);
    for ((first, again), (_, _, status)) in first.iter().zip(ask()).zip(&requests) {
        assert_eq!((first.status().as_u16(), is_replay(first)), (*status, false), "{}", first.body());
        assert_eq!((again.status().as_u16(), again.body()), (*status, first.body()));
        assert!(is_replay(&again), "{}", first.body());
    }
}

#[test]
fn a_new_key_that_has_come_to_its_end_is_still_what_was_made() {
    let server = Server::start();
    let client = &server.client;
    let end = client.post("/v1/keys", &json!({"scopes": [], "expiresInSeconds": 1})).body;
    let body = json!({"scopes": [], "expiresAt": end["expiresAt"]});
    let first = send(client, "POST", "/v1/keys", Some(&body), "k");
    assert_eq!(first.status(), 201, "{}", first.body());
    client.put("/v1/workflows/gated", &gated("gated"));
    let run = client.start_run("gated");
    // Nothing comes within this second, so that the end has come when the answer is here.
    client.get(&format!("/v1/runs/{run}/events/poll?lastSequence=999&timeout=1"));
    let again = send(client, "POST", "/v1/keys", Some(&body), "k");
    assert_eq!((again.status().as_u16(), is_replay(&again)), (201, true), "{}", again.body());
    assert_eq!(send(client, "POST", "/v1/keys", Some(&body), "another").status(), 400);
}

#[test]
fn a_key_is_of_one_tenant_and_one_operation() {
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
fn what_one_principal_was_told_under_a_key_is_not_the_answer_to_another() {
    let server = Server::start();
    let client = &server.client;
    let mut voting = gated("voting");
    voting["nodes"][1]["config"]["requiredApprovals"] = json!(3);
    client.put("/v1/workflows/voting", &voting);
    let run = client.start_run("voting");
    let of = |name: &str| keyed(client, &json!({"principal": name}));
    let path = format!("/v1/runs/{run}/interrupts/gate");
    let body = json!({"resumeValue": {"action": "accept"}});
    let vote = |client: &Client| send(client, "POST", &path, Some(&body), "vote");
    for name in ["ann", "bob"] {
        let voted = vote(&of(name));
        assert_eq!((voted.status().as_u16(), is_replay(&voted)), (200, false), "{name}: {}", voted.body());
    }
    assert!(is_replay(&vote(&of("ann"))), "the same person with another API key");
    let pending = client.get("/v1/interrupts").body;
    assert_eq!(pending["interrupts"][0]["votes"]["voters"], json!(["ann", "bob"]), "{pending}");
}

#[test]
fn a_key_is_one_word_of_bounded_length() {
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
