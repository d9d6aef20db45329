//! Starts of runs: inputs, tags, metadata, and one start for each run.

use holdpoint_core::{Command, Refusal, StartRequest, Status, Workflow, limits};
use serde_json::{Value, json};

use crate::story::{given, on};
use crate::vocabulary::*;

fn with_variables(variables: impl Into<Vec<Value>>) -> Workflow {
    workflow_with([node("a")], [], variables)
}

#[test]
fn a_run_starts_once() {
    on(gate_then_after())
        .status_is(Status::Pending)
        .next_is("nothing")
        .when(start())
        .then([started()])
        .status_is(Status::Running)
        .next_is("begin gate")
        .when(start())
        .refused(Refusal::AlreadyStarted);
}

#[test]
fn a_finished_run_is_not_started_again() {
    on(with_variables([]))
        .given([start(), begin("a"), done("a")])
        .when(start())
        .refused(Refusal::AlreadyStarted);
}

#[test]
fn a_run_that_was_cancelled_before_it_began_never_starts() {
    on(with_variables([])).given([cancel()]).when(start()).refused(Refusal::RunFinished(Status::Cancelled));
}

#[test]
fn other_commands_before_the_start_are_refused() {
    let story = on(gate_then_after()).when(begin("gate")).refused(Refusal::NodeNotRunning);
    let story = story.when(done("gate")).refused(Refusal::NodeNotRunning);
    let story = story.when(accept(1)).refused(Refusal::InterruptNotFound);
    let story = story.when(expire(1)).refused(Refusal::InterruptNotFound);
    story.when(wake("gate")).refused(Refusal::NodeNotRunning).status_is(Status::Pending);
}

#[test]
fn inputs_override_defaults() {
    let variables = [
        json!({"name": "currency", "type": "string", "defaultValue": "EUR"}),
        json!({"name": "amount", "type": "number", "defaultValue": 1}),
        json!({"name": "note", "type": "string"}),
    ];
    on(with_variables(variables))
        .when(start_with(json!({"amount": 250, "undeclared": [true]})))
        .then([started_with(json!({"amount": 250, "undeclared": [true]}))])
        .variables_are(&json!({"currency": "EUR", "amount": 250, "undeclared": [true]}));
}

#[test]
fn a_required_input_must_be_given_unless_it_has_a_default() {
    let bare = json!({"name": "amount", "type": "number", "required": true});
    let story = on(with_variables([bare.clone()])).when(start());
    story.refused(Refusal::invalid("inputs.amount", "is required by the workflow"));
    on(with_variables([bare.clone()])).when(start_with(json!({"amount": 0}))).accepted();
    on(with_variables([with(bare, "defaultValue", json!(5))]))
        .when(start())
        .variables_are(&json!({"amount": 5}));
}

#[test]
fn null_is_accepted_for_an_optional_input_and_refused_for_a_required_one() {
    let amount = |required: bool, default: Value| {
        let members = [("type", json!("number")), ("required", json!(required)), ("defaultValue", default)];
        members
            .into_iter()
            .fold(json!({"name": "amount"}), |variable, (name, value)| with(variable, name, value))
    };
    let null = || start_with(json!({"amount": null}));
    on(with_variables([amount(true, json!(5))])).when(null()).refused_for("inputs.amount");
    on(with_variables([amount(true, json!(null))])).when(start()).refused_for("inputs.amount");
    on(with_variables([amount(false, json!(5))])).when(null()).variables_are(&json!({"amount": null}));
}

#[test]
fn an_input_has_the_type_its_variable_declares() {
    let values = [json!("text"), json!(1.5), json!(true), json!({}), json!([])];
    for (right, kind) in ["string", "number", "boolean", "object", "array"].into_iter().enumerate() {
        for (position, value) in values.iter().enumerate() {
            let story = on(with_variables([json!({"name": "x", "type": kind})]))
                .when(start_with(json!({"x": value})));
            if position == right {
                story.accepted();
            } else {
                story.refused(Refusal::invalid("inputs.x", format!("must be of type {kind}")));
            }
        }
    }
}

#[test]
fn a_run_records_all_parameters_of_its_start() {
    let given = StartRequest {
        configurable: object(json!({"model": "small"})),
        tags: vec!["urgent".to_owned()],
        metadata: object(json!({"ticket": 7})),
        ..start_request(json!({"x": 1}))
    };
    let mut expected = started_with(json!({"x": 1}));
    if let holdpoint_core::Event::RunStarted(started) = &mut expected {
        let started = std::sync::Arc::make_mut(started);
        started.configurable = given.configurable.clone();
        started.tags = given.tags.clone();
        started.metadata = given.metadata.clone();
    }
    on(with_variables([])).when(Command::Start(Box::new(given))).then([expected]);
}

#[test]
fn tags_are_limited_in_number_and_length() {
    let tagged = |tags: Vec<String>| {
        on(with_variables([]))
            .when(Command::Start(Box::new(StartRequest { tags, ..start_request(json!({})) })))
    };
    // The limit counts characters, not bytes.
    tagged(vec!["ü".repeat(limits::TAG_CHARS_MAX); limits::TAGS_MAX]).accepted();
    tagged(vec![String::new(); limits::TAGS_MAX + 1]).refused_for("tags");
    tagged(vec!["fine".to_owned(), "x".repeat(limits::TAG_CHARS_MAX + 1)]).refused_for("tags[1]");
}

#[test]
fn metadata_is_limited_in_depth_and_size() {
    let described = |metadata: Value| {
        let metadata = object(metadata);
        on(with_variables([]))
            .when(Command::Start(Box::new(StartRequest { metadata, ..start_request(json!({})) })))
    };
    // The object itself is the first of the four levels; arrays count like objects.
    described(json!({"a": {"b": [{"c": 1}]}})).accepted();
    described(json!({"a": {"b": [{"c": []}]}})).refused_for("metadata");
    let around = r#"{"a":""}"#.len();
    described(json!({"a": "x".repeat(limits::METADATA_BYTES_MAX - around)})).accepted();
    described(json!({"a": "x".repeat(limits::METADATA_BYTES_MAX - around + 1)})).refused_for("metadata");
}

#[test]
fn a_run_whose_nodes_are_all_skipped_completes_at_its_start() {
    let idle = workflow([disabled("a"), node("b")], [edge("a", "b")]);
    let off = holdpoint_core::Event::NodeSkipped { node: node_id("a"), reason: "disabled".to_owned() };
    on(idle)
        .when(start())
        .then([started(), off, skipped("b"), holdpoint_core::Event::RunCompleted])
        .status_is(Status::Completed);
}

#[test]
fn every_status_is_parsed_from_its_own_name() {
    for status in Status::ALL {
        assert_eq!(Status::parse(status.as_str()), Some(status));
    }
    assert_eq!(Status::parse("waiting"), None);
    given([start()]).status_is(Status::Running);
}
