//! Grants: the decisions that create them, the effects that use them, and the payload that they permit.

use holdpoint_core::{
    ChildRunRequest, Command, Effect, Event, GrantUse, Interrupt, InterruptId, InterruptRequest, Kind,
    NodeOutcome, Parent, Principal, Resolution, RunId, StartRequest, Timestamp, UnusableGrant, Workflow,
    WorkflowId, digest,
};
use serde_json::{Value, json};

use crate::story::{START_TIME, Story, on};
use crate::vocabulary::*;

pub(crate) fn begin_effect(node: &str) -> Command {
    Command::Begin { node: node_id(node), effect: Effect::Outside }
}

pub(crate) fn node_started_using(node: &str, uses: &[u32]) -> Event {
    Event::NodeStarted { node: node_id(node), uses: uses.iter().copied().map(InterruptId).collect() }
}

/// Returns a workflow with a gate, then a payment, then a mail.
pub(crate) fn gate_pay_mail() -> Workflow {
    workflow([node("gate"), node("pay"), node("mail")], [edge("gate", "pay"), edge("pay", "mail")])
}

/// Returns an approval that offers every action and has an artifact.
pub(crate) fn full_approval() -> InterruptRequest {
    approval_of(json!({"actions": ["accept", "reject", "refine", "edit"], "artifactData": {"amount": 5}}))
}

/// Returns a story whose node `gate` requests this interrupt, gets this answer and completes.
pub(crate) fn decided(workflow: Workflow, request: InterruptRequest, decision: Command) -> Story {
    on(workflow).given([start(), begin("gate"), ask("gate", request), decision, done("gate")])
}

/// Returns a story whose gate was accepted. The payment is next.
pub(crate) fn accepted() -> Story {
    decided(gate_pay_mail(), full_approval(), accept(1))
}

pub(crate) fn interrupt(story: &Story, id: u32) -> &Interrupt {
    story.run().interrupt(InterruptId(id)).expect("an interrupt")
}

/// Returns the uses of a grant: node, visit and call.
pub(crate) fn uses_of(story: &Story, id: u32) -> Vec<(String, u32, Option<String>)> {
    let shown = |one: &GrantUse| (one.node.to_string(), one.visit, one.call.clone());
    interrupt(story, id).uses.iter().map(shown).collect()
}

pub(crate) fn of_node(node: &str, visit: u32) -> (String, u32, Option<String>) {
    (node.to_owned(), visit, None)
}

fn start_child(node: &str) -> Command {
    let workflow = WorkflowId::parse("child").expect("a workflow id");
    let child_request = ChildRunRequest { workflow, inputs: object(json!({})), wait: true, cascade: true };
    finish(node, NodeOutcome::ChildRequested(Box::new(child_request)))
}

fn governed(members: Value) -> InterruptRequest {
    let data = json!({
        "gateId": "gate", "actions": ["accept", "reject"], "requiredRole": "finance",
        "override": {"requiredRole": "finance", "audited": true},
    });
    let mut data = object(data);
    data.extend(object(members));
    approval_of(Value::Object(data))
}

fn review() -> InterruptRequest {
    request(Kind::Custom, json!({"customKind": "content_review"}))
}

#[test]
fn decisions_that_permit_an_effect_create_a_grant() {
    let edited = json!({"action": "edit-accept", "editedArtifactData": {"amount": 4}});
    let overridden = json!({"decision": "overridden", "reason": "urgent fix"});
    for (request, value) in [
        (full_approval(), json!({"action": "accept"})),
        (full_approval(), edited),
        (full_approval(), json!({"decision": "approved"})),
        (governed(json!({})), json!({"decision": "granted"})),
        (governed(json!({})), overridden),
        (review(), json!({"action": "approve"})),
    ] {
        let story = decided(gate_pay_mail(), request, answer(1, value.clone()));
        assert!(interrupt(&story, 1).is_granted(), "{value}");
        let story = story.when(begin_effect("pay")).then([node_started_using("pay", &[1])]);
        assert_eq!(uses_of(&story, 1), [of_node("pay", 1)], "{value}");
    }
}

#[test]
fn refinements_rejections_and_other_answers_create_no_grant() {
    let refined = json!({"action": "refine", "refineFeedback": {"scope": "whole", "text": "shorter"}});
    for (request, value) in [
        (full_approval(), refined),
        (full_approval(), json!({"action": "reject"})),
        (governed(json!({})), json!({"decision": "rejected"})),
        (review(), json!({"action": "reject"})),
        (review(), json!({"action": "accept"})),
        (custom(), json!({"action": "approve"})),
        // `resume` creates a grant only for an interrupt that a tool raised about its call.
        (custom(), json!({"action": "resume"})),
    ] {
        let story = decided(gate_pay_mail(), request, answer(1, value.clone()));
        assert!(!interrupt(&story, 1).is_granted(), "{value}");
        let story = story.when(begin_effect("pay")).then([node_started_using("pay", &[])]);
        assert_eq!(uses_of(&story, 1), [], "{value}");
    }
}

#[test]
fn answers_of_other_kinds_create_no_grant() {
    let wait = json!({"eventType": "paid", "correlation": {}});
    let open = json!({"agentId": "a", "decision": "pay", "observed": 0.1, "threshold": 0.9});
    for (kind, data) in [(Kind::ExternalEvent, wait), (Kind::LowConfidence, open)] {
        let resolved = resolved(1, json!({"action": "accept"}));
        let past = [started(), node_started("gate"), requested(1, "gate", request(kind, data)), resolved];
        let story = on(gate_pay_mail()).given(past).given([resumed("gate", 1), completed("gate")]);
        assert!(!interrupt(&story, 1).is_granted(), "{kind:?}");
        story.when(begin_effect("pay")).then([node_started_using("pay", &[])]);
    }
}

#[test]
fn a_timeout_and_an_open_gate_create_no_grant() {
    let timed = InterruptRequest { timeout_ms: Some(1000), ..full_approval() };
    let story = on(gate_pay_mail()).given([start(), begin("gate"), ask("gate", timed)]);
    assert!(!interrupt(&story, 1).is_granted());
    assert_eq!(story.run().grants_before(&node_id("pay")), Vec::<&Interrupt>::new());
    let story = story.later(1000).given([expire(1), done("gate")]);
    assert!(!interrupt(&story, 1).is_granted());
    assert_eq!((interrupt(&story, 1).deciders(), interrupt(&story, 1).granted_payload()), (Vec::new(), None));
    story.when(begin_effect("pay")).then([node_started_using("pay", &[])]);
}

#[test]
fn each_effect_after_a_gate_uses_its_grant_once() {
    let story = accepted()
        .when(begin_effect("pay"))
        .then([node_started_using("pay", &[1])])
        .given([record("pay", "sent", json!(1)), record("pay", "receipt", json!(2)), done("pay")])
        .when(begin_effect("mail"))
        .then([node_started_using("mail", &[1])]);
    assert_eq!(uses_of(&story, 1), [of_node("pay", 1), of_node("mail", 1)]);
}

#[test]
fn effects_on_parallel_branches_each_have_a_use() {
    let flow =
        workflow([node("gate"), node("left"), node("right")], [edge("gate", "left"), edge("gate", "right")]);
    let story = decided(flow, full_approval(), accept(1)).given([begin_effect("left"), done("left")]);
    let story = story.later(7).given([begin_effect("right")]);
    assert_eq!(uses_of(&story, 1), [of_node("left", 1), of_node("right", 1)]);
    let instants: Vec<Timestamp> = interrupt(&story, 1).uses.iter().map(|one| one.at).collect();
    assert_eq!(instants, [START_TIME, START_TIME.plus_ms(7)]);
}

#[test]
fn all_attempts_of_one_visit_are_one_use() {
    let pay = with(node("pay"), "settings", json!({"maxRetries": 2}));
    let flow = workflow([node("gate"), pay], [edge("gate", "pay")]);
    let story = decided(flow, full_approval(), accept(1)).given([begin_effect("pay"), fail_retryable("pay")]);
    let story = story.later(1000).given([wake("pay"), fail_retryable("pay")]);
    let story = story.later(2000).given([wake("pay"), record("pay", "sent", json!(1)), done("pay")]);
    assert_eq!(uses_of(&story, 1), [of_node("pay", 1)]);
}

#[test]
fn a_node_without_effects_uses_no_grant() {
    let story = accepted().when(begin("pay")).then([node_started("pay")]);
    assert_eq!(uses_of(&story, 1), []);
}

#[test]
fn only_nodes_that_the_gate_leads_to_use_its_grant() {
    let edges = [edge("early", "gate"), edge("gate", "pay")];
    let flow = workflow([node("early"), node("gate"), node("pay"), node("beside")], edges);
    let story = on(flow).given([start(), begin_effect("early"), done("early"), begin("gate")]);
    let story = story.given([ask("gate", full_approval()), accept(1), done("gate")]);
    for (effect, behind) in [("early", 0), ("pay", 1), ("beside", 0)] {
        assert_eq!(story.run().grants_before(&node_id(effect)).len(), behind, "{effect}");
    }
    assert_eq!(story.run().grants_before(&node_id("unknown")), Vec::<&Interrupt>::new());
    let story = story.given([begin_effect("pay"), done("pay"), begin_effect("beside")]);
    assert_eq!(uses_of(&story, 1), [of_node("pay", 1)]);
}

#[test]
fn a_node_that_opens_its_own_approval_uses_that_grant() {
    let story = on(gate_then_after()).given([start(), begin_effect("gate"), ask("gate", full_approval())]);
    let story = story.given([accept(1)]);
    assert_eq!(story.run().usable_grants(&node_id("gate")), Ok(vec![InterruptId(1)]));
    let story = story.given([record("gate", "sent", json!(1))]);
    assert_eq!(uses_of(&story, 1), [of_node("gate", 1)]);
}

#[test]
fn an_effect_after_two_gates_uses_both_grants_in_the_order_of_the_decisions() {
    let nodes = [node("gate"), node("second"), node("pay")];
    let flow = workflow(nodes, [edge("gate", "second"), edge("second", "pay")]);
    let story = decided(flow, full_approval(), accept(1))
        .given([begin("second"), ask("second", with_key("k2", full_approval())), accept(2), done("second")])
        .when(begin_effect("pay"))
        .then([node_started_using("pay", &[1, 2])]);
    assert_eq!((uses_of(&story, 1), uses_of(&story, 2)), (vec![of_node("pay", 1)], vec![of_node("pay", 1)]));
}

#[test]
fn covers_restricts_the_nodes_that_a_grant_permits() {
    for covers in [json!(["mail"]), json!([{"node": "mail", "repeat": true}]), json!([{"node": "mail"}])] {
        let gate = approval_of(json!({"actions": ["accept"], "covers": covers}));
        let story = decided(gate_pay_mail(), gate, accept(1));
        assert!(
            interrupt(&story, 1).covers(&node_id("mail")) && !interrupt(&story, 1).covers(&node_id("pay"))
        );
        let uncovered = UnusableGrant::NotCovered { gate: node_id("gate"), node: node_id("pay") };
        assert_eq!(story.run().usable_grants(&node_id("pay")), Err(uncovered.clone()));
        assert_eq!(uncovered.code().as_str(), "grant_not_covered");
        let story =
            story.when(begin_effect("pay")).then([node_started_using("pay", &[])]).given([done("pay")]);
        let story = story.when(begin_effect("mail")).then([node_started_using("mail", &[1])]);
        assert_eq!(uses_of(&story, 1), [of_node("mail", 1)]);
    }
}

#[test]
fn covers_must_be_a_non_empty_list_of_nodes() {
    for covers in [
        json!([]),
        json!("mail"),
        json!([""]),
        json!([7]),
        json!(["mail", 7]),
        json!([{}]),
        json!([{"node": ""}]),
        json!([{"node": 7}]),
        json!([{"node": "mail", "repeat": "yes"}]),
        json!([{"node": "mail", "often": true}]),
        json!(null),
    ] {
        let gate = approval_of(json!({"actions": ["accept"], "covers": covers}));
        on(gate_pay_mail())
            .given([start(), begin("gate"), ask("gate", gate)])
            .failed_with("invalid_interrupt", "data.covers: must be");
    }
}

#[test]
fn a_node_that_opts_out_uses_no_grant() {
    let pay = with(node("pay"), "grant", json!("none"));
    let flow = workflow([node("gate"), pay, node("mail")], [edge("gate", "pay"), edge("pay", "mail")]);
    let story = decided(flow, full_approval(), accept(1));
    let story = story.when(begin_effect("pay")).then([node_started_using("pay", &[])]);
    let story = story.given([record("pay", "sent", json!(1)), done("pay"), begin_effect("mail")]);
    assert_eq!(uses_of(&story, 1), [of_node("mail", 1)]);
}

/// Returns a story whose gate opens a second interrupt after the payment.
fn second_visit_of_gate() -> Story {
    let back = with(edge("pay", "gate"), "id", json!("back"));
    let flow = workflow(
        [node("first"), node("gate"), node("pay")],
        [edge("first", "gate"), edge("gate", "pay"), back],
    );
    on(flow)
        .given([start(), begin("first"), done("first"), begin("gate"), ask("gate", full_approval())])
        .given([accept(1), done("gate"), begin_effect("pay"), done("pay"), begin("gate")])
        .given([ask("gate", with_key("k2", full_approval()))])
}

#[test]
fn the_latest_decision_of_a_gate_counts() {
    let story = second_visit_of_gate().given([accept(2), done("gate")]);
    let story = story.when(begin_effect("pay")).then([node_started_using("pay", &[2])]);
    assert_eq!((uses_of(&story, 1), uses_of(&story, 2)), (vec![of_node("pay", 1)], vec![of_node("pay", 2)]));
    let rejected = second_visit_of_gate().given([answer(2, json!({"action": "reject"})), done("gate")]);
    rejected.when(begin_effect("pay")).then([node_started_using("pay", &[])]);
}

#[test]
fn effects_of_runs_of_older_versions_have_uses() {
    let story = accepted().given([node_started("pay")]);
    assert_eq!(uses_of(&story, 1), []);
    let sent = |node: &str| Event::StepRecorded {
        node: node_id(node),
        name: "sent".to_owned(),
        result: json!(1),
        took_ms: None,
    };
    let story = story.given([sent("pay"), completed("pay"), node_started("mail")]);
    assert_eq!(uses_of(&story, 1), [of_node("pay", 1)]);
    let story = story.given([start_child("mail")]);
    assert_eq!(uses_of(&story, 1), [of_node("pay", 1), of_node("mail", 1)]);
}

#[test]
fn a_grant_names_its_run_and_its_deciders() {
    let story = accepted();
    assert_eq!(story.run().grant_id(InterruptId(1)), "run-1:i1");
    assert_eq!(interrupt(&story, 1).deciders(), ["ada"]);
    let vote = |name: &str, action: &str| answer_by(Principal::named(name), 1, json!({"action": action}));
    let data =
        json!({"actions": ["accept", "reject"], "requiredApprovals": 2, "rejectionPolicy": "majority"});
    let story = on(gate_pay_mail()).given([start(), begin("gate"), ask("gate", approval_of(data))]);
    assert_eq!(interrupt(&story, 1).deciders(), Vec::<&str>::new());
    let story = story.given([vote("bob", "reject"), vote("eve", "accept"), vote("ada", "accept")]);
    assert_eq!(interrupt(&story, 1).deciders(), ["eve", "ada"]);
}

#[test]
fn a_grant_has_the_digest_of_the_shown_or_the_edited_artifact() {
    let story = accepted();
    let (shown, amount) =
        (interrupt(&story, 1).digest.clone().expect("a digest"), |n| digest(&json!({"amount": n})));
    assert_eq!(interrupt(&story, 1).granted_payload(), Some(&json!({"amount": 5})));
    assert_eq!(interrupt(&story, 1).granted_digest(), amount(5));
    assert!(interrupt(&story, 1).grants_digest(&amount(5)) && interrupt(&story, 1).grants_digest(&shown));
    assert!(!interrupt(&story, 1).grants_digest(&amount(4)) && !interrupt(&story, 1).grants_digest(""));

    let edited = json!({"action": "edit-accept", "editedArtifactData": {"amount": 4}});
    let story = decided(gate_pay_mail(), full_approval(), answer(1, edited));
    assert_eq!(interrupt(&story, 1).granted_payload(), Some(&json!({"amount": 4})));
    assert_eq!(interrupt(&story, 1).granted_digest(), amount(4));
    assert!(interrupt(&story, 1).grants_digest(&amount(4)));
    assert!(!interrupt(&story, 1).grants_digest(&amount(5)) && !interrupt(&story, 1).grants_digest(&shown));
}

/// Older versions recorded every member of an answer.
#[test]
fn a_draft_in_the_answer_of_a_gate_is_not_its_payload() {
    let mut recorded = interrupt(&accepted(), 1).clone();
    let Some(Resolution::Answered { value, .. }) = &mut recorded.resolution else { panic!("answered") };
    value["draft"] = json!({"amount": 9});
    assert_eq!(recorded.granted_payload(), Some(&json!({"amount": 5})));
}

#[test]
fn a_grant_without_an_artifact_has_the_digest_of_all_shown_data() {
    let story = decided(gate_pay_mail(), approval(), accept(1));
    let shown = interrupt(&story, 1).digest.clone().expect("a digest");
    assert_eq!(interrupt(&story, 1).granted_payload(), None);
    assert_eq!(
        (interrupt(&story, 1).granted_digest(), interrupt(&story, 1).grants_digest(&shown)),
        (shown, true)
    );
}

#[test]
fn a_child_run_inherits_the_grants_of_the_node_that_started_it() {
    let story = accepted().given([begin_effect("pay")]);
    assert_eq!(story.run().grants_for_child(&node_id("pay"), None), ["run-1:i1"]);
    assert_eq!(story.run().grants_for_child(&node_id("gate"), None), ["run-1:i1"]);
    let parent = Parent {
        run: RunId::parse("run-0").expect("a run id"),
        workflow: WorkflowId::parse("parent").expect("a workflow id"),
        node: node_id("call"),
        depth: 1,
        above: Vec::new(),
    };
    let grants = vec!["run-0:i3".to_owned()];
    let start =
        Command::Start(Box::new(StartRequest { parent: Some(parent), grants, ..start_request(json!({})) }));
    let child = on(gate_pay_mail()).given([start, begin("gate"), ask("gate", full_approval())]);
    assert_eq!(child.run().grants_for_child(&node_id("pay"), None), ["run-0:i3"]);
    let child = child.given([accept(1), done("gate")]);
    assert_eq!(child.run().grants_for_child(&node_id("pay"), None), ["run-0:i3", "run-1:i1"]);
    child.when(begin_effect("pay")).then([node_started_using("pay", &[1])]);
}

#[test]
fn a_node_that_joins_the_interrupt_of_a_gate_has_its_grant() {
    let keyed = |id: &str| with(node(id), "config", json!({"key": "k"}));
    let flow = workflow([keyed("gate"), keyed("twin"), node("pay")], [edge("twin", "pay")]);
    let story = on(flow).given([
        start(),
        begin("gate"),
        ask("gate", full_approval()),
        begin("twin"),
        join("twin", 1),
        accept(1),
        done("gate"),
        done("twin"),
    ]);
    story.when(begin_effect("pay")).then([node_started_using("pay", &[1])]);
}
