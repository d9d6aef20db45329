//! Control of runs: pause, resume, cancel, bulk cancel, and limits that end a run.

use serde_json::{Value, json};

use crate::harness::{Client, Server, accept, gated, linear};

fn server() -> Server {
    let server = Server::start();
    server.client.put("/v1/workflows/gated", &gated("gated"));
    server
}

fn post(client: &Client, run: &str, verb: &str, body: &Value) -> crate::harness::Response {
    client.post(&format!("/v1/runs/{run}{verb}"), body)
}

fn of_kind<'l>(log: &'l [Value], kind: &str) -> Vec<&'l Value> {
    log.iter().filter(|event| event["type"] == kind).map(|event| &event["payload"]).collect()
}

#[test]
fn a_paused_run_accepts_answers_and_continues_when_resumed() {
    let server = server();
    let client = &server.client;
    let run = client.start_run("gated");
    let paused = post(client, &run, ":pause", &json!({"reason": "lunch"}));
    assert_eq!((paused.status, &paused.body["status"]), (202, &json!("paused")));
    let shown = client.get(&format!("/v1/runs/{run}")).body;
    assert_eq!((&shown["status"], &shown["pausedAt"]), (&json!("paused"), &paused.body["pausedAt"]));
    assert_eq!(
        (&shown["pauseReason"], &shown["drainPolicy"]),
        (&json!("lunch"), &json!("drain-current-node"))
    );
    let again = post(client, &run, ":pause", &json!({}));
    again.assert_envelope(409, "wrong_state");
    assert_eq!(again.body["details"]["runStatus"], "paused");
    let answered = client.answer(&run, "gate", &accept());
    assert_eq!((answered.status, &answered.body["status"]), (200, &json!("paused")));
    assert!(of_kind(&client.events(&run), "node.completed").len() == 1, "the run does not continue");
    let resumed = post(client, &run, ":resume", &json!({}));
    assert_eq!((resumed.status, &resumed.body["status"]), (202, &json!("running")));
    let log = client.wait_for_end(&run);
    assert_eq!(log.last().unwrap()["type"], "run.completed");
    assert_eq!(of_kind(&log, "run.paused")[0]["reason"], "lunch");
    assert_eq!(of_kind(&log, "run.resumed").len(), 1);
    for verb in [":pause", ":resume"] {
        let late = post(client, &run, verb, &json!({}));
        assert_eq!((late.status, &late.body["details"]["runStatus"]), (409, &json!("completed")), "{late:?}");
    }
}

#[test]
fn the_drain_policy_is_validated_and_stored() {
    let server = server();
    let client = &server.client;
    for policy in ["immediate", "drain-current-node"] {
        let run = client.start_run("gated");
        let waiting = post(client, &run, ":resume", &json!({}));
        assert_eq!(
            (waiting.status, &waiting.body["details"]["runStatus"]),
            (409, &json!("waiting-approval"))
        );
        assert_eq!(post(client, &run, ":pause", &json!({"drainPolicy": policy})).status, 202);
        assert_eq!(client.get(&format!("/v1/runs/{run}")).body["drainPolicy"], policy);
        assert_eq!(of_kind(&client.events(&run), "run.paused")[0]["drainPolicy"], policy);
    }
    let run = client.start_run("gated");
    post(client, &run, ":pause", &json!({"drainPolicy": "never"})).assert_envelope(400, "validation_error");
    post(client, "unknown", ":pause", &json!({})).assert_envelope(404, "not_found");
    post(client, "unknown", ":resume", &json!({})).assert_envelope(404, "not_found");
    assert_eq!(client.status(&run), "waiting-approval");
}

#[test]
fn a_delay_that_ends_during_a_pause_continues_after_the_resume() {
    let server = Server::start();
    let client = &server.client;
    let nap = [("nap", "core.delay", json!({"ms": 300})), ("after", "core.noop", json!({}))];
    client.put("/v1/workflows/nap", &linear("nap", &nap));
    let run = client.start_run("nap");
    // The run may have ended before the pause.
    if post(client, &run, ":pause", &json!({"drainPolicy": "immediate"})).status == 202 {
        client.wait_for_event(&run, |event| event["type"] == "holdpoint.sleep.ended");
        assert_eq!(client.status(&run), "paused");
        assert_eq!(post(client, &run, ":resume", &json!({})).status, 202);
    }
    assert_eq!(client.wait_for_end(&run).last().unwrap()["type"], "run.completed");
}

#[test]
fn a_repeated_cancel_has_no_effect() {
    let server = server();
    let client = &server.client;
    let run = client.start_run("gated");
    let first = post(client, &run, "/cancel", &json!({"reason": "first"}));
    let log = client.events(&run);
    assert_eq!(post(client, &run, "/cancel", &json!({"reason": "second"})), first);
    assert_eq!(client.events(&run), log);
    assert_eq!(log.last().unwrap()["payload"]["reason"], "first");
    let done = client.start_run("gated");
    client.answer(&done, "gate", &accept());
    assert_eq!(post(client, &done, "/cancel", &json!({})).body["status"], "completed");
    post(client, "unknown", "/cancel", &json!({})).assert_envelope(404, "not_found");
    let paused = client.start_run("gated");
    post(client, &paused, ":pause", &json!({}));
    assert_eq!(post(client, &paused, "/cancel", &json!({})).body["status"], "cancelled");
    client.put("/v1/workflows/nap", &linear("nap", &[("nap", "core.delay", json!({"ms": 3_600_000}))]));
    let asleep = client.start_run("nap");
    assert_eq!(post(client, &asleep, "/cancel", &json!({})).body["status"], "cancelled");
    assert_eq!(client.wait_for_end(&asleep).last().unwrap()["type"], "run.cancelled");
}

#[test]
fn bulk_cancel_keeps_the_order_and_continues_after_a_failure() {
    let server = server();
    let client = &server.client;
    let (a, b, done) = (client.start_run("gated"), client.start_run("gated"), client.start_run("gated"));
    client.answer(&done, "gate", &accept());
    let asked = json!({"runIds": [b, "unknown", done, a, b, ""], "reason": "all of them"});
    let answer = client.post("/v1/runs:bulk-cancel", &asked);
    assert_eq!(answer.status, 200);
    let results = answer.body["results"].as_array().unwrap();
    let told: Vec<(&Value, &Value)> = results.iter().map(|one| (&one["runId"], &one["ok"])).collect();
    let (yes, no) = (json!(true), json!(false));
    let named = asked["runIds"].as_array().unwrap();
    let expected = named.iter().zip([&yes, &no, &yes, &yes, &yes, &no]).collect::<Vec<_>>();
    assert_eq!(told, expected);
    assert_eq!((&results[0]["status"], &results[2]["status"]), (&json!("cancelled"), &json!("completed")));
    for at in [1, 5] {
        assert_eq!(results[at]["error"]["code"], "not_found");
        assert!(results[at].get("status").is_none());
    }
    assert_eq!(of_kind(&client.events(&a), "run.cancelled")[0]["reason"], "all of them");
    let none = client.post("/v1/runs:bulk-cancel", &json!({"runIds": ["x", "y"]}));
    assert_eq!((none.status, none.body["results"].as_array().unwrap().len()), (200, 2));
    let ids = |count: usize| json!({"runIds": vec!["x"; count]});
    assert_eq!(client.post("/v1/runs:bulk-cancel", &ids(100)).status, 200);
    for wrong in [ids(0), ids(101), json!({}), json!({"runIds": "x"}), json!({"runIds": [1]})] {
        client.post("/v1/runs:bulk-cancel", &wrong).assert_envelope(400, "validation_error");
    }
}

#[test]
fn bulk_cancel_does_not_find_runs_of_another_tenant() {
    let server = server();
    let made = server.client.post("/v1/keys", &json!({"tenant": "elsewhere"})).body;
    let elsewhere = server.client.with_key(made["key"].as_str());
    let ours = server.client.start_run("gated");
    let answer = elsewhere.post("/v1/runs:bulk-cancel", &json!({"runIds": [ours]}));
    assert_eq!(answer.body["results"][0]["error"]["code"], "not_found");
    assert_eq!(server.client.status(&ours), "waiting-approval");
}

/// Returns the types and payloads of the last two events: the exceeded limit and the failure.
fn end(log: &[Value]) -> [(&str, &Value); 2] {
    let shown = |event: &'_ Value| event["type"].as_str().unwrap().to_owned();
    assert_eq!(shown(&log[log.len() - 2]), "cap.breached", "{log:?}");
    assert_eq!(shown(&log[log.len() - 1]), "run.failed", "{log:?}");
    [log.len() - 2, log.len() - 1].map(|at| (log[at]["type"].as_str().unwrap(), &log[at]["payload"]))
}

#[test]
fn an_exceeded_limit_is_recorded_before_the_run_fails() {
    let server = server();
    let client = &server.client;
    let noop = |id| (id, "core.noop", json!({}));
    client.put("/v1/workflows/three", &linear("three", &[noop("a"), noop("b"), noop("c")]));
    let made =
        client.post("/v1/runs", &json!({"workflowId": "three", "configurable": {"recursionLimit": 2}}));
    assert_eq!(made.body["status"], "failed");
    let log = client.events(made.body["runId"].as_str().unwrap());
    let [(_, cap), (_, failed)] = end(&log);
    assert_eq!(*cap, json!({"kind": "node-executions", "limit": 2, "observed": 3, "nodeId": "c"}));
    assert_eq!(failed["error"]["code"], "recursion_limit_exceeded");
    let started: Vec<_> = of_kind(&log, "node.started").iter().map(|node| node["nodeId"].clone()).collect();
    assert_eq!(started, ["a", "b"]);
    let exact =
        client.post("/v1/runs", &json!({"workflowId": "three", "configurable": {"recursionLimit": 3}}));
    assert_eq!(exact.body["status"], "completed");

    let made = client.post("/v1/runs", &json!({"workflowId": "gated", "configurable": {"runTimeoutMs": 20}}));
    let run = made.body["runId"].as_str().unwrap();
    let log = client.wait_for_end(run);
    let [(_, cap), (_, failed)] = end(&log);
    assert_eq!((&cap["kind"], &cap["limit"]), (&json!("run-duration"), &json!(20)));
    assert_eq!(failed["error"]["code"], "run_timeout");
    client.answer(run, "gate", &accept()).assert_envelope(409, "interrupt_already_resolved");
}

#[test]
fn a_loop_beyond_its_limit_fails_the_run() {
    let server = Server::start();
    let client = &server.client;
    let mut flow = linear("round", &[("a", "core.noop", json!({})), ("b", "core.noop", json!({}))]);
    let back = json!({"id": "back", "sourceNodeId": "b", "targetNodeId": "b"});
    flow["edges"].as_array_mut().unwrap().push(back);
    flow["settings"] = json!({"maxLoopbackIterations": 3});
    let registered = client.put("/v1/workflows/round", &flow);
    assert_eq!(registered.status, 201, "{registered:?}");
    let run = client.start_run("round");
    let log = client.wait_for_end(&run);
    let [(_, cap), (_, failed)] = end(&log);
    assert_eq!((&cap["kind"], &cap["limit"]), (&json!("loop-iterations"), &json!(3)));
    assert_eq!(failed["error"]["code"], "loop_limit_exceeded");
    assert_eq!(of_kind(&log, "workflow.loopback-limit").len(), 1);
    assert_eq!(of_kind(&log, "holdpoint.loop.turned").len(), 3);
}
