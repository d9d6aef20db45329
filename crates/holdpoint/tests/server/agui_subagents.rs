//! AG-UI with interrupts of child runs: the agent `nested` of the demo calls an agent and a workflow, which calls another
//! workflow. Both branches wait for an approval.

use serde_json::{Value, json};

use crate::agui::{AguiEvents, FrontEnd, approved, cancelled, resolved};
use crate::harness::{Server, accept, client_with_key, linear};
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

/// Returns the sorted ids of the subagents in the events of a kind.
fn ids_of(events: &AguiEvents, kind: &str) -> Vec<String> {
    let found = events.find(kind);
    found.iter().map(|one| one["subagentRunId"].as_str().unwrap().to_owned()).collect()
}

fn started(events: &AguiEvents) -> Vec<String> {
    let mut ids = ids_of(events, "SUBAGENT_STARTED");
    ids.sort();
    ids
}

/// Returns the sorted names of the subagents that a stream starts.
fn names(events: &AguiEvents) -> Vec<String> {
    let found = events.find("SUBAGENT_STARTED");
    let mut names: Vec<_> = found.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// Asserts that each call that an interrupt is bound to is in the messages of the client.
fn assert_calls_are_shown(events: &AguiEvents) {
    let messages = json!(events.messages());
    for one in events.interrupts() {
        match one["toolCallId"].as_str() {
            Some(call) => {
                assert!(messages.to_string().contains(&format!("\"id\":\"{call}\"")), "{one} {messages}");
            }
            None => assert_ne!(one["reason"], "tool_call", "a tool call needs its id: {one}"),
        }
    }
}

/// Registers workflows.
fn register(server: &Server, workflows: impl IntoIterator<Item = Value>) {
    for workflow in workflows {
        let path = format!("/v1/workflows/{}", workflow["id"].as_str().unwrap());
        assert_eq!(server.client.put(&path, &workflow).status, 201);
    }
}

fn calling(id: &str, workflow: &str) -> Value {
    linear(id, &[("call", "core.subWorkflow", json!({"workflowId": workflow}))])
}

fn gate(more: Value) -> Value {
    let mut gate = json!({"title": "Ship it?", "actions": ["accept", "reject"]});
    gate.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    gate
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
    assert_eq!(mail["toolCallId"], agent["parentToolCallId"], "the thread has no call of the child run");
    assert_calls_are_shown(&events);
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
    assert_eq!(names(&second), ["agent:approve", "demo-release", "sample-approval"]);
    let (first, mut ended) = (started(&events), ids_of(&second, "SUBAGENT_FINISHED"));
    assert_eq!(started(&second), first, "the same subagents continue");
    ended.sort();
    assert_eq!(ended, first, "each subagent ends once");
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
    let inner = linear("inner", &[("gate", "core.approvalGate", gate(json!({"approversList": ["carol"]})))]);
    register(&server, [inner, calling("outer", "inner")]);
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

#[test]
fn a_tool_call_of_a_child_run_that_no_call_started_has_a_reason_of_its_own() {
    let server = Server::start_with(&DEMO);
    register(&server, [calling("outer", "agent:approve")]);
    let events = FrontEnd::new(&server.client, "outer", "t1").say("u1", "Send");
    let interrupts = events.interrupts();
    assert_eq!(
        (&interrupts[0]["reason"], interrupts.len()),
        (&json!("holdpoint:tool_call"), 1),
        "{events:?}"
    );
    assert_calls_are_shown(&events);
    let front = FrontEnd::new(&server.client, "outer", "t1");
    front.resume(json!([approved(&events.ids()[0])])).assert_success();
}

#[test]
fn a_vote_at_a_child_run_ends_the_segment_with_its_subagents() {
    let server = Server::start();
    let two = gate(json!({"requiredApprovals": 2, "approversList": ["user:admin", "carol"]}));
    register(
        &server,
        [
            linear("inner", &[("gate", "core.approvalGate", two)]),
            calling("middle", "inner"),
            calling("outer", "middle"),
        ],
    );
    let front = FrontEnd::new(&server.client, "outer", "t1");
    let first = front.say("u1", "Ship");
    assert_eq!(names(&first), ["inner", "middle"]);
    let path = "/ag-ui/outer/threads/t1/stream";
    let joined = AguiEvents::request(&server.client, "GET", path, None);
    let scopes = ["manifest:read", "runs:create", "runs:read", "approvals:respond"];
    let carol = client_with_key(&server.client, &json!({"principal": "carol", "scopes": scopes}));
    let voted = FrontEnd::new(&carol, "outer", "t1").resume(json!([approved(&first.ids()[0])]));
    assert_eq!((joined.ids(), voted.ids()), (first.ids(), first.ids()));
    assert_eq!(started(&voted), started(&first), "{voted:?}");
    assert_eq!(shown_as_suspended(&voted, &voted.interrupts()[0]), 2, "{voted:?}");
}

/// A workflow with branches that run side by side.
fn side_by_side(id: &str, nodes: &[(&str, &str, Value)]) -> Value {
    let mut workflow = linear(id, nodes);
    workflow["edges"] = json!([]);
    workflow
}

#[test]
fn an_interrupt_that_opens_after_the_end_of_a_segment_comes_with_the_next_segment() {
    let server = Server::start();
    let inner = linear("inner", &[("gate", "core.approvalGate", gate(json!({})))]);
    let mut outer = linear(
        "outer",
        &[
            ("pause", "core.delay", json!({"ms": 500})),
            ("own", "core.approvalGate", gate(json!({}))),
            ("call", "core.subWorkflow", json!({"workflowId": "inner"})),
        ],
    );
    outer["edges"].as_array_mut().unwrap().truncate(1);
    register(&server, [inner, outer]);
    let front = FrontEnd::new(&server.client, "outer", "t1");
    let first = front.say("u1", "Ship").ids();
    assert_eq!(first.len(), 1, "the segment ends while the other branch sleeps");
    let open = || server.client.get("/v1/interrupts").body["interrupts"].as_array().unwrap().len();
    let run = first[0].split('.').next().unwrap().to_owned();
    server.client.wait_for_event(&run, |_| open() == 2);
    let next = front.resume(json!([approved(&first[0])]));
    assert_eq!((next.ids().len(), next.ids() == first), (1, false), "{next:?}");
    front.resume(json!([approved(&next.ids()[0])])).assert_success();
}

#[test]
fn interrupts_that_were_shown_together_are_answered_together() {
    let server = Server::start();
    let inner = linear("inner", &[("gate", "core.approvalGate", gate(json!({})))]);
    let call = |id| (id, "core.subWorkflow", json!({"workflowId": "inner"}));
    register(&server, [inner, side_by_side("outer", &[call("left"), call("right")])]);
    let front = FrontEnd::new(&server.client, "outer", "t1");
    let ids = front.say("u1", "Ship").ids();
    assert_eq!(ids.len(), 2);
    for one in &ids {
        front.resume(json!([approved(one)])).assert_refused("PARTIAL_RESUME");
    }
    let both: Vec<_> = ids.iter().map(|one| approved(one)).collect();
    front.resume(json!(both)).assert_success();
}
