//! Edits of suspended calls, and messages that are queued for a suspended agent.

use holdpoint_core::agent::{
    ARGUMENTS_SCHEMA, AgentAction, AgentStep, ApprovalSettings, Behaviour, CallStatus, ResumePolicy, Ticket,
};
use holdpoint_core::{Command, Refusal, Status};
use serde_json::{Value, json};

use crate::agents::{AGENT, act, agent, call, reply, started_agent, status, two_suspended_calls, user, wait};
use crate::story::Story;
use crate::vocabulary::{accept, answer, cancel, node_id};

/// Returns a story in which a call waits as interrupt 1. Its tool has this schema.
fn suspended_call(schema: &Value, settings: &ApprovalSettings) -> Story {
    let story = started_agent().when(act([reply(1, &[("c1", Behaviour::Ask)])])).accepted();
    let ticket = Ticket::permission("k".into(), call(&story, "c1"), settings).with_schema(schema);
    let story =
        story.when(act([AgentAction::Suspend { call: "c1".into(), ticket: Box::new(ticket) }])).accepted();
    story.when(wait(ResumePolicy::AsDecided)).accepted()
}

fn address() -> Value {
    json!({ "type": "object", "required": ["to"], "properties": { "to": { "type": "string" } } })
}

fn edit(edited: Value) -> Command {
    answer(1, json!({ "action": "edit-accept", "editedArtifactData": edited }))
}

#[test]
fn an_edit_that_violates_the_schema_of_the_tool_is_refused_and_the_interrupt_stays_open() {
    let field = "resumeValue.editedArtifactData.arguments";
    let story = suspended_call(&address(), &ApprovalSettings::default())
        .when(edit(json!({ "arguments": {} })))
        .refused_for(field)
        .when(edit(json!({ "nope": 1 })))
        .refused_for(field)
        .when(edit(json!({ "arguments": { "to": 7 } })))
        .refused_for(&format!("{field}/to"))
        .status_is(Status::WaitingApproval);
    let story = story.when(edit(json!({ "arguments": { "to": "bob" } }))).accepted();
    assert_eq!(status(&story, "c1"), CallStatus::Resuming);
    let with_result = suspended_call(&address(), &ApprovalSettings::default())
        .when(edit(json!({ "result": 7 })))
        .accepted();
    assert_eq!(
        status(&with_result, "c1"),
        CallStatus::Resuming,
        "a result is not checked against the schema of the arguments"
    );
}

#[test]
fn the_schema_is_omitted_if_it_is_invalid_too_large_or_arguments_are_fixed() {
    let shown = |schema: &Value, settings: &ApprovalSettings| {
        let story = suspended_call(schema, settings);
        let asked = story.run().open_interrupts().next().expect("an interrupt");
        asked.data.get(ARGUMENTS_SCHEMA).cloned()
    };
    let open = ApprovalSettings::default();
    assert_eq!(shown(&address(), &open), Some(address()));
    assert_eq!(shown(&json!({ "type": 7 }), &open), None);
    assert_eq!(shown(&json!({ "description": "x".repeat(300_000) }), &open), None);
    assert_eq!(
        shown(&address(), &ApprovalSettings { arguments_fixed: true, ..ApprovalSettings::default() }),
        None
    );
}

fn queue(id: &str) -> Command {
    Command::QueueMessages { node: node_id(AGENT), messages: vec![user(id)] }
}

#[test]
fn a_queued_message_retracts_no_call_and_is_read_after_the_answers() {
    let story = two_suspended_calls(ResumePolicy::AsDecided).when(queue("u2")).accepted();
    assert_eq!(story.run().open_interrupts().count(), 2);
    let story = story.next_is("nothing").when(accept(1)).accepted().when(accept(2)).accepted();
    let AgentStep::Calls(ready) = agent(&story).next_step(ResumePolicy::AsDecided) else {
        panic!("no calls")
    };
    assert_eq!(ready.len(), 2, "the calls come first");
    assert!(agent(&story).has_unseen());
}

#[test]
fn a_message_for_an_agent_that_has_ended_is_refused() {
    let none = Command::QueueMessages { node: node_id(AGENT), messages: Vec::new() };
    started_agent().when(none).refused_for("messages");
    let over = started_agent().when(cancel()).accepted();
    over.when(queue("u2")).refused(Refusal::RunFinished(Status::Cancelled));
}
