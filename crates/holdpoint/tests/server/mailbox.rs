//! The dispatch queue, over HTTP and on the command line.

use serde_json::{Value, json};

use crate::harness::{Response, Server, accept, gated};

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

/// Starts and answers a run, which has two activations.
fn answered_run(server: &Server) -> String {
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let run = server.client.start_run("gated");
    assert_eq!(server.client.answer(&run, "gate", &accept()).status, 200);
    run
}

#[test]
fn every_activation_is_recorded_with_dispatch_and_run_status() {
    let server = Server::start();
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let run = server.client.start_run("gated");
    let suspended = dispatches(&server, &run);
    assert_eq!(suspended.len(), 1, "{suspended:?}");
    assert_eq!((&suspended[0]["threadId"], &suspended[0]["runId"]), (&json!(run), &json!(run)));
    assert_eq!(suspended[0]["status"], "acked", "the activation was delivered");
    assert_eq!(suspended[0]["run"]["status"], "waiting-approval", "the run has not ended");
    assert_eq!(suspended[0]["projection"]["runStatus"], "waiting");
    assert_eq!(suspended[0]["projection"]["termination"]["type"], "suspended");
    assert!(suspended[0]["projection"]["completedAt"].is_string(), "{suspended:?}");

    assert_eq!(server.client.answer(&run, "gate", &accept()).status, 200);
    let done = dispatches(&server, &run);
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
    let run = answered_run(&server);
    let all = dispatches(&server, &run);
    let first = list(&server, &run, "?limit=1").body;
    assert_eq!(first["dispatches"], json!([all[0]]));
    let cursor = first["nextCursor"].as_str().unwrap();
    let second = list(&server, &run, &format!("?limit=1&cursor={cursor}")).body;
    assert_eq!(second, json!({"dispatches": [all[1]]}), "the last page has no cursor");
    assert_eq!(list(&server, &run, "?status=acked,queued").body["dispatches"], json!(all));
    assert_eq!(list(&server, &run, "?status=queued,dead_letter").body, json!({"dispatches": []}));
    assert_eq!(list(&server, "no-such-thread", "").body, json!({"dispatches": []}));
    for query in ["?status=lost", "?status=", "?cursor=x", "?limit=0", "?limit=201"] {
        list(&server, &run, query).assert_envelope(400, "validation_error");
    }
}

#[test]
fn an_ended_dispatch_is_neither_cancelled_nor_requeued() {
    let server = Server::start();
    let run = answered_run(&server);
    let before = dispatches(&server, &run);
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
    assert_eq!(dispatches(&server, &run), before);
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
    let run = answered_run(&server);
    let dispatch = format!("/v1/dispatches/{}", id(&dispatches(&server, &run)[0]));
    let theirs = server.client.post("/v1/keys", &json!({"tenant": "theirs"})).body;
    let theirs = server.client.with_key(theirs["key"].as_str());
    let threads = format!("/v1/threads/{run}/dispatches");
    assert_eq!(theirs.get(&threads).body, json!({"dispatches": []}));
    theirs.get(&dispatch).assert_envelope(404, "not_found");
    for what in ["cancel", "requeue"] {
        theirs.post(&format!("{dispatch}/{what}"), &json!({})).assert_envelope(404, "not_found");
    }
}

#[test]
fn the_command_line_shows_the_queues() {
    let server = Server::start();
    let run = answered_run(&server);
    let known = dispatches(&server, &run);
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
    let (_, json) = output(&["mailbox", "list", &run, "--status", "acked", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["dispatches"], json!(known));
    let (code, stats) = output(&["mailbox", "stats"]);
    assert!(code == 0 && stats.contains("dead_letter  0"), "{stats}");
    let table: [(&[&str], i32, &str); 5] = [
        (&["mailbox", "cancel", first], 1, "mailbox show"),
        (&["mailbox", "requeue", first], 1, "dead letters"),
        (&["mailbox", "show", "unknown"], 1, "mailbox list"),
        (&["mailbox", "list", &run, "--status", "lost"], 2, "dead_letter"),
        (&["mailbox", "--help"], 0, "holdpoint mailbox requeue ID"),
    ];
    for (arguments, code, message) in table {
        let (found, text) = output(arguments);
        assert!(found == code && text.contains(message), "{arguments:?}: {found}: {text}");
    }
}
