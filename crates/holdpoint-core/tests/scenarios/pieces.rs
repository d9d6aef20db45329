//! What a model says while it still speaks: told once, in order, and never at the cost of the reply.

use holdpoint_core::agent::{Act, Gate, Message, Piece, Reply, Role, Told, Usage};
use holdpoint_core::{Chunk, Command, Completion, Event, Outcome, Start, limits};
use serde_json::{Map, Value, json};

use crate::story::{Story, on};
use crate::words::{begin, finish, node, node_id, object, record, start_of, workflow};

const AGENT: &str = "agent";

fn at_work() -> Story {
    let message = Message::new("u1", Role::User, "please");
    let start = Start { messages: Some(Box::new((node_id(AGENT), vec![message]))), ..start_of(json!({})) };
    on(workflow([node(AGENT)], [])).given([Command::Start(Box::new(start)), begin(AGENT)])
}

fn piece(attempt: u32, index: u32, text: &str) -> Piece {
    Piece { message: "reply-1".to_owned(), attempt, index, text: text.to_owned(), end: None }
}

fn last(piece: Piece) -> Piece {
    Piece { end: Some(object(json!({ "finishReason": "stop" }))), ..piece }
}

fn act(acts: impl Into<Vec<Act>>) -> Command {
    Command::Act { node: node_id(AGENT), acts: acts.into() }
}

fn tell(piece: Piece) -> Command {
    act([Act::Tell(Box::new(piece))])
}

fn reply(text: &str) -> Act {
    let message = Message::new("reply-1", Role::Assistant, text);
    let (gates, usage): (Vec<Gate>, _) = (Vec::new(), Usage::default());
    Act::Reply(Box::new(Reply { message, gates, usage, model: "m".to_owned(), seen: 1, took_ms: None }))
}

fn chunk(text: &str, last: bool, meta: Value) -> Event {
    Event::MessageChunk { node: node_id(AGENT), chunk: text.to_owned(), last, meta: object(meta) }
}

fn told(story: &Story) -> Option<Told> {
    story.run().node_state(&node_id(AGENT)).and_then(|state| state.agent.as_ref()).expect("an agent").told
}

#[test]
fn pieces_say_which_message_they_belong_to_and_the_reply_closes_them() {
    let story = at_work().when(tell(piece(1, 0, "Hel")));
    let story = story.then([chunk("Hel", false, json!({"messageId": "reply-1", "attempt": 1, "index": 0}))]);
    assert_eq!(told(&story), Some(Told { attempt: 1, pieces: 1 }));
    let story = story.when(act([Act::Tell(Box::new(last(piece(1, 1, "lo")))), reply("Hello")])).accepted();
    assert_eq!(told(&story), None, "what is complete is a message, and its pieces are forgotten");
}

#[test]
fn a_piece_that_was_written_though_nobody_could_say_so_is_not_written_again() {
    let story = at_work().given([tell(piece(1, 0, "Hel")), tell(piece(1, 1, "lo"))]);
    let story = story.when(tell(piece(1, 1, "lo"))).then([]);
    let story = story.when(tell(piece(2, 0, "Hi"))).accepted();
    assert_eq!(told(&story), Some(Told { attempt: 2, pieces: 1 }));
    let story = story.when(tell(piece(1, 2, "!"))).then([]);
    assert_eq!(told(&story), Some(Told { attempt: 2, pieces: 1 }), "what is void stays so");
}

#[test]
fn of_what_was_said_the_run_keeps_nothing_but_how_far_it_came() {
    let before = at_work();
    let after = at_work().given([tell(piece(1, 0, "Hel")), tell(piece(2, 0, "Hi"))]);
    let (weighed, mut run) = (after.run().bytes - before.run().bytes, after.run().clone());
    assert!(weighed > "Hel".len() + "Hi".len(), "it is in the log, and counts: {weighed}");
    (run.bytes, run.seq) = (before.run().bytes, before.run().seq);
    let state = run.nodes[0].agent.as_mut().unwrap();
    std::sync::Arc::make_mut(state).told = None;
    assert_eq!(&run, before.run());
}

#[test]
fn pieces_never_take_the_room_that_the_reply_needs() {
    let large = "x".repeat(limits::STEP_RESULT_BYTES_MAX - 2);
    let mut story = at_work();
    for step in 0..126 {
        story = story.given([record(AGENT, &format!("step-{step}"), json!(large))]);
    }
    let left = limits::RUN_BYTES_MAX - story.run().bytes;
    assert!(left <= 3 * limits::STEP_RESULT_BYTES_MAX, "{left}");
    let story = story.when(tell(piece(1, 0, &large))).then([]);
    let story = story.when(tell(piece(1, 1, "end"))).accepted();
    let words = "y".repeat(limits::STEP_RESULT_BYTES_MAX - 200);
    let story = story.when(act([Act::Tell(Box::new(last(piece(1, 3, &words)))), reply(&words)])).accepted();
    assert_eq!(story.run().nodes[0].agent.as_ref().unwrap().steps, 1, "the reply itself has its room");
    let meta = json!({
        "messageId": "reply-1", "attempt": 1, "index": 3, "incomplete": true, "finishReason": "stop",
    });
    at_work().when(tell(last(piece(1, 3, "end")))).then([chunk("end", true, meta)]);
}

#[test]
fn what_an_agent_was_told_by_its_model_is_a_fact_and_what_a_node_says_by_itself_is_none() {
    assert!(chunk("Hel", false, Value::Object(piece(1, 0, "").meta())).is_fact());
    let completion = Completion {
        chunks: vec![Chunk { text: "said".to_owned(), meta: Map::new() }],
        ..Completion::default()
    };
    let story = at_work().when(finish(AGENT, Outcome::Completed(Box::new(completion))));
    let story = story.accepted();
    assert!(!chunk("said", true, json!({})).is_fact());
    assert_eq!(told(&story), None);
}
