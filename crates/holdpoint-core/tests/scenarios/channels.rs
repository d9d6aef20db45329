//! Channels: reducers, expiry and size of entries, and access of writers and readers.

use holdpoint_core::workflow::InputError;
use holdpoint_core::{ChannelWrite, Completion, Event, Reducer, Status};
use serde_json::{Value, json};

use crate::story::{START_TIME, Story, on};
use crate::vocabulary::*;

/// Returns a started run of four nodes in a line, with these channels.
fn writers(channels: Value) -> Story {
    let names = ["a", "b", "c", "d"];
    let edges = names.windows(2).map(|pair| edge(pair[0], pair[1])).collect::<Vec<_>>();
    on(workflow_with_members(names.map(node), edges, json!({"channels": channels}))).given([start()])
}

fn write(reducer: Reducer, value: Value) -> ChannelWrite {
    ChannelWrite { channel: "log".to_owned(), value, reducer, ttl_ms: None, max_size: None }
}

fn writing(node: &str, write: ChannelWrite) -> holdpoint_core::Command {
    complete(node, Completion { channels: vec![write], ..Completion::default() })
}

/// Returns the value of the channel after these writes, with ten milliseconds before each.
fn after(reducer: Reducer, values: [Value; 3]) -> Value {
    let mut story = writers(json!({}));
    for (node, value) in ["a", "b", "c"].into_iter().zip(values) {
        story = story.later(10).given([begin(node), writing(node, write(reducer, value))]);
    }
    story.run().variables["log"].clone()
}

fn at(ms: i64) -> i64 {
    START_TIME.0 + ms
}

#[test]
fn each_reducer_combines_writes_by_its_rule() {
    use Reducer::{Append, Counter, Feedback, Merge, Message, Replace, Votes};
    assert_eq!(after(Replace, [json!(1), json!(2), json!({"x": 3})]), json!({"x": 3}));
    assert_eq!(
        after(Append, [json!("a"), json!(null), json!([1])]),
        json!([
            {"value": "a", "_ts": at(10)}, {"value": null, "_ts": at(20)}, {"value": [1], "_ts": at(30)},
        ])
    );
    assert_eq!(
        after(Merge, [json!({"a": 1, "b": {"x": 1}}), json!({"b": {"y": 2}}), json!({"c": 3})]),
        json!({"a": 1, "b": {"y": 2}, "c": 3})
    );
    assert_eq!(after(Counter, [json!(5), json!(-2), json!(1)]), json!(4));
    assert_eq!(after(Counter, [json!(i64::MAX), json!(1), json!(0.5)]), json!(i64::MAX as f64));
    let vote = |who: &str, what: &str| json!({"userId": who, "action": what});
    assert_eq!(
        after(Votes, [vote("ada", "accept"), vote("bob", "accept"), vote("ada", "reject")]),
        json!([
            {"userId": "bob", "action": "accept", "_ts": at(20)},
            {"userId": "ada", "action": "reject", "_ts": at(30)},
        ])
    );
    assert_eq!(
        after(Feedback, [json!({"feedback": "no"}), json!("still no"), json!({"feedback": "yes"})]),
        json!([
            {"feedback": "no", "_ts": at(10)}, {"value": "still no", "_ts": at(20)},
            {"feedback": "yes", "_ts": at(30)},
        ])
    );
    let message = |id: &str, text: &str| json!({"messageId": id, "text": text});
    assert_eq!(
        after(Message, [message("1", "hi"), message("2", "ho"), message("1", "again")]),
        json!([message("1", "hi"), message("2", "ho")])
    );
}

#[test]
fn a_write_is_recorded_unchanged_and_before_its_node_completes() {
    writers(json!({})).given([begin("a")]).when(writing("a", write(Reducer::Append, json!("x")))).then([
        Event::ChannelWritten {
            node: node_id("a"),
            channel: "log".to_owned(),
            value: json!("x"),
            reducer: Reducer::Append,
            ttl_ms: None,
            max_size: None,
        },
        completed("a"),
    ]);
}

#[test]
fn old_entries_are_dropped_with_the_next_write() {
    let kept = |value: &str| ChannelWrite { ttl_ms: Some(200), ..write(Reducer::Append, json!(value)) };
    let story = writers(json!({}))
        .given([begin("a"), writing("a", kept("a")), begin("b"), writing("b", kept("b"))])
        .later(200)
        .given([begin("c"), writing("c", kept("c"))]);
    assert_eq!(
        story.run().variables["log"].as_array().map(Vec::len),
        Some(3),
        "entries of exactly the maximum age stay"
    );
    let story = story.later(201).given([begin("d"), writing("d", kept("d"))]);
    assert_eq!(story.run().variables["log"], json!([{"value": "d", "_ts": at(401)}]));
}

#[test]
fn the_oldest_entries_are_dropped_above_the_maximum_size() {
    let mut story = writers(json!({"log": {"reducer": "append", "maxSize": 2}}));
    for node in ["a", "b", "c"] {
        story = story.given([begin(node), writing(node, write(Reducer::Append, json!(node)))]);
    }
    let values: Vec<&Value> =
        story.run().variables["log"].as_array().expect("a list").iter().map(|e| &e["value"]).collect();
    assert_eq!(values, [&json!("b"), &json!("c")]);
}

#[test]
fn a_declared_channel_begins_with_its_default_and_is_listed() {
    let story =
        writers(json!({"log": {"reducer": "counter", "default": 40}, "empty": {"reducer": "append"}}))
            .given([begin("a"), writing("a", write(Reducer::Counter, json!(2)))]);
    assert_eq!(story.run().variables["log"], json!(42));
    assert_eq!(Value::Object(story.run().channel_states()), json!({"log": 42}));
}

#[test]
fn an_invalid_write_fails_the_node() {
    for (reducer, value) in [
        (Reducer::Merge, json!(1)),
        (Reducer::Counter, json!("1")),
        (Reducer::Votes, json!({"action": "accept"})),
        (Reducer::Message, json!({"text": "hi"})),
    ] {
        writers(json!({}))
            .given([begin("a"), writing("a", write(reducer, value))])
            .failed_with("invalid_channel_write", "channel \"log\": ");
    }
    let declared = json!({"log": {"reducer": "append", "schema": {"type": "object", "required": ["x"]}}});
    writers(declared.clone())
        .given([begin("a"), writing("a", write(Reducer::Append, json!({"y": 1})))])
        .failed_with("invalid_channel_write", "channel \"log\": ");
    writers(declared)
        .given([begin("a"), writing("a", write(Reducer::Append, json!({"x": 1})))])
        .status_is(Status::Running);
}

#[test]
fn only_listed_writers_may_write_to_a_channel() {
    let access = |writers: Value| json!({"log": {"reducer": "append", "access": writers}});
    let written = |channels: Value| {
        writers(channels).given([begin("a"), writing("a", write(Reducer::Append, json!(1)))])
    };
    for open in
        [json!("public"), json!({"writers": ["a"]}), json!({"writers": ["core.*"]}), json!({"readers": []})]
    {
        written(access(open)).status_is(Status::Running);
    }
    for shut in [json!("private"), json!({"writers": []}), json!({"writers": ["b", "vendor.*"]})] {
        written(access(shut))
            .failed_with("channel_access_denied", "node a may not write to the channel \"log\"");
    }
}

#[test]
fn only_listed_readers_may_read_a_channel() {
    let ports = json!({
        "direct": {"type": "variable", "variableName": "log", "optional": true},
        "computed": {"type": "expression", "expression": "log"},
    });
    let reading = |readers: Value| {
        let channels = json!({"log": {"reducer": "counter", "default": 7, "access": {"readers": readers}}});
        let node = with(node("a"), "inputs", ports.clone());
        on(workflow_with_members([node], [], json!({"channels": channels}))).given([start(), begin("a")])
    };
    let allowed = reading(json!(["a"]));
    assert_eq!(allowed.inputs_of("a"), Ok(object(json!({"direct": 7, "computed": 7}))));
    let denied = reading(json!([]));
    let why = "node a may not read the channel \"log\"".to_owned();
    let expected = InputError { port: "direct".to_owned(), code: "channel_access_denied", why };
    assert_eq!(denied.inputs_of("a"), Err(expected));
    let variables = denied.run().variables_of(&denied.run().workflow.nodes[0]);
    assert_eq!(variables.get("log"), None, "an expression cannot read the channel");
}

#[test]
fn only_a_channel_write_changes_a_channel() {
    let channels = json!({"log": {"reducer": "append"}});
    writers(channels.clone())
        .given([begin("a"), done_with("a", json!({"log": 1}))])
        .failed_with("invalid_variable", "\"log\" is a channel");
    let set = Completion { variables: vec![("log".to_owned(), json!(1))], ..Completion::default() };
    writers(channels.clone())
        .given([begin("a"), complete("a", set)])
        .failed_with("invalid_variable", "\"log\" is a channel");
    on(workflow_with_members([node("a")], [], json!({"channels": channels})))
        .when(start_with(json!({"log": 1})))
        .refused_for("inputs.log");
}

#[test]
fn a_condition_reads_a_channel_after_the_write() {
    let flow = workflow([node("a"), node("b")], [edge_if("log == 3", "a", "b")]);
    on(flow).given([start(), begin("a"), writing("a", write(Reducer::Counter, json!(3)))]).next_is("begin b");
}
