//! Chunks of a streamed reply: each is recorded once and in order, and bytes stay reserved for the complete reply.

use holdpoint_core::agent::{
    AgentAction, CallPolicy, ChunkContent, Message, ReplyChunk, ReplyRecord, Role, StreamProgress, Usage,
};
use holdpoint_core::{Command, Completion, Event, NodeOutcome, StartRequest, TextChunk, limits};
use serde_json::{Map, Value, json};

use crate::story::{Story, on};
use crate::vocabulary::{begin, finish, node, node_id, object, record, start_request, workflow};

const AGENT: &str = "agent";

fn started_agent() -> Story {
    let message = Message::new("u1", Role::User, "please");
    let start = StartRequest {
        messages: Some(Box::new((node_id(AGENT), vec![message]))),
        ..start_request(json!({}))
    };
    on(workflow([node(AGENT)], [])).given([Command::Start(Box::new(start)), begin(AGENT)])
}

fn reply_chunk(attempt: u32, index: u32, text: &str) -> ReplyChunk {
    let content = ChunkContent::Text { text: text.to_owned(), end: None };
    ReplyChunk { message: "reply-1".to_owned(), attempt, index, content }
}

fn last(reply_chunk: ReplyChunk) -> ReplyChunk {
    let end = Some(object(json!({ "finishReason": "stop" })));
    let content = ChunkContent::Text { text: reply_chunk.content.text().to_owned(), end };
    ReplyChunk { content, ..reply_chunk }
}

fn act(acts: impl Into<Vec<AgentAction>>) -> Command {
    Command::Act { node: node_id(AGENT), actions: acts.into() }
}

fn stream(reply_chunk: ReplyChunk) -> Command {
    act([AgentAction::Stream(Box::new(reply_chunk))])
}

fn reply(text: &str) -> AgentAction {
    let message = Message::new("reply-1", Role::Assistant, text);
    let (policies, usage): (Vec<CallPolicy>, _) = (Vec::new(), Usage::default());
    AgentAction::Reply(Box::new(ReplyRecord {
        message,
        policies,
        usage,
        model: "m".to_owned(),
        seen: 1,
        took_ms: None,
    }))
}

fn chunk(text: &str, last: bool, meta: Value) -> Event {
    Event::MessageChunk { node: node_id(AGENT), chunk: text.to_owned(), last, meta: object(meta) }
}

fn progress(story: &Story) -> Option<StreamProgress> {
    story.run().node_state(&node_id(AGENT)).expect("the node").streamed
}

#[test]
fn chunks_name_their_message_and_the_reply_ends_the_stream() {
    let story = started_agent().when(stream(reply_chunk(1, 0, "Hel")));
    let story = story.then([chunk("Hel", false, json!({"messageId": "reply-1", "attempt": 1, "index": 0}))]);
    assert_eq!(progress(&story), Some(StreamProgress { attempt: 1, chunks: 1 }));
    let story = story
        .when(act([AgentAction::Stream(Box::new(last(reply_chunk(1, 1, "lo")))), reply("Hello")]))
        .accepted();
    assert_eq!(progress(&story), None, "a complete reply ends the stream");
}

#[test]
fn a_chunk_that_was_recorded_before_is_not_recorded_again() {
    let story = started_agent().given([stream(reply_chunk(1, 0, "Hel")), stream(reply_chunk(1, 1, "lo"))]);
    let story = story.when(stream(reply_chunk(1, 1, "lo"))).then([]);
    let story = story.when(stream(reply_chunk(2, 0, "Hi"))).accepted();
    assert_eq!(progress(&story), Some(StreamProgress { attempt: 2, chunks: 1 }));
    let story = story.when(stream(reply_chunk(1, 2, "!"))).then([]);
    assert_eq!(
        progress(&story),
        Some(StreamProgress { attempt: 2, chunks: 1 }),
        "a chunk of an older attempt is ignored"
    );
}

#[test]
fn the_run_keeps_only_the_progress_of_a_stream() {
    let before = started_agent();
    let after = started_agent().given([stream(reply_chunk(1, 0, "Hel")), stream(reply_chunk(2, 0, "Hi"))]);
    let (bytes, mut run) = (after.run().bytes - before.run().bytes, after.run().clone());
    assert!(bytes > "Hel".len() + "Hi".len(), "chunks in the log count toward the size of the run: {bytes}");
    (run.bytes, run.seq) = (before.run().bytes, before.run().seq);
    run.nodes[0].streamed = None;
    assert_eq!(&run, before.run());
}

#[test]
fn chunks_never_use_the_bytes_reserved_for_the_reply() {
    let large = "x".repeat(limits::STEP_RESULT_BYTES_MAX - 2);
    let mut story = started_agent();
    for step in 0..126 {
        story = story.given([record(AGENT, &format!("step-{step}"), json!(large))]);
    }
    let left = limits::RUN_BYTES_MAX - story.run().bytes;
    assert!(left <= 3 * limits::STEP_RESULT_BYTES_MAX, "{left}");
    let story = story.when(stream(reply_chunk(1, 0, &large))).then([]);
    let story = story.when(stream(reply_chunk(1, 1, "end"))).accepted();
    let words = "y".repeat(limits::STEP_RESULT_BYTES_MAX - 200);
    let story = story
        .when(act([AgentAction::Stream(Box::new(last(reply_chunk(1, 3, &words)))), reply(&words)]))
        .accepted();
    assert_eq!(story.run().nodes[0].agent.as_ref().unwrap().steps, 1, "the reply is recorded");
    let meta = json!({
        "messageId": "reply-1", "attempt": 1, "index": 3, "incomplete": true, "finishReason": "stop",
    });
    started_agent().when(stream(last(reply_chunk(1, 3, "end")))).then([chunk("end", true, meta)]);
}

#[test]
fn chunks_of_a_model_are_external_events_and_chunks_of_a_completion_are_not() {
    assert!(chunk("Hel", false, Value::Object(reply_chunk(1, 0, "").meta())).is_external());
    let completion = Completion {
        chunks: vec![TextChunk { text: "text".to_owned(), meta: Map::new() }],
        ..Completion::default()
    };
    let story = started_agent().when(finish(AGENT, NodeOutcome::Completed(Box::new(completion))));
    let story = story.accepted();
    assert!(!chunk("text", true, json!({})).is_external());
    assert_eq!(progress(&story), None);
}

fn chunk_of(index: u32, content: ChunkContent) -> ReplyChunk {
    ReplyChunk { message: "reply-1".to_owned(), attempt: 1, index, content }
}

fn thought(part: u32, text: &str, last: bool) -> ChunkContent {
    ChunkContent::Reasoning { part, text: text.to_owned(), last }
}

fn arguments(name: Option<&str>, text: &str) -> ChunkContent {
    ChunkContent::Call {
        id: "c1".to_owned(),
        name: name.map(str::to_owned),
        arguments: text.to_owned(),
        last: false,
    }
}

#[test]
fn chunks_of_reasoning_text_and_arguments_are_counted_together() {
    let story = started_agent().given([
        stream(chunk_of(0, thought(0, "Hm", true))),
        stream(reply_chunk(1, 1, "Hel")),
        stream(chunk_of(2, arguments(Some("send"), "{"))),
    ]);
    assert_eq!(progress(&story), Some(StreamProgress { attempt: 1, chunks: 3 }));
    let story = story.when(stream(chunk_of(0, thought(0, "Hm", true)))).then([]);
    let story = story.when(stream(chunk_of(2, arguments(Some("send"), "{")))).then([]);
    let meta = |more: Value| {
        let mut meta = object(json!({"messageId": "reply-1", "attempt": 1}));
        meta.extend(object(more));
        meta
    };
    let event = Event::ToolCallChunk {
        node: node_id(AGENT),
        call: "c1".to_owned(),
        name: None,
        chunk: "}".to_owned(),
        last: false,
        meta: meta(json!({"index": 3})),
    };
    assert!(event.is_external());
    let story = story.when(stream(chunk_of(3, arguments(None, "}")))).then([event]);
    let event = Event::ReasoningChunk {
        node: node_id(AGENT),
        chunk: "so".to_owned(),
        last: false,
        meta: meta(json!({"index": 5, "part": 1, "incomplete": true})),
    };
    let story = story.when(stream(chunk_of(5, thought(1, "so", false)))).then([event]);
    assert_eq!(progress(&story.when(act([reply("Hello")])).accepted()), None);
}

#[test]
fn a_chunk_of_arguments_that_does_not_fit_is_left_out() {
    let large = "x".repeat(limits::STEP_RESULT_BYTES_MAX + 1);
    started_agent().when(stream(chunk_of(0, arguments(None, &large)))).then([]);
    let story = started_agent().when(stream(chunk_of(0, thought(0, &large, true))));
    let meta = json!({"part": 0, "messageId": "reply-1", "attempt": 1, "index": 0, "incomplete": true});
    let (node, meta) = (node_id(AGENT), object(meta));
    let story = story.then([Event::ReasoningChunk { node, chunk: String::new(), last: true, meta }]);
    assert_eq!(progress(&story), Some(StreamProgress { attempt: 1, chunks: 1 }));
}

#[test]
fn a_node_that_is_not_an_agent_streams_each_chunk_once() {
    let story = on(workflow([node("graph")], []))
        .given([Command::Start(Box::new(start_request(json!({})))), begin("graph")]);
    let stream = |chunk: ReplyChunk| Command::Act {
        node: node_id("graph"),
        actions: vec![AgentAction::Stream(Box::new(chunk))],
    };
    let story = story.given([stream(reply_chunk(1, 0, "Hel")), stream(last(reply_chunk(1, 1, "lo")))]);
    let story = story.when(stream(last(reply_chunk(1, 1, "lo")))).then([]);
    let state = story.run().node_state(&node_id("graph")).unwrap();
    assert_eq!(
        (state.streamed, state.agent.is_none()),
        (Some(StreamProgress { attempt: 1, chunks: 2 }), true)
    );
}
