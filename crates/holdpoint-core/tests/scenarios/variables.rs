//! Results of a completed node: outputs, changed variables, chunks and artifacts.

use holdpoint_core::{Completion, Event, TextChunk, limits};
use serde_json::{Map, Value, json};

use crate::story::{given, on};
use crate::vocabulary::*;

fn setting<const N: usize>(node: &str, variables: [(&str, Value); N]) -> holdpoint_core::Command {
    let variables = variables.map(|(name, value)| (name.to_owned(), value)).into();
    complete(node, Completion { variables, ..Completion::default() })
}

fn changed(name: &str, previous: Option<Value>, next: Value) -> Event {
    Event::VariableChanged { node: node_id("gate"), name: name.to_owned(), previous, next }
}

#[test]
fn a_changed_variable_is_recorded_with_its_previous_value() {
    given([start_with(json!({"x": 1, "n": null, "same": 5})), begin("gate")])
        .when(setting(
            "gate",
            [("x", json!(2)), ("x", json!(3)), ("y", json!(null)), ("n", json!(1)), ("same", json!(5))],
        ))
        .then([
            changed("x", Some(json!(1)), json!(2)),
            changed("x", Some(json!(2)), json!(3)),
            changed("y", None, json!(null)),
            changed("n", None, json!(1)),
            completed("gate"),
        ])
        .variables_are(&json!({"x": 3, "y": null, "n": 1, "same": 5}));
}

#[test]
fn a_declared_variable_keeps_its_type() {
    let variables = [json!({"name": "amount", "type": "number"})];
    on(workflow_with([node("gate")], [], variables))
        .given([start(), begin("gate"), setting("gate", [("amount", json!("much"))])])
        .failed_with("invalid_variable", "variable \"amount\" must be of type number");
}

#[test]
fn outputs_keep_the_declared_types_of_variables() {
    let story = |outputs: Value| {
        let variables = [json!({"name": "amount", "type": "number", "defaultValue": 5})];
        on(workflow_with([node("gate")], [], variables)).given([
            start(),
            begin("gate"),
            done_with("gate", outputs),
        ])
    };
    story(json!({"amount": "much"}))
        .failed_with("invalid_variable", "variable \"amount\" must be of type number");
    story(json!({"amount": 7, "other": "text"})).variables_are(&json!({"amount": 7, "other": "text"}));
    story(json!({"amount": null})).variables_are(&json!({"amount": null}));
}

#[test]
fn outputs_that_are_not_mapped_stay_with_their_node() {
    let outputs = object(json!({"action": "accept", "amount": "much"}));
    let unmapped = vec!["amount".to_owned()];
    let variables = [json!({"name": "amount", "type": "number", "defaultValue": 5})];
    let story = on(workflow_with([node("gate")], [], variables)).given([
        start(),
        begin("gate"),
        complete("gate", Completion { outputs: outputs.clone(), unmapped, ..Completion::default() }),
    ]);
    let state = story.run().node_state(&node_id("gate")).expect("a node").clone();
    assert_eq!(*state.outputs, Value::Object(outputs));
    story.variables_are(&json!({"action": "accept", "amount": 5}));
}

#[test]
fn the_text_of_a_node_is_recorded_in_chunks_and_the_last_one_is_marked() {
    let chunk = |text: &str| TextChunk { text: text.to_owned(), meta: object(json!({"model": "m"})) };
    let message_chunk = |text: &str, last| Event::MessageChunk {
        node: node_id("gate"),
        chunk: text.to_owned(),
        last,
        meta: object(json!({"model": "m"})),
    };
    let completion = Completion { chunks: vec![chunk("Hel"), chunk("lo")], ..Completion::default() };
    given([start(), begin("gate")]).when(complete("gate", completion)).then([
        message_chunk("Hel", false),
        message_chunk("lo", true),
        completed("gate"),
    ]);
}

#[test]
fn the_results_of_a_node_are_limited_in_size() {
    let large = json!("x".repeat(limits::NODE_OUTPUT_BYTES_MAX));
    given([start(), begin("gate"), setting("gate", [("x", large)])]).failed_with(
        "output_too_large",
        "the variables, channels, chunks and decisions of the node are 1048578 bytes",
    );
}

#[test]
fn the_outputs_of_a_node_with_an_artifact_type_are_an_artifact() {
    let flow = workflow(
        [node("start"), with(node("draft"), "artifactType", json!("letter"))],
        [edge("start", "draft"), edge_if("output.again == true", "draft", "draft")],
    );
    let created = |version| Event::ArtifactCreated {
        node: node_id("draft"),
        artifact: "run-1:draft".to_owned(),
        version,
    };
    let drafted = |outputs: Map<String, Value>| Event::NodeCompleted {
        node: node_id("draft"),
        outputs,
        branch: None,
        unmapped: Vec::new(),
    };
    let again = json!({"again": true});
    on(flow)
        .given([start(), begin("start"), done("start"), begin("draft")])
        .when(done_with("draft", again.clone()))
        .then([drafted(object(again)), created(1), loop_turned("draft-draft", 1)])
        .given([begin("draft")])
        .when(done("draft"))
        .then([drafted(Map::new()), created(2), Event::RunCompleted]);
}
