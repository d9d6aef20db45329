//! Reports of a provider about the agent that it executes: they are recorded once, none is refused, and they do not
//! decide when the node completes.

use holdpoint_core::agent::{
    Agent, AgentAction, CallRequest, CallStatus, ChunkContent, Message, ProviderReply, ProviderReport,
    ReplyChunk, Role, StreamProgress, Usage,
};
use holdpoint_core::{Command, Event, NodeOutcome, Refusal, limits};
use serde_json::json;

use crate::story::{Story, on};
use crate::vocabulary::{begin, finish, node, node_id, start, workflow};

const GRAPH: &str = "graph";

fn started_graph() -> Story {
    on(workflow([node(GRAPH)], [])).given([start(), begin(GRAPH)])
}

fn act(actions: impl Into<Vec<AgentAction>>) -> Command {
    Command::Act { node: node_id(GRAPH), actions: actions.into() }
}

fn report(report: ProviderReport) -> AgentAction {
    AgentAction::ReportFromProvider(Box::new(report))
}

fn reply(id: &str, text: &str, calls: &[&str]) -> AgentAction {
    let mut message = Message::new(id, Role::Assistant, text);
    let call = |id: &&str| CallRequest { id: (*id).to_owned(), name: "send".into(), arguments: json!({}) };
    message.calls = calls.iter().map(call).collect();
    let usage = Usage { input_tokens: 3, output_tokens: 2, ..Usage::default() };
    report(ProviderReport::Reply(Box::new(ProviderReply { message, usage, model: "m".into() })))
}

fn result(call: &str) -> AgentAction {
    let (call, status, content) = (call.to_owned(), CallStatus::Succeeded, json!("sent"));
    report(ProviderReport::Result { call, status, content })
}

fn chunk(message: &str, attempt: u32, index: u32) -> AgentAction {
    let content = ChunkContent::Text { text: "x".to_owned(), end: None };
    AgentAction::Stream(Box::new(ReplyChunk { message: message.to_owned(), attempt, index, content }))
}

fn agent(story: &Story) -> &Agent {
    let state = story.run().node_state(&node_id(GRAPH)).expect("the node");
    state.agent.as_deref().expect("the reports")
}

fn names(story: &Story, from: usize) -> Vec<&'static str> {
    story.log()[from..].iter().map(|(_, event)| event.name()).collect()
}

#[test]
fn a_report_is_recorded_once() {
    let story = started_graph().when(act([reply("m1", "I will.", &["c1"]), result("c1")])).accepted();
    let known = story.log().len();
    assert_eq!(
        names(&story, known - 3),
        ["holdpoint.model.replied", "agent.toolCalled", "agent.toolReturned"]
    );
    let again = story.when(act([reply("m1", "I will.", &["c1"]), result("c1")])).accepted();
    assert_eq!(again.log().len(), known);
    assert_eq!((agent(&again).messages.len(), agent(&again).usage.total()), (2, 5));
}

#[test]
fn a_report_that_does_not_fit_is_ignored() {
    let story = started_graph();
    let known = story.log().len();
    let large = "x".repeat(limits::STEP_RESULT_BYTES_MAX);
    let story = story.when(act([reply("m1", &large, &[]), result("unknown")])).accepted();
    assert_eq!(story.log().len(), known);
}

#[test]
fn a_call_that_another_message_requested_is_not_requested_again() {
    let story =
        started_graph().when(act([reply("m1", "", &["c1", "c1"]), reply("m2", "", &["c1"])])).accepted();
    assert_eq!(agent(&story).calls.len(), 1);
    let calls: Vec<usize> = agent(&story).messages.iter().map(|message| message.calls.len()).collect();
    assert_eq!(calls, [1, 0]);
}

#[test]
fn a_node_completes_although_a_reported_call_has_no_result() {
    let done = finish(GRAPH, NodeOutcome::Completed(Box::default()));
    let story =
        started_graph().given([act([reply("m1", "", &["c1", "c2"]), result("c2")])]).when(done).accepted();
    assert!(story.run().finished());
}

#[test]
fn a_provider_accepts_no_messages_of_the_run() {
    let story = started_graph().given([act([reply("m1", "Hello", &[])])]);
    let messages = vec![Message::new("u1", Role::User, "and now?")];
    story.when(Command::SendMessages { node: node_id(GRAPH), messages }).refused(Refusal::NodeNotRunning);
}

#[test]
fn chunks_of_several_messages_are_counted_together() {
    let story = started_graph().given([
        act([chunk("m1", 1, 0)]),
        act([chunk("m2", 1, 1)]),
        act([reply("m1", "x", &[])]),
    ]);
    let state = story.run().node_state(&node_id(GRAPH)).expect("the node");
    assert_eq!(state.streamed, Some(StreamProgress { attempt: 1, chunks: 2 }));
    let known = story.log().len();
    let story = story.when(act([chunk("m2", 1, 1), chunk("m2", 1, 2), chunk("m2", 2, 0)])).accepted();
    let attempts: Vec<_> = story.log()[known..]
        .iter()
        .map(|(_, event)| match event {
            Event::MessageChunk { meta, .. } => (meta["attempt"].clone(), meta["index"].clone()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(attempts, [(json!(1), json!(2)), (json!(2), json!(0))], "the repeated chunk is not recorded");
}
