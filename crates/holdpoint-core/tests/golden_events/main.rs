//! The JSON of every event, as it is stored permanently. A changed line of the golden file breaks old logs: add lines,
//! never edit a released one.

use std::collections::BTreeSet;

use holdpoint_core::mailbox::DispatchOptions;
use holdpoint_core::{
    Cap, ChildInterrupt, ChildInterruptChanges, ChildResult, ClosedChildInterrupt, Descendant, Drain, Event,
    Fork, ForkMode, InterruptId, Kind, NodeId, Owner, Parent, Reducer, RunError, RunId, RunParameters,
    Status, TenantId, Timestamp, WorkflowId,
};
use serde_json::{Map, Value, json};

mod agents;
mod answers;
mod credentials;
mod grants;
mod sources;
mod starts;
mod streams;

use starts::{bare_start, full_start};

const GOLDEN: &str = include_str!("../golden/events.jsonl");

#[test]
fn every_event_is_written_and_read_as_its_golden_line() {
    let lines: Vec<&str> = GOLDEN.lines().collect();
    let written: Vec<String> =
        events().iter().map(|event| serde_json::to_string(event).expect("an event is JSON")).collect();
    assert_eq!(written, lines);
    for (event, line) in std::iter::zip(events(), lines) {
        assert_eq!(serde_json::from_str::<Event>(line).expect("an event"), event, "{line}");
        assert!(line.starts_with(&format!(r#"{{"type":"{}""#, event.name())), "{line}");
    }
}

#[test]
fn every_variant_has_a_golden_line() {
    let written: BTreeSet<String> = events().iter().map(|event| event.name().to_owned()).collect();
    assert_eq!(written, known_types());
    assert_eq!(Event::NAMES.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>(), written);
}

#[test]
fn an_event_of_an_unknown_type_is_not_read() {
    assert!(serde_json::from_str::<Event>(r#"{"type":"run.exploded"}"#).is_err());
}

#[test]
fn unknown_members_of_an_event_are_ignored() {
    let newer = r#"{"type":"node.started","node":"a","attempt":2}"#;
    assert_eq!(
        serde_json::from_str::<Event>(newer).expect("an event"),
        Event::NodeStarted { node: node("a"), uses: vec![] }
    );
}

/// Returns every event type that can be read. The error for an unknown type lists them between backquotes.
fn known_types() -> BTreeSet<String> {
    let error =
        serde_json::from_str::<Event>(r#"{"type":"?"}"#).expect_err("no event is called ?").to_string();
    let quoted = error.split('`').skip(1).step_by(2).map(str::to_owned);
    quoted.filter(|word| word != "?").collect()
}

/// Returns one event for each golden line: every variant, and every form of variants with optional members.
fn events() -> Vec<Event> {
    let mut events = vec![
        Event::RunStarted(std::sync::Arc::new(bare_start())),
        Event::RunStarted(std::sync::Arc::new(full_start())),
    ];
    events.extend(node_events());
    events.extend(interrupt_events());
    events.extend([
        Event::StepRecorded {
            node: node("a"),
            name: "charge".to_owned(),
            result: json!({"id": 7}),
            took_ms: None,
        },
        Event::SleepStarted { node: node("a"), until: Timestamp(1_700_000_000_000) },
        Event::SleepEnded { node: node("a") },
        Event::RunCompleted,
        Event::RunFailed { error: error(), node: None },
        Event::RunFailed { error: error(), node: Some(node("a")) },
        Event::RunCancelled { reason: None, by: "ada".to_owned(), parent: None },
        Event::RunCancelled { reason: Some("too late".to_owned()), by: "ada".to_owned(), parent: None },
    ]);
    events.extend(starts::start_and_end_events());
    events.extend(state_events());
    events.extend(loop_and_cap_events());
    events.extend(child_events());
    events.extend(approver_events());
    events.extend(conversation_and_agent_events());
    events.extend(governed_gate_events());
    events.extend(agents::events());
    events.extend(answers::events());
    events.extend(credentials::events());
    events.extend(grants::events());
    let until = Some(Timestamp(1_700_000_000_000));
    events.extend([
        Event::NodeDelayed { node: node("a"), error: error(), until },
        Event::NodeDelayed { node: node("a"), error: error(), until: None },
    ]);
    events.extend(sources::events());
    events.extend(streams::events());
    events
}

fn approver_events() -> [Event; 7] {
    let (interrupt, by) = (InterruptId(1), || "ada".to_owned());
    [
        Event::InterruptRequested {
            id: interrupt,
            node: node("a"),
            kind: Kind::Custom,
            key: "k".to_owned(),
            data: json!({}).into(),
            resume_schema: None,
            timeout_ms: None,
            digest: Some(holdpoint_core::digest(&json!({}))),
        },
        Event::VoteCast {
            interrupt,
            value: json!({"action": "accept"}),
            by: by(),
            decision: None,
            via: None,
            copied: false,
            client_metadata: serde_json::Map::new(),
        },
        Event::VoteRepeated { interrupt, action: "accept".to_owned(), by: by(), acted_by: None, via: None },
        Event::AskRaised {
            interrupt,
            ask: 1,
            question: "Why?".to_owned(),
            by: by(),
            acted_by: None,
            via: None,
        },
        Event::AskAnswered { interrupt, ask: 1, answer: "So.".to_owned(), by: by() },
        Event::VoteRepeated {
            interrupt,
            action: "accept".to_owned(),
            by: by(),
            acted_by: Some("bob".to_owned()),
            via: None,
        },
        Event::AskRaised {
            interrupt,
            ask: 2,
            question: "Why?".to_owned(),
            by: by(),
            acted_by: Some("bob".to_owned()),
            via: None,
        },
    ]
}

fn governed_gate_events() -> [Event; 4] {
    let (interrupt, action) = (InterruptId(1), "approvals:respond".to_owned());
    let (by, reason) = ("ada".to_owned(), "takes a role".to_owned());
    [
        Event::AuthorizationDecided { interrupt, by, action, allowed: false, reason, via: None },
        Event::ApprovalGranted { interrupt },
        Event::ApprovalRejected { interrupt },
        Event::ApprovalOverridden { interrupt },
    ]
}

fn conversation_and_agent_events() -> [Event; 7] {
    let (interrupt, agent, decision) = (InterruptId(1), || "planner".to_owned(), || json!({"go": true}));
    [
        Event::ConversationOpened { interrupt, name: None },
        Event::ConversationOpened { interrupt, name: Some("chat".to_owned()) },
        Event::ConversationExchanged { interrupt },
        Event::ConversationClosed { interrupt },
        Event::AgentDecided {
            node: node("a"),
            agent: agent(),
            decision: decision(),
            confidence: Some(0.25),
            flaw: None,
            message: None,
        },
        Event::AgentDecided {
            node: node("a"),
            agent: agent(),
            decision: Value::Null,
            confidence: None,
            flaw: Some("the agent's confidence is not a finite number".to_owned()),
            message: None,
        },
        Event::AgentDecided {
            node: node("a"),
            agent: agent(),
            decision: Value::Null,
            confidence: Some(0.5),
            flaw: None,
            message: Some("reply-1".to_owned()),
        },
    ]
}

fn node_events() -> [Event; 7] {
    let interrupt = InterruptId(1);
    [
        Event::NodeStarted { node: node("größe 1"), uses: Vec::new() },
        Event::NodeCompleted { node: node("a"), outputs: Map::new(), branch: None, unmapped: Vec::new() },
        Event::NodeCompleted {
            node: node("a"),
            outputs: object(json!({"x": [1, -2.5, true, null, "é"]})),
            branch: None,
            unmapped: Vec::new(),
        },
        Event::NodeFailed { node: node("a"), error: error() },
        Event::NodeSkipped { node: node("a"), reason: "disabled".to_owned() },
        Event::NodeSuspended { node: node("a"), interrupt, all: false },
        Event::NodeResumed { node: node("a"), interrupt },
    ]
}

fn interrupt_events() -> Vec<Event> {
    let id = InterruptId(1);
    let bare = |kind: Kind| Event::InterruptRequested {
        id,
        node: node("a"),
        kind,
        key: "k".to_owned(),
        data: json!({}).into(),
        resume_schema: None,
        timeout_ms: None,
        digest: None,
    };
    let mut events: Vec<Event> = Kind::ALL.map(bare).into();
    events.extend([
        Event::InterruptRequested {
            id: InterruptId(2),
            node: node("a"),
            kind: Kind::Approval,
            key: "k2".to_owned(),
            data: json!({"title": "Pay?"}).into(),
            resume_schema: Some(json!({"type": "object"}).into()),
            timeout_ms: Some(60_000),
            digest: None,
        },
        Event::ApprovalRequested { interrupt: id },
        Event::ClarificationRequested { interrupt: id },
        Event::InterruptResolved {
            id,
            value: json!({"action": "accept"}),
            by: "ada".to_owned(),
            decision: None,
            via: None,
            copied: false,
            client_metadata: serde_json::Map::new(),
            vote: None,
        },
        Event::InterruptResolved {
            id,
            value: Value::Null,
            by: "ada".to_owned(),
            decision: None,
            via: None,
            copied: false,
            client_metadata: serde_json::Map::new(),
            vote: None,
        },
        Event::InterruptTimedOut { id },
        Event::ApprovalReceived { interrupt: id },
        Event::ClarificationResolved { interrupt: id },
    ]);
    events
}

fn state_events() -> Vec<Event> {
    let written = |reducer| Event::ChannelWritten {
        node: node("a"),
        channel: "events".to_owned(),
        value: json!("x"),
        reducer,
        ttl_ms: None,
        max_size: None,
    };
    let mut events: Vec<Event> = Reducer::ALL.map(written).into();
    let (channel, value) = ("events".to_owned(), json!({"a": 1}));
    let (ttl_ms, max_size, name) = (Some(200), Some(3), "x".to_owned());
    events.extend([
        Event::ChannelWritten { node: node("a"), channel, value, reducer: Reducer::Append, ttl_ms, max_size },
        Event::VariableChanged { node: node("a"), name: name.clone(), previous: None, next: json!(1) },
        Event::VariableChanged { node: node("a"), name, previous: Some(json!(1)), next: Value::Null },
        Event::MessageChunk { node: node("a"), chunk: "Hel".to_owned(), last: false, meta: Map::new() },
        Event::MessageChunk {
            node: node("a"),
            chunk: "lo".to_owned(),
            last: true,
            meta: object(json!({"finishReason": "stop"})),
        },
        Event::ArtifactCreated { node: node("a"), artifact: "r1:a".to_owned(), version: 2 },
    ]);
    events
}

fn loop_and_cap_events() -> Vec<Event> {
    let breached = |cap, node| Event::CapBreached { cap, limit: 5, observed: 6, node };
    let outputs = object(json!({"result": true}));
    let passing = RunError { retryable: true, ..error() };
    vec![
        Event::NodeCompleted {
            node: node("a"),
            outputs,
            branch: Some("true".to_owned()),
            unmapped: Vec::new(),
        },
        Event::NodeRetried { node: node("a"), attempt: 1, delay_ms: 1000, error: passing },
        Event::LoopTurned { edge: "back".to_owned(), iteration: 1 },
        Event::LoopbackLimit { node: node("a"), iterations: 6, limit: 5 },
        breached(Cap::NodeExecutions, Some(node("a"))),
        breached(Cap::RunDuration, None),
        breached(Cap::LoopIterations, Some(node("a"))),
    ]
}

fn child_events() -> Vec<Event> {
    let dispatched = |inputs: Value, wait, cascade| Event::NodeDispatched {
        node: node("a"),
        child: run("r1.1"),
        workflow: flow(),
        inputs: object(inputs),
        wait,
        cascade,
        call: None,
    };
    let ended = |status, result| Event::ChildEnded { child: run("r1.1"), status, result, closed: Vec::new() };
    let outputs = object(json!({"total": 3}));
    vec![
        dispatched(json!({}), true, true),
        dispatched(json!({"amount": 250}), false, false),
        Event::ChildChanged {
            child: run("r1.1"),
            status: Status::WaitingApproval,
            interrupts: ChildInterruptChanges::default(),
        },
        ended(Status::Completed, ChildResult { outputs, error: None }),
        ended(Status::Failed, ChildResult { outputs: Map::new(), error: Some(error()) }),
        ended(Status::Cancelled, ChildResult::default()),
        Event::ChildChanged {
            child: run("r1.1"),
            status: Status::WaitingApproval,
            interrupts: child_interrupts(),
        },
        Event::ChildEnded {
            child: run("r1.1"),
            status: Status::Completed,
            result: ChildResult::default(),
            closed: vec![ClosedChildInterrupt { run: run("r1.1"), id: InterruptId(1), decision: None }],
        },
        Event::RunStarted(std::sync::Arc::new(starts::grandchild_start())),
    ]
}

fn child_interrupts() -> ChildInterruptChanges {
    let open = |below| ChildInterrupt { id: InterruptId(1), node: node("gate"), kind: Kind::Approval, below };
    let step = Descendant { node: node("call"), run: run("r1.1.1"), workflow: flow() };
    let closed =
        ClosedChildInterrupt { run: run("r1.1"), id: InterruptId(2), decision: Some("d".to_owned()) };
    ChildInterruptChanges { opened: vec![open(Vec::new()), open(vec![step])], closed: vec![closed] }
}

fn run(id: &str) -> RunId {
    RunId::parse(id).expect("a run id")
}

fn flow() -> WorkflowId {
    WorkflowId::parse("pay").expect("a workflow id")
}

fn node(id: &str) -> NodeId {
    NodeId::parse(id).expect("a node id")
}

fn error() -> RunError {
    RunError::new("boom", "it broke")
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("not an object: {other}"),
    }
}
