//! Edits of calls that wait, and messages that are queued for an agent that waits.

use holdpoint_core::agent::{
    ARGUMENTS_SCHEMA, Act, Asking, Behaviour, CallStatus, Next, ResumePolicy, Ticket,
};
use holdpoint_core::{Command, Refusal, Status};
use serde_json::{Value, json};

use crate::agents::{AGENT, act, agent, at_work, call, reply, status, two_wait, user, wait};
use crate::story::Story;
use crate::words::{accept, answer, cancel, node_id};

/// A call waits as interrupt 1; its tool takes an address.
fn waits_with(schema: &Value, asking: &Asking) -> Story {
    let story = at_work().when(act([reply(1, &[("c1", Behaviour::Ask)])])).accepted();
    let ticket = Ticket::permission("k".into(), call(&story, "c1"), asking).with_schema(schema);
    let story = story.when(act([Act::Suspend { call: "c1".into(), ticket: Box::new(ticket) }])).accepted();
    story.when(wait(ResumePolicy::AsDecided)).accepted()
}

fn address() -> Value {
    json!({ "type": "object", "required": ["to"], "properties": { "to": { "type": "string" } } })
}

fn edit(edited: Value) -> Command {
    answer(1, json!({ "action": "edit-accept", "editedArtifactData": edited }))
}

#[test]
fn an_edit_that_the_tool_does_not_take_is_rejected_and_the_interrupt_stays_open() {
    let field = "resumeValue.editedArtifactData.arguments";
    let story = waits_with(&address(), &Asking::default())
        .when(edit(json!({ "arguments": {} })))
        .refused_for(field)
        .when(edit(json!({ "nope": 1 })))
        .refused_for(field)
        .when(edit(json!({ "arguments": { "to": 7 } })))
        .refused_for(&format!("{field}/to"))
        .status_is(Status::WaitingApproval);
    let story = story.when(edit(json!({ "arguments": { "to": "bob" } }))).accepted();
    assert_eq!(status(&story, "c1"), CallStatus::Resuming);
    let told = waits_with(&address(), &Asking::default()).when(edit(json!({ "result": 7 }))).accepted();
    assert_eq!(status(&told, "c1"), CallStatus::Resuming, "what the call returned is no argument");
}

#[test]
fn the_schema_is_left_out_where_it_cannot_be_used_or_nothing_can_be_edited() {
    let shown = |schema: &Value, asking: &Asking| {
        let story = waits_with(schema, asking);
        let asked = story.run().open_interrupts().next().expect("an interrupt");
        asked.data.get(ARGUMENTS_SCHEMA).cloned()
    };
    let open = Asking::default();
    assert_eq!(shown(&address(), &open), Some(address()));
    assert_eq!(shown(&json!({ "type": 7 }), &open), None);
    assert_eq!(shown(&json!({ "description": "x".repeat(300_000) }), &open), None);
    assert_eq!(shown(&address(), &Asking { as_it_is: true, ..Asking::default() }), None);
}

fn queue(id: &str) -> Command {
    Command::Queue { node: node_id(AGENT), messages: vec![user(id)] }
}

#[test]
fn a_queued_message_takes_nothing_back_and_is_read_behind_the_answers() {
    let story = two_wait(ResumePolicy::AsDecided).when(queue("u2")).accepted();
    assert_eq!(story.run().open_interrupts().count(), 2);
    let story = story.next_is("nothing").when(accept(1)).accepted().when(accept(2)).accepted();
    let Next::Calls(ready) = agent(&story).next(ResumePolicy::AsDecided) else { panic!("no calls") };
    assert_eq!(ready.len(), 2, "the calls come first");
    assert!(agent(&story).has_unseen());
}

#[test]
fn a_message_for_an_agent_that_has_ended_is_rejected() {
    let none = Command::Queue { node: node_id(AGENT), messages: Vec::new() };
    at_work().when(none).refused_for("messages");
    let over = at_work().when(cancel()).accepted();
    over.when(queue("u2")).refused(Refusal::RunFinished(Status::Cancelled));
}
