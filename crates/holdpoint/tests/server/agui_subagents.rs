//! AG-UI with interrupts of child runs: the agent `nested` of the demo calls an agent and a workflow, which calls another
//! workflow. Both branches wait for an approval.

use std::path::Path;

use serde_json::{Value, json};

use crate::agui::{AguiEvents, FrontEnd, approved, cancelled, resolved};
use crate::harness::{Server, accept, linear};
use crate::test_database::{TestDatabase, on_both};

on_both!(
    a_front_end_resumes_nested_interrupts_after_kill_9,
    an_answer_elsewhere_leaves_only_the_other_nested_interrupt,
);

const DEMO: [&str; 1] = ["--demo"];

fn front(server: &Server) -> FrontEnd {
    FrontEnd::new(&server.client, "nested", "t1")
}

/// Starts the family and returns the stream with the interrupts of both branches.
fn start(server: &Server) -> AguiEvents {
    let events = front(server).say("u1", "Release");
    assert_eq!(events.interrupts().len(), 2, "{events:?}");
    events
}

/// Returns the interrupt with this reason.
fn with_reason(events: &AguiEvents, reason: &str) -> Value {
    let interrupts = events.interrupts();
    interrupts.iter().find(|one| one["reason"] == reason).unwrap_or_else(|| panic!("{interrupts:?}")).clone()
}

fn id(interrupt: &Value) -> String {
    interrupt["id"].as_str().unwrap().to_owned()
}

/// Returns the subagents of a stream by name: their ids.
fn subagent(events: &AguiEvents, name: &str) -> Value {
    let started = events.find("SUBAGENT_STARTED");
    (*started.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("no {name}: {events:?}")))
        .clone()
}

fn shown_as_suspended(events: &AguiEvents, interrupt: &Value) -> usize {
    let ends = events.find("SUBAGENT_FINISHED");
    let has_id = |one: &&&Value| {
        let ids = one["outcome"]["interruptIds"].as_array();
        one["outcome"]["type"] == "suspended" && ids.is_some_and(|ids| ids.contains(&interrupt["id"]))
    };
    ends.iter().filter(has_id).count()
}

#[test]
fn interrupts_of_subagents_end_the_segment_with_their_subagents_suspended() {
    let server = Server::start_with(&DEMO);
    let events = start(&server);
    let (mail, release) = (with_reason(&events, "tool_call"), with_reason(&events, "confirmation"));
    let (agent, workflow) = (subagent(&events, "agent:approve"), subagent(&events, "demo-release"));
    let below = subagent(&events, "sample-approval");
    assert_eq!(events.find("SUBAGENT_STARTED").len(), 3, "{events:?}");
    let calls: Vec<_> = events.find("TOOL_CALL_START").iter().map(|one| one["toolCallId"].clone()).collect();
    assert_eq!([&agent["parentToolCallId"], &workflow["parentToolCallId"]], [&calls[0], &calls[1]]);
    assert_eq!(below["parentSubagentRunId"], workflow["subagentRunId"]);
    assert_eq!(mail["subagentRunId"], agent["subagentRunId"]);
    assert_eq!(release["subagentRunId"], below["subagentRunId"]);
    assert_eq!(shown_as_suspended(&events, &mail), 1, "{events:?}");
    assert_eq!(
        shown_as_suspended(&events, &release),
        2,
        "the workflow and the workflow below it: {events:?}"
    );
    let shown = front(&server).thread();
    assert_eq!((&shown["interrupts"], &shown["running"]), (&json!(events.interrupts()), &json!(false)));
    let path = "/ag-ui/nested/threads/t1/stream";
    let joined = AguiEvents::request(&server.client, "GET", path, None);
    assert_eq!(joined.interrupts(), events.interrupts(), "a page that was reloaded gets the same interrupts");
}

#[test]
fn one_resume_answers_all_nested_interrupts_and_the_run_completes() {
    let server = Server::start_with(&DEMO);
    let events = start(&server);
    let [mail, release] = ["tool_call", "confirmation"].map(|reason| id(&with_reason(&events, reason)));
    let front = front(&server);
    front.say("u2", "Hurry").assert_refused("PENDING_INTERRUPTS");
    let pending = server.client.get("/v1/interrupts").body;
    let newest = pending["interrupts"][1]["interruptId"].as_str().unwrap().to_owned();
    let entry = if newest == mail { approved(&mail) } else { resolved(&release, json!(true)) };
    front.resume(json!([entry])).assert_refused("PARTIAL_RESUME");
    let bad = json!([approved(&mail), resolved(&release, json!("maybe"))]);
    front.resume(bad).assert_refused("INVALID_PAYLOAD");
    assert_eq!(front.thread()["interrupts"].as_array().unwrap().len(), 2, "a refused array changes nothing");
    let both = json!([resolved(&release, json!(true)), approved(&mail)]);
    let second = front.resume(both.clone());
    second.assert_success();
    assert_eq!(second.find("TOOL_CALL_RESULT").len(), 2, "{second:?}");
    let results = json!(second.find("TOOL_CALL_RESULT")).to_string();
    assert!(results.contains("token") && results.contains("sent"), "the mail was sent once: {results}");
    for end in second.find("SUBAGENT_FINISHED") {
        assert_ne!(end["outcome"]["type"], "suspended", "{second:?}");
    }
    front.resume(both).assert_success();
    front.resume(json!([cancelled(&release), approved(&mail)])).assert_refused("ALREADY_ANSWERED");
}

#[test]
fn a_rejected_nested_interrupt_reaches_the_agent_as_the_result_of_its_call() {
    let server = Server::start_with(&DEMO);
    let events = start(&server);
    let [mail, release] = ["tool_call", "confirmation"].map(|reason| id(&with_reason(&events, reason)));
    let second = front(&server).resume(json!([cancelled(&mail), resolved(&release, json!(false))]));
    second.assert_success();
    let results = second.find("TOOL_CALL_RESULT");
    assert!(json!(results).to_string().contains("approval_rejected"), "{results:?}");
    assert_eq!(second.find("SUBAGENT_ERROR").len(), 1, "the workflow failed: {second:?}");
}

#[test]
fn nested_interrupts_of_another_thread_or_agent_are_unknown() {
    let server = Server::start_with(&DEMO);
    let foreign = start(&server);
    let other = FrontEnd::new(&server.client, "nested", "t2");
    let own = other.say("u1", "Release");
    let mut entries: Vec<Value> = own.ids().iter().map(|one| approved(one)).collect();
    entries.push(approved(&foreign.ids()[0]));
    other.resume(json!(entries)).assert_refused("UNKNOWN_INTERRUPT_ID");
    // The child run of the call belongs to the agent `approve`, but not to a thread of it.
    let direct = FrontEnd::new(&server.client, "approve", "t3");
    direct
        .resume(json!([approved(&id(&with_reason(&foreign, "tool_call")))]))
        .assert_refused("UNKNOWN_INTERRUPT_ID");
    assert_eq!(server.client.get("/v1/interrupts").body["interrupts"].as_array().unwrap().len(), 4);
}

#[test]
fn an_approver_rule_of_a_child_run_holds_for_answers_in_the_thread_of_its_root() {
    let server = Server::start_with(&DEMO);
    let gate = json!({"title": "Ship it?", "actions": ["accept", "reject"], "approversList": ["carol"]});
    let inner = linear("inner", &[("gate", "core.approvalGate", gate)]);
    let outer = linear("outer", &[("call", "core.subWorkflow", json!({"workflowId": "inner"}))]);
    for workflow in [inner, outer] {
        let path = format!("/v1/workflows/{}", workflow["id"].as_str().unwrap());
        assert_eq!(server.client.put(&path, &workflow).status, 201);
    }
    let front = FrontEnd::new(&server.client, "outer", "t1");
    let shown = front.say("u1", "Ship").interrupts();
    front.resume(json!([resolved(&id(&shown[0]), json!(true))])).assert_refused("FORBIDDEN");
    assert_eq!(front.thread()["interrupts"], json!(shown));
}

#[test]
fn clients_before_1_0_get_nested_interrupts_without_events_of_subagents() {
    let server = Server::start_with(&DEMO);
    let input = json!({
        "threadId": "t1", "runId": "r1", "state": {}, "tools": [], "context": [], "forwardedProps": {},
        "messages": [{"id": "u1", "role": "user", "content": "Release"}],
    });
    let events = AguiEvents::request(&server.client, "POST", "/ag-ui/nested", Some(&input));
    assert_eq!(events.ids().len(), 2);
    assert!(events.kinds().iter().all(|kind| !kind.starts_with("SUBAGENT")), "{events:?}");
}

fn a_front_end_resumes_nested_interrupts_after_kill_9(database: &TestDatabase) {
    let mut server = database.start(&DEMO);
    let ids = start(&server).ids();
    server.kill();
    let mut server = database.start(&DEMO);
    let answers: Vec<Value> = ids.iter().map(|one| approved(one)).collect();
    let events = front(&server).resume(json!(answers));
    assert_eq!(events.assert_success().find("TOOL_CALL_RESULT").len(), 2);
    let messages = events.messages();
    server.kill();
    let server = database.start(&DEMO);
    let again = front(&server).resume(json!(answers));
    assert_eq!(again.assert_success().messages(), messages, "the same answers have no second effect");
}

fn an_answer_elsewhere_leaves_only_the_other_nested_interrupt(database: &TestDatabase) {
    let server = database.start(&DEMO);
    let events = start(&server);
    let release = with_reason(&events, "confirmation");
    let run = release["subagentRunId"].as_str().unwrap();
    assert_eq!(server.client.answer(run, "review", &accept()).status, 200);
    let joined = AguiEvents::request(&server.client, "GET", "/ag-ui/nested/threads/t1/stream", None);
    assert_eq!(joined.ids(), [id(&with_reason(&events, "tool_call"))]);
    let end = front(&server).resume(json!([approved(&joined.ids()[0])]));
    let results = end.assert_success().messages().into_iter().filter(|one| one["role"] == "tool").count();
    assert_eq!(results, 2, "the result of the other call is in the messages: {end:?}");
}

/// Replaces the values that differ between two executions: the id of the root, digests and timestamps.
fn normalize(root: &str, text: &str) -> String {
    let text = replace_after("\"timestamp\":", |c| c.is_ascii_digit(), &text.replace(root, "RUN"));
    replace_after("sha256:", |c| c.is_ascii_hexdigit(), &text)
}

/// Replaces the matching characters after each occurrence of a prefix by one letter.
fn replace_after(prefix: &str, matches: fn(char) -> bool, text: &str) -> String {
    let mut parts = text.split(prefix);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |before, part| format!("{before}{prefix}X{}", part.trim_start_matches(matches)))
}

#[test]
fn the_streams_of_a_nested_interrupt_match_the_recorded_transcript() {
    let server = Server::start_with(&DEMO);
    let front = FrontEnd::new(&server.client, "demo-release", "t1");
    let first = front.say("u1", "Release");
    let root =
        first.find("SUBAGENT_STARTED")[0]["subagentRunId"].as_str().unwrap().strip_suffix(".1").unwrap();
    let second = front.resume(json!([resolved(&first.ids()[0], json!(true))]));
    let lines: Vec<String> = first.0.iter().chain(&second.0).map(Value::to_string).collect();
    let text = normalize(root, &(lines.join("\n") + "\n"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/agui/nested.txt");
    if std::env::var_os("WRITE_TRANSCRIPTS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(known, text, "WRITE_TRANSCRIPTS=1 writes the transcript again");
}
