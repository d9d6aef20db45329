//! Decisions of agents below the confidence threshold: they are recorded and escalated to a person.

use holdpoint_core::{AgentDecision, Completion, Event, InterruptId, InterruptRequest, Kind, Status};
use serde_json::{Value, json};

use crate::story::given;
use crate::vocabulary::*;

fn decision(confidence: Option<f64>) -> AgentDecision {
    AgentDecision { agent: "planner".to_owned(), decision: json!({"go": true}), confidence }
}

fn decided(confidence: Option<f64>, flaw: Option<&str>) -> Event {
    Event::AgentDecided {
        node: node_id("gate"),
        agent: "planner".to_owned(),
        decision: json!({"go": true}),
        confidence,
        flaw: flaw.map(str::to_owned),
        message: None,
    }
}

/// Returns the data of the escalation of a decision in a run with these options.
fn escalation(confidence: Option<f64>, options: Value) -> Option<Value> {
    decision(confidence).escalation(Some(&object(options))).map(|request| request.data)
}

#[test]
fn confidence_below_the_threshold_escalates_and_equal_confidence_does_not() {
    let asked = |observed: f64, threshold: f64| {
        Some(
            json!({"agentId": "planner", "threshold": threshold, "observed": observed, "decision": {"go": true}}),
        )
    };
    assert_eq!(escalation(Some(0.69), json!({})), asked(0.69, 0.7));
    assert_eq!(escalation(Some(0.7), json!({})), None);
    assert_eq!(escalation(Some(0.7), json!({"escalationThreshold": 0.9})), asked(0.7, 0.9));
    assert_eq!(escalation(Some(0.1), json!({"escalationThreshold": 0.1})), None);
    assert_eq!(escalation(Some(0.0), json!({"escalationThreshold": 0})), None);
    assert_eq!(decision(Some(0.5)).escalation(None).map(|request| request.kind), Some(Kind::LowConfidence));
}

#[test]
fn a_missing_or_non_finite_confidence_does_not_escalate() {
    for confidence in [None, Some(f64::NAN), Some(f64::INFINITY), Some(f64::NEG_INFINITY)] {
        assert_eq!(escalation(confidence, json!({})), None, "{confidence:?}");
    }
}

#[test]
fn the_decision_is_recorded_before_its_interrupt() {
    let low = decision(Some(0.25)).escalation(None).expect("too low");
    let low = InterruptRequest { key: Some("k".to_owned()), ..low };
    given([start(), begin("gate")])
        .when(ask("gate", low.clone()))
        .then([decided(Some(0.25), None), requested(1, "gate", low), suspended("gate", 1)])
        .status_is(Status::WaitingApproval)
        .when(answer(1, json!({"go": false})))
        .then([resolved(1, json!({"go": false})), resumed("gate", 1)]);
}

#[test]
fn a_decision_that_does_not_escalate_is_recorded_when_its_node_completes() {
    let complete_with = |confidence| {
        let completion = Completion { decisions: vec![decision(confidence)], ..Completion::default() };
        given([start(), begin("gate")]).when(complete("gate", completion))
    };
    complete_with(Some(0.9)).then([decided(Some(0.9), None), completed("gate")]);
    complete_with(None).then([decided(None, None), completed("gate")]);
    let flaw = "the agent's confidence is not a finite number";
    complete_with(Some(f64::NAN)).then([decided(None, Some(flaw)), completed("gate")]);
}

#[test]
fn the_agent_id_of_a_decision_is_validated() {
    let nameless = AgentDecision { agent: "x".to_owned(), ..decision(None) };
    let completion = Completion { decisions: vec![nameless], ..Completion::default() };
    given([start(), begin("gate")])
        .when(complete("gate", completion))
        .failed_with("invalid_decision", "agentId: ");
    for (field, data) in [
        ("data.agentId: ", json!({"agentId": "x", "threshold": 1, "observed": 0})),
        ("data.threshold: ", json!({"agentId": "planner", "observed": 0})),
        ("data.observed: ", json!({"agentId": "planner", "threshold": 1, "observed": "NaN"})),
    ] {
        let escalation = ask("gate", request(Kind::LowConfidence, data));
        given([start(), begin("gate")]).when(escalation).failed_with("invalid_interrupt", field);
    }
}

#[test]
fn the_escalation_threshold_is_between_zero_and_one() {
    for threshold in [json!(-0.1), json!(1.1), json!("0.5"), json!(null)] {
        given::<Event>([])
            .when(start_configured(json!({"escalationThreshold": threshold})))
            .refused_for("configurable.escalationThreshold");
    }
    given([start_configured(json!({"escalationThreshold": 1}))]).status_is(Status::Running);
}

#[test]
fn a_second_answer_to_a_ratified_decision_is_refused() {
    let low = InterruptRequest {
        key: Some("k".to_owned()),
        ..decision(Some(0.0)).escalation(None).expect("too low")
    };
    let story = given([start(), begin("gate"), ask("gate", low), answer(1, json!(null))]);
    assert_eq!(story.interrupt_of("gate").map(|asked| asked.id), Some(InterruptId(1)));
    story.when(answer(1, json!(null))).refused(holdpoint_core::Refusal::AlreadyResolved);
}
