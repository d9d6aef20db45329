//! `holdpoint runs`: starting, pausing, cancelling, forking, listing and watching runs.

use std::process::Output;

use serde_json::{Value, json};

use crate::harness::{Server, accept, gated};

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Returns the standard output of a command that succeeds.
fn stdout_of(server: &Server, words: &[&str]) -> String {
    let output = server.run(words);
    assert!(output.status.success(), "{words:?}: {}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn json_of(server: &Server, words: &[&str]) -> Value {
    let line = stdout_of(server, &[words, &["--json"]].concat());
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{words:?}: {error}: {line}"))
}

/// Asserts that a command fails with this exit code and text.
fn assert_fails(server: &Server, words: &[&str], code: i32, part: &str) {
    let output = server.run(words);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {}", text(&output));
    assert!(text(&output).contains(part), "{words:?}: {}", text(&output));
}

fn start(server: &Server, words: &[&str]) -> String {
    let started = json_of(server, &[&["runs", "start"], words].concat());
    started["runId"].as_str().unwrap().to_owned()
}

#[test]
fn a_paused_run_is_answered_and_continues_when_resumed() {
    let server = Server::start();
    let run = start(&server, &["sample-approval"]);
    let paused =
        stdout_of(&server, &["runs", "pause", &run, "--reason", "until Monday", "--drain", "immediate"]);
    assert!(paused.contains(&format!("run {run} is paused")) && paused.contains("runs resume"), "{paused}");
    let shown = stdout_of(&server, &["runs", "show", &run]);
    assert!(shown.contains("immediate: until Monday") && shown.contains("resume it with: "), "{shown}");
    assert!(shown.contains("answer with: "), "{shown}");
    let listed = json_of(&server, &["runs", "list", "--status", "paused"]);
    assert_eq!(listed["runs"][0]["runId"], json!(run));
    let answered = stdout_of(&server, &["answer", &run, "review", "accept"]);
    assert!(answered.contains("the run is paused") && answered.contains("runs resume"), "{answered}");
    let resumed = stdout_of(&server, &["runs", "resume", &run]);
    assert!(resumed.contains("; it is now completed"), "{resumed}");
    assert_fails(&server, &["runs", "resume", &run], 1, "runs show");
    assert_fails(&server, &["runs", "pause", &run], 1, &format!("runs show {run}"));
    assert_fails(&server, &["runs", "pause", "unknown"], 1, "run not found");
    assert_fails(&server, &["runs", "pause", &run, "--drain", "slowly"], 2, "drain-current-node");
    assert_fails(&server, &["runs", "resume"], 2, "RUN");
    let other = start(&server, &["sample-approval"]);
    let answer = json_of(&server, &["runs", "pause", &other]);
    assert_eq!((&answer["runId"], &answer["status"]), (&json!(other), &json!("paused")));
    assert_eq!(json_of(&server, &["runs", "show", &other])["drainPolicy"], "drain-current-node");
    assert_eq!(json_of(&server, &["runs", "resume", &other])["status"], "running");
}

#[test]
fn cancelling_many_runs_reports_each_and_one_failure_fails_the_command() {
    let server = Server::start();
    let runs = [start(&server, &["sample-approval"]), start(&server, &["sample-approval"])];
    let ended = start(&server, &["sample-approval"]);
    assert_eq!(server.client.answer(&ended, "review", &accept()).status, 200);
    let words = ["runs", "cancel", &runs[0], &ended, "unknown", &runs[0], "--reason", "enough"];
    let output = server.run(&words);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let lines = String::from_utf8(output.stdout).unwrap();
    let reported: Vec<&str> = lines.lines().collect();
    assert_eq!(reported.len(), 3, "a run that is named twice is reported once: {lines}");
    assert_eq!(reported[0], format!("run {} is cancelled", runs[0]));
    assert_eq!(reported[1], format!("run {ended} is completed: it had already ended"));
    assert!(reported[2].starts_with("run unknown was not cancelled: "), "{lines}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("1 of 3 runs could not be cancelled"));
    let both = json_of(&server, &["runs", "cancel", &runs[0], &runs[1]]);
    assert_eq!(both["results"].as_array().unwrap().len(), 2, "{both}");
    assert_eq!(both["results"][1], json!({"runId": runs[1], "ok": true, "status": "cancelled"}));
    let one = stdout_of(&server, &["runs", "cancel", &ended]);
    assert_eq!(one, format!("run {ended} is completed: it had already ended\n"));
    assert_fails(&server, &["runs", "cancel"], 2, "RUN");
    assert_fails(&server, &["runs", "cancel", "unknown"], 1, "run not found");
}

#[test]
fn a_run_is_forked_as_a_replay_and_as_a_branch_from_an_event() {
    let server = Server::start();
    let run = start(&server, &["sample-approval", "--tag", "old"]);
    assert_eq!(server.client.answer(&run, "review", &accept()).status, 200);
    let events = stdout_of(&server, &["runs", "events", &run]);
    let resolved = events.lines().find(|line| line.contains("interrupt.resolved")).unwrap();
    let number = resolved.split_whitespace().next().unwrap();
    let replay = stdout_of(&server, &["runs", "fork", &run, "--mode", "replay"]);
    assert!(replay.starts_with("forked run ") && replay.contains(": completed"), "{replay}");
    let words = ["runs", "fork", &run, "--mode", "branch", "--from", number, "--tag", "what-if"];
    let branch = stdout_of(&server, &[&words[..], &["--configurable", "{\"recursionLimit\": 50}"]].concat());
    assert!(branch.contains(": waiting-approval at review\nanswer it in the inbox or with: "), "{branch}");
    let shown = json_of(&server, &["runs", "show", "latest"]);
    assert_eq!((&shown["sourceRunId"], &shown["forkMode"]), (&json!(run), &json!("branch")));
    assert_eq!((&shown["tags"], &shown["configurable"]["recursionLimit"]), (&json!(["what-if"]), &json!(50)));
    let fact = format!("run {run} before its event {number}, as a branch");
    assert!(stdout_of(&server, &["runs", "show", "latest"]).contains(&fact));
    assert!(stdout_of(&server, &["answer", "latest", "review", "accept"]).contains("completed"));
    let keyed = ["runs", "fork", &run, "--mode", "replay", "--idempotency-key", "once"];
    let once = json_of(&server, &keyed);
    assert_eq!(json_of(&server, &keyed)["runId"], once["runId"]);
    let watched = stdout_of(&server, &["runs", "fork", &run, "--mode", "replay", "--watch"]);
    assert!(watched.contains("run.completed"), "{watched}");
    assert_fails(&server, &["runs", "fork", &run], 2, "--mode");
    assert_fails(&server, &["runs", "fork", &run, "--mode", "sideways"], 2, "replay");
    assert_fails(&server, &["runs", "fork", &run, "--mode", "branch"], 2, "--from");
    assert_fails(&server, &["runs", "fork", &run, "--mode", "branch", "--from", "-1"], 2, "-1");
    assert_fails(&server, &["runs", "fork", &run, "--mode", "branch", "--from", "999"], 1, "runs events");
    assert_fails(&server, &["runs", "fork", &run, "--mode", "replay", "--configurable", "[]"], 2, "object");
    assert_fails(&server, &["runs", "fork", "unknown", "--mode", "replay"], 1, "run not found");
}

#[test]
fn a_run_is_started_once_per_idempotency_key_and_alone_in_its_scope() {
    let server = Server::start();
    let key = ["sample-approval", "--idempotency-key", "monday"];
    let run = start(&server, &key);
    assert_eq!(start(&server, &key), run);
    let again = stdout_of(&server, &[&["runs", "start"][..], &key].concat());
    assert!(
        again.starts_with(&format!("started run {run} (earlier, with the same idempotency key): waiting")),
        "{again}"
    );
    let alone = ["sample-approval", "--scope", "production", "--exclusive"];
    let first = start(&server, &alone);
    assert_fails(&server, &[&["runs", "start"][..], &alone].concat(), 1, &format!("runs show {first}"));
    stdout_of(&server, &["runs", "cancel", &first]);
    start(&server, &alone);
    assert_fails(&server, &["runs", "start", "sample-approval", "--exclusive"], 2, "--scope");
    let words = ["sample-approval", "--configurable", "{\"recursionLimit\": 7}", "--metadata", "{\"a\": 1}"];
    let shown = json_of(&server, &["runs", "show", &start(&server, &words)]);
    assert_eq!(
        (&shown["configurable"], &shown["metadata"]),
        (&json!({"recursionLimit": 7}), &json!({"a": 1}))
    );
    for (flag, value) in [("--configurable", "7"), ("--metadata", "{"), ("--configurable", "@nowhere.json")] {
        assert_fails(&server, &["runs", "start", "sample-approval", flag, value], 2, "error: ");
    }
    assert_fails(
        &server,
        &["runs", "start", "sample-approval", "--idempotency-key", ""],
        1,
        "Idempotency-Key",
    );
}

#[test]
fn runs_are_found_by_tag_scope_and_time() {
    let server = Server::start();
    let tagged = start(&server, &["sample-approval", "--tag", "urgent"]);
    let scoped = start(&server, &["sample-approval", "--scope", "shop 7"]);
    let found = |words: &[&str]| -> Vec<String> {
        let page = json_of(&server, &[&["runs", "list"], words].concat());
        let ids = page["runs"].as_array().unwrap().iter().map(|run| run["runId"].as_str().unwrap());
        ids.map(str::to_owned).collect()
    };
    assert_eq!(found(&["--tag", "urgent"]), [tagged.as_str()]);
    assert_eq!(found(&["--scope", "shop 7"]), [scoped.as_str()]);
    assert_eq!(found(&["--workflow", "sample-approval"]), [scoped.clone(), tagged.clone()]);
    assert_eq!(found(&["--since", "1h"]), [scoped, tagged]);
    assert_eq!(found(&["--until", "1h"]), [""; 0]);
    assert_eq!(found(&["--since", "2020-01-01", "--until", "2020-01-02T00:00:00Z"]), [""; 0]);
    assert_eq!(found(&["--status", "failed"]), [""; 0]);
    assert!(stdout_of(&server, &["runs", "list"]).contains("SCOPE"));
    assert!(stdout_of(&server, &["runs", "list", "--tag", "none"]).starts_with("no runs"));
    for (flag, value) in [("--since", "yesterday"), ("--until", "2026-13-01"), ("--status", "asleep")] {
        assert_fails(&server, &["runs", "list", flag, value], 2, value);
    }
}

#[test]
fn a_parent_shows_its_children_and_the_waiting_one() {
    let server = Server::start();
    let mut parent = gated("parent");
    parent["nodes"] = json!([{"id": "call", "typeId": "core.subWorkflow", "name": "Call", "config": {"workflowId": "sample-approval"}, "inputs": {}}]);
    parent["edges"] = json!([]);
    assert_eq!(server.client.put("/v1/workflows/parent", &parent).status, 201);
    let run = start(&server, &["parent"]);
    let child = format!("{run}.1");
    // The child may start after the response to the parent's start. Its first interrupt ends this wait.
    let mut log = Vec::new();
    while !log.iter().any(|event: &Value| event["type"] == "interrupt.requested") {
        let last = log.last().map_or(json!(-1), |event: &Value| event["sequence"].clone());
        let page = server.client.get(&format!("/v1/runs/{child}/events/poll?lastSequence={last}&timeout=10"));
        log.extend(page.body["events"].as_array().unwrap_or_else(|| panic!("{page:?}")).clone());
    }
    let shown = stdout_of(&server, &["runs", "show", &run]);
    assert!(shown.contains("CHILD") && shown.contains(&format!("{child}  sample-approval  call")), "{shown}");
    assert!(shown.contains(&format!("runs show {child}")), "{shown}");
    assert!(stdout_of(&server, &["runs", "show", &child]).contains(&format!("run {run} at node call")));
    let listed = json_of(&server, &["runs", "list", "--parent", &run]);
    assert_eq!(listed["runs"][0]["runId"], json!(child), "{listed}");
    assert!(stdout_of(&server, &["runs", "list"]).contains("PARENT"));
    stdout_of(&server, &["runs", "cancel", &run]);
    assert_eq!(server.client.status(&child), "cancelled");
}

#[test]
fn artifacts_and_debug_bundles_are_printed() {
    let server = Server::start();
    let mut flow = gated("maker");
    let inputs = json!({"text": {"type": "static", "value": "made"}});
    flow["nodes"] = json!([{"id": "make", "typeId": "core.identity", "name": "Make", "artifactType": "letter", "config": {}, "inputs": inputs}]);
    flow["edges"] = json!([]);
    assert_eq!(server.client.put("/v1/workflows/maker", &flow).status, 201);
    let run = start(&server, &["maker"]);
    let by_node = json_of(&server, &["runs", "artifact", &run, "make"]);
    assert_eq!((&by_node["data"]["text"], &by_node["artifactType"]), (&json!("made"), &json!("letter")));
    let id = format!("{run}:make");
    assert_eq!(json_of(&server, &["runs", "artifact", "latest", &id]), by_node);
    assert!(stdout_of(&server, &["runs", "artifact", &run, &id]).contains("\n  \"artifactId\""));
    assert_fails(&server, &["runs", "artifact", &run, "unknown"], 1, "runs events");
    assert_fails(&server, &["runs", "artifact", &run], 2, "ARTIFACT");
    let (bundle, served) = (
        json_of(&server, &["runs", "bundle", &run]),
        server.client.get(&format!("/v1/runs/{run}/debug-bundle")).body,
    );
    for member in ["run", "events", "spans", "metrics"] {
        assert_eq!(bundle[member], served[member], "{member}");
    }
    assert_fails(&server, &["runs", "bundle", "unknown"], 1, "run not found");
}

#[test]
fn every_stream_mode_is_watched_until_the_run_ends() {
    let server = Server::start();
    let run = start(&server, &["sample-approval"]);
    assert_eq!(server.client.answer(&run, "review", &accept()).status, 200);
    let lines = |words: &[&str]| -> Vec<String> {
        let output = stdout_of(&server, &[&["runs", "watch", &run], words].concat());
        output.lines().map(str::to_owned).collect()
    };
    let (updates, debug) = (lines(&[]), lines(&["--mode", "debug"]));
    assert!(debug.len() > updates.len(), "{debug:?}");
    assert!(updates[0].starts_with("   0  ") && updates[0].contains("run.started"), "{updates:?}");
    assert!(updates.last().unwrap().contains("run.completed"), "{updates:?}");
    assert_eq!(lines(&["--mode", "updates,messages"]), updates);
    let values = lines(&["--mode", "values", "--json"]);
    let last: Value = serde_json::from_str(values.last().unwrap()).unwrap();
    assert_eq!((&last["runId"], &last["status"]), (&json!(run), &json!("completed")));
    assert!(lines(&["--mode", "values"]).last().unwrap().ends_with("completed"));
    assert_eq!(
        lines(&["--mode", "messages"]),
        [""; 0],
        "the run has no messages, and the command ends with the run"
    );
    assert_fails(
        &server,
        &["runs", "watch", &run, "--mode", "everything"],
        1,
        "streamMode must be one or more of",
    );
    assert_fails(
        &server,
        &["runs", "events", &run, "--mode", "everything"],
        1,
        "streamMode must be one or more of",
    );
    let all = json_of(&server, &["runs", "events", &run]);
    assert_eq!(all["events"].as_array().unwrap(), &server.client.events(&run));
    assert_eq!(stdout_of(&server, &["runs", "events", &run]).lines().count(), debug.len());
    let cancelled = start(&server, &["sample-approval"]);
    stdout_of(&server, &["runs", "cancel", &cancelled]);
    for mode in ["updates", "values", "messages"] {
        assert_fails(&server, &["runs", "watch", &cancelled, "--mode", mode], 1, "the run was cancelled");
    }
}

#[test]
fn the_help_of_every_command_with_choices_has_examples() {
    let server = Server::start();
    for words in [
        &["runs"][..],
        &["runs", "start"],
        &["runs", "list"],
        &["runs", "watch"],
        &["runs", "cancel"],
        &["runs", "fork"],
        &["workflows"],
        &["workflows", "check"],
        &["serve"],
    ] {
        let help = stdout_of(&server, &[words, &["--help"]].concat());
        assert!(help.contains("Examples:\n  ") && help.contains("holdpoint "), "{words:?}: {help}");
    }
}
