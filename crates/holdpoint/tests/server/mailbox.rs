//! The dispatch queue, over HTTP and on the command line.

use serde_json::{Value, json};

use crate::harness::{Client, Response, Server, accept, gated};

fn list(server: &Server, thread: &str, query: &str) -> Response {
    server.client.get(&format!("/v1/threads/{thread}/dispatches{query}"))
}

fn dispatches(server: &Server, thread: &str) -> Vec<Value> {
    let page = list(server, thread, "");
    page.body["dispatches"].as_array().unwrap_or_else(|| panic!("{page:?}")).clone()
}

fn id(dispatch: &Value) -> &str {
    dispatch["dispatchId"].as_str().unwrap()
}

/// Executes a run of an agent and returns its dispatch.
pub(crate) fn acknowledged_dispatch(client: &Client) -> String {
    client.put("/v1/agents/clerk", &json!({"model": {"provider": "scripted", "steps": [{"text": "Yes."}]}}));
    let run = client.post("/v1/agents/clerk/runs", &json!({"message": "Go"})).body;
    let queue = client.get(&format!("/v1/threads/{}/dispatches", run["threadId"].as_str().unwrap())).body;
    queue["dispatches"][0]["dispatchId"].as_str().unwrap().to_owned()
}

/// A run of an agent, which waits for the decision on a tool call.
struct AgentRun {
    run: String,
    thread: String,
}

impl AgentRun {
    fn start(server: &Server) -> Self {
        let steps = json!([{"calls": [{"id": "c1", "name": "send", "arguments": {}}]}, {"text": "Yes."}]);
        let tool = json!({"type": "http", "name": "send", "description": "sends", "method": "POST",
            "url": "https://mail.example.test/", "parameters": {"type": "object"}});
        let definition = json!({"model": {"provider": "scripted", "steps": steps}, "tools": [tool],
            "permissions": {"rules": [], "default": "ask"}});
        server.client.put("/v1/agents/mailer", &definition);
        let started = server.client.post("/v1/agents/mailer/runs", &json!({"message": "Go"})).body;
        let member = |name: &str| started[name].as_str().unwrap().to_owned();
        let run = Self { run: member("runId"), thread: member("threadId") };
        server.client.wait_for_event(&run.run, |event| event["type"] == "node.suspended");
        run
    }

    fn reject(&self, server: &Server) {
        let rejected = server.client.answer(&self.run, "agent", &json!({"action": "reject"}));
        assert_eq!(rejected.status, 200, "{rejected:?}");
        server.client.wait_for_event(&self.run, |event| event["type"] == "run.completed");
    }
}

/// Starts a run of an agent and rejects its tool call. The run has two activations.
fn answered_run(server: &Server) -> AgentRun {
    let run = AgentRun::start(server);
    run.reject(server);
    run
}

#[test]
fn a_workflow_without_effects_needs_no_dispatch() {
    let server = Server::start();
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let run = server.client.start_run("gated");
    assert_eq!(dispatches(&server, &run), [json!(null); 0]);
    assert_eq!(server.client.get(&format!("/v1/runs/{run}/waiting")).body["sinceDispatchId"], json!(null));
    assert_eq!(server.client.answer(&run, "gate", &accept()).status, 200);
    assert_eq!(server.client.get(&format!("/v1/runs/{run}")).body["status"], "completed");
    assert_eq!(dispatches(&server, &run), [json!(null); 0]);
}

#[test]
fn every_activation_in_a_thread_is_recorded_with_dispatch_and_run_status() {
    let server = Server::start();
    let agent = AgentRun::start(&server);
    let AgentRun { run, thread } = &agent;
    let suspended = dispatches(&server, thread);
    assert_eq!(suspended.len(), 1, "{suspended:?}");
    assert_eq!((&suspended[0]["threadId"], &suspended[0]["runId"]), (&json!(thread), &json!(run)));
    assert_eq!(suspended[0]["status"], "acked", "the activation was delivered");
    assert_eq!(suspended[0]["run"]["status"], "waiting-approval", "the run has not ended");
    assert_eq!(suspended[0]["projection"]["runStatus"], "waiting");
    assert_eq!(suspended[0]["projection"]["termination"]["type"], "suspended");
    assert!(suspended[0]["projection"]["completedAt"].is_string(), "{suspended:?}");

    agent.reject(&server);
    let done = dispatches(&server, thread);
    assert_eq!(
        (done.len(), id(&done[0])),
        (2, id(&suspended[0])),
        "dispatches are in the order of claims: {done:?}"
    );
    assert!(
        done.iter().all(|one| one["run"]["status"] == "completed"),
        "all dispatches show the current status of the run: {done:?}"
    );
    assert_eq!(
        done[0]["projection"], suspended[0]["projection"],
        "the projection of the first activation does not change"
    );
    assert_eq!(done[1]["projection"]["runStatus"], "done");
    assert_eq!(done[1]["projection"]["termination"], json!({"type": "natural_end"}));
    for one in &done {
        assert_eq!(server.client.get(&format!("/v1/dispatches/{}", id(one))).body, *one);
        assert!(!one.to_string().to_lowercase().contains("token"), "a fencing token is shown: {one}");
    }
}

#[test]
fn dispatches_are_listed_in_pages_and_by_status() {
    let server = Server::start();
    let AgentRun { thread, .. } = answered_run(&server);
    let all = dispatches(&server, &thread);
    let first = list(&server, &thread, "?limit=1").body;
    assert_eq!(first["dispatches"], json!([all[0]]));
    let cursor = first["nextCursor"].as_str().unwrap();
    let second = list(&server, &thread, &format!("?limit=1&cursor={cursor}")).body;
    assert_eq!(second, json!({"dispatches": [all[1]]}), "the last page has no cursor");
    assert_eq!(list(&server, &thread, "?status=acked,queued").body["dispatches"], json!(all));
    assert_eq!(list(&server, &thread, "?status=queued,dead_letter").body, json!({"dispatches": []}));
    assert_eq!(list(&server, "no-such-thread", "").body, json!({"dispatches": []}));
    for query in ["?status=lost", "?status=", "?cursor=x", "?limit=0", "?limit=201"] {
        list(&server, &thread, query).assert_envelope(400, "validation_error");
    }
}

#[test]
fn an_ended_dispatch_is_neither_cancelled_nor_requeued() {
    let server = Server::start();
    let AgentRun { run, thread } = answered_run(&server);
    let before = dispatches(&server, &thread);
    let path = format!("/v1/dispatches/{}", id(&before[0]));
    let cancelled = server.client.post(&format!("{path}/cancel"), &json!({}));
    cancelled.assert_envelope(409, "dispatch_ended");
    assert_eq!(cancelled.body["details"], json!({"status": "acked", "runId": run}));
    let requeued = server.client.post(&format!("{path}/requeue"), &json!({}));
    requeued.assert_envelope(409, "dispatch_not_dead");
    for what in ["", "/cancel", "/requeue"] {
        let method = if what.is_empty() { "GET" } else { "POST" };
        let unknown = server.client.send(method, &format!("/v1/dispatches/unknown{what}"), None);
        unknown.assert_envelope(404, "not_found");
    }
    assert_eq!(dispatches(&server, &thread), before);
}

#[test]
fn mailbox_counts_are_per_tenant() {
    let server = Server::start();
    answered_run(&server);
    let stats = server.client.get("/v1/mailbox/stats").body;
    let none =
        json!({"queued": 0, "claimed": 0, "acked": 0, "cancelled": 0, "superseded": 0, "dead_letter": 0});
    let mut two_acked = none.clone();
    two_acked["acked"] = json!(2);
    assert_eq!(stats["counts"], two_acked);
    let theirs = server.client.post("/v1/keys", &json!({"tenant": "theirs"})).body;
    let theirs = server.client.with_key(theirs["key"].as_str());
    assert_eq!(theirs.get("/v1/mailbox/stats").body, json!({"counts": none}));
}

#[test]
fn one_tenant_never_sees_the_queues_of_another() {
    let server = Server::start();
    let AgentRun { thread, .. } = answered_run(&server);
    let dispatch = format!("/v1/dispatches/{}", id(&dispatches(&server, &thread)[0]));
    let theirs = server.client.post("/v1/keys", &json!({"tenant": "theirs"})).body;
    let theirs = server.client.with_key(theirs["key"].as_str());
    let threads = format!("/v1/threads/{thread}/dispatches");
    assert_eq!(theirs.get(&threads).body, json!({"dispatches": []}));
    theirs.get(&dispatch).assert_envelope(404, "not_found");
    for what in ["cancel", "requeue"] {
        theirs.post(&format!("{dispatch}/{what}"), &json!({})).assert_envelope(404, "not_found");
    }
}

#[test]
fn the_command_line_shows_the_queues() {
    let server = Server::start();
    let AgentRun { thread, .. } = answered_run(&server);
    let known = dispatches(&server, &thread);
    let first = id(&known[0]);
    let output = |arguments: &[&str]| {
        let ran = server.run(arguments);
        let text = [ran.stdout, ran.stderr].concat();
        (ran.status.code().unwrap(), String::from_utf8(text).unwrap())
    };
    let (code, table) = output(&["mailbox", "list", "latest"]);
    assert_eq!((code, table.lines().count()), (0, 3), "{table}");
    assert!(table.contains(first) && table.contains("acked") && table.contains("completed"), "{table}");
    let (code, shown) = output(&["mailbox", "show", first]);
    assert!(code == 0 && shown.contains("termination") && shown.contains("suspended"), "{shown}");
    let (_, json) = output(&["mailbox", "list", &thread, "--status", "acked", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["dispatches"], json!(known));
    let (code, stats) = output(&["mailbox", "stats"]);
    assert!(code == 0 && stats.contains("dead_letter  0"), "{stats}");
    let table: [(&[&str], i32, &str); 5] = [
        (&["mailbox", "cancel", first], 1, "mailbox show"),
        (&["mailbox", "requeue", first], 1, "dead letters"),
        (&["mailbox", "show", "unknown"], 1, "mailbox list"),
        (&["mailbox", "list", &thread, "--status", "lost"], 2, "dead_letter"),
        (&["mailbox", "--help"], 0, "holdpoint mailbox requeue ID"),
    ];
    for (arguments, code, message) in table {
        let (found, text) = output(arguments);
        assert!(found == code && text.contains(message), "{arguments:?}: {found}: {text}");
    }
}
