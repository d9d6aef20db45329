//! Property of answers: the variables that an answer of any kind sets depend on the definition alone.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdpoint_core::{
    Answer, Command, Completion, InterruptId, InterruptRequest, Kind, NodeId, NodeOutcome, Owner, Principal,
    Run, RunId, StartRequest, TenantId, Timestamp, Workflow, decide,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Names of variables and of members of answers: members of approvals, members that the host adds, and others.
const NAMES: [&str; 26] = [
    "action",
    "decision",
    "feedback",
    "comment",
    "reason",
    "refineFeedback",
    "editedArtifactData",
    "question",
    "decidedBy",
    "decidedAt",
    "claimedAt",
    "voter",
    "digest",
    "quorum",
    "actedBy",
    "ignored",
    "override",
    "ticket",
    "answers",
    "value",
    "answer",
    "eventPayload",
    "outcomes",
    "payment",
    "amount",
    "_askExchanges:gate",
];

#[derive(Clone, Debug)]
struct Gate {
    request: InterruptRequest,
    required: usize,
    /// The variables that the definition maps.
    mapped: BTreeSet<&'static str>,
}

fn approval(actions: Vec<&'static str>, required: usize, governed: bool, schema: bool) -> Gate {
    let mut mapped = BTreeSet::from(["action", "decidedBy", "decidedAt"]);
    let actions = if governed || actions.is_empty() { vec!["accept", "reject"] } else { actions };
    let edits = |action: &&str| *action == "edit-accept";
    let required = if actions.iter().any(edits) { 1 } else { required };
    let mut data = json!({
        "artifactId": "x", "artifactType": "t", "title": "?", "actions": actions, "requiredApprovals": required,
    });
    if governed {
        data["gateId"] = json!("gate");
        data["requiredRole"] = json!("clerk");
        mapped.insert("decision");
    }
    if required > 1 {
        mapped.insert("quorum");
    }
    if actions.contains(&"edit-accept") {
        mapped.insert("editedArtifactData");
    }
    if actions.contains(&"refine") {
        mapped.insert("refineFeedback");
    }
    let properties = json!({"properties": {"ticket": true, "amount": true, "quorum": true, "ignored": true}});
    let resume_schema = schema.then_some(properties);
    Gate {
        request: InterruptRequest { resume_schema, ..InterruptRequest::new(Kind::Approval, data) },
        required,
        mapped,
    }
}

fn of_kind(kind: Kind, data: Value, output: &'static str) -> Gate {
    Gate { request: InterruptRequest::new(kind, data), required: 1, mapped: BTreeSet::from([output]) }
}

fn gates() -> impl Strategy<Value = Gate> {
    let actions = proptest::sample::subsequence(vec!["accept", "reject", "refine", "edit-accept"], 0..=4);
    let approvals = (actions, 1..=3_usize, any::<bool>(), any::<bool>())
        .prop_map(|(actions, required, governed, schema)| approval(actions, required, governed, schema));
    let confidence = json!({"agentId": "agent", "threshold": 0.7, "observed": 0.1});
    let event = json!({"eventType": "paid", "correlation": {}});
    let questions = json!({"questions": [{"id": "amount", "question": "?"}]});
    prop_oneof![
        6 => approvals,
        1 => Just(of_kind(Kind::Custom, json!({"customKind": "any"}), "value")),
        1 => Just(of_kind(Kind::ExternalEvent, event, "value")),
        1 => Just(of_kind(Kind::LowConfidence, confidence, "value")),
        1 => Just(of_kind(Kind::Clarification, questions, "answers")),
    ]
}

fn members() -> impl Strategy<Value = Map<String, Value>> {
    let value = prop_oneof![
        Just(json!("a text")),
        Just(json!(7)),
        Just(json!(null)),
        Just(json!({"scope": "whole", "payment": 1})),
        Just(json!("2020-01-01T00:00:00Z")),
    ];
    proptest::collection::btree_map(proptest::sample::select(NAMES.to_vec()), value, 0..12)
        .prop_map(|members| members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// Returns an answer with the members that it must have to count, and arbitrary other members.
fn valid_answer(gate: &Gate, mut members: Map<String, Value>, choice: usize) -> Value {
    let offered = gate.request.data["actions"].as_array().cloned().unwrap_or_default();
    if let Some(action) = offered.get(choice % offered.len().max(1)) {
        members.insert("action".to_owned(), action.clone());
        for member in ["decision", "feedback", "reason", "override", "voter", "decidedBy"] {
            let fits = members.get(member).is_some_and(|value| value == "a text") && member != "decision";
            if !fits || ["override", "voter", "decidedBy"].contains(&member) {
                members.shift_remove(member);
            }
        }
        members.insert("refineFeedback".to_owned(), json!({"scope": "whole"}));
        members.entry("editedArtifactData").or_insert(json!({"amount": 9}));
    }
    if gate.request.kind == Kind::Clarification {
        members.insert("answers".to_owned(), json!({"amount": 9}));
        members.retain(|name, _| !["voter", "decidedBy"].contains(&name.as_str()));
    }
    Value::Object(members)
}

fn apply(run: &mut Run, command: &Command, now: Timestamp) -> bool {
    let Ok(events) = decide(run, command, now) else { return false };
    events.iter().for_each(|event| run.apply(event, now));
    true
}

fn started() -> Run {
    let definition = json!({
        "id": "pay", "name": "pay", "version": "1", "triggers": [], "variables": [], "metadata": {}, "settings": {},
        "nodes": [{"id": "gate", "typeId": "any", "name": "gate", "config": {}, "inputs": {}}], "edges": [],
    });
    let workflow = Workflow::parse(&definition, 1).expect("a workflow");
    let mut run = Run::new(RunId::parse("r1").expect("a run id"), Arc::new(workflow));
    let owner = Owner { tenant: TenantId::parse("acme").expect("a tenant id"), principal: "olga".to_owned() };
    let inputs = NAMES.iter().map(|name| ((*name).to_owned(), json!({"before": name}))).collect();
    assert!(apply(
        &mut run,
        &Command::Start(Box::new(StartRequest { inputs, ..StartRequest::new(owner) })),
        Timestamp(0)
    ));
    run
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn no_answer_changes_a_variable_that_the_definition_does_not_map(
        gate in gates(),
        answers in proptest::collection::vec((members(), 0..4_usize), 4),
    ) {
        let (mut run, now) = (started(), Timestamp(5));
        let node = NodeId::parse("gate").expect("a node id");
        let before = run.variables.clone();
        assert!(apply(&mut run, &Command::Begin { node: node.clone(), effect: holdpoint_core::Effect::Outside }, now));
        let requested = NodeOutcome::Asked(Box::new(InterruptRequest { key: Some("k".to_owned()), ..gate.request.clone() }));
        assert!(apply(&mut run, &Command::Finish { node: node.clone(), outcome: requested }, now));
        for (voter, (members, choice)) in answers.into_iter().enumerate() {
            let by = Principal {
                roles: vec!["clerk".to_owned()], ..Principal::named(format!("voter-{voter}").as_str())
            };
            let answer = Answer::new(valid_answer(&gate, members, choice), by);
            apply(&mut run, &Command::Resolve { answers: [(InterruptId(1), answer)].into() }, now);
        }
        prop_assert_eq!(&run.variables, &before, "an answer alone changes no variable");
        let Some(answer) = run.interrupt(InterruptId(1)).unwrap_or_else(|| panic!("no interrupt: {:?}", run.end)).answer() else {
            prop_assert!(gate.required > 1, "the answer did not count");
            return Ok(());
        };
        // Completes the node as node code of this kind does.
        let completion = match gate.request.kind {
            Kind::Approval | Kind::Clarification => {
                let mapping = gate.request.outputs(&answer);
                Completion { unmapped: mapping.unmapped, ..Completion::of(mapping.outputs) }
            }
            _ => Completion::of(Map::from_iter([("value".to_owned(), answer)])),
        };
        for absent in ["ignored", "payment", "_askExchanges:gate", "digest", "question"] {
            prop_assert!(!completion.outputs.contains_key(absent), "{} is an output", absent);
        }
        let done = NodeOutcome::Completed(Box::new(completion));
        assert!(apply(&mut run, &Command::Finish { node, outcome: done }, now));
        let after = run.variables.as_object().expect("an object");
        for (name, value) in after {
            let kept = before.get(name) == Some(value);
            prop_assert!(kept || gate.mapped.contains(name.as_str()), "{} became {}", name, value);
        }
    }
}
