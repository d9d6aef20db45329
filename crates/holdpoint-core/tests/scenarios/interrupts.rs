//! Interrupts: each key has one interrupt and one answer, even if several nodes request it; late answers are refused.

use holdpoint_core::{
    Event, InterruptId, InterruptRequest, Kind, NodeStatus, Obligation, Refusal, RunError, Status, limits,
};
use serde_json::json;

use crate::story::{START_TIME, Story, given, on};
use crate::vocabulary::*;

fn accepted_value() -> serde_json::Value {
    json!({"action": "accept", "decidedBy": "ada", "decidedAt": START_TIME.to_string()})
}

fn waiting() -> Story {
    given([start(), begin("gate"), ask("gate", approval())])
}

#[test]
fn a_node_that_requests_an_interrupt_waits() {
    given([start(), begin("gate")])
        .when(ask("gate", approval()))
        .then([requested(1, "gate", approval()), suspended("gate", 1), approval_requested(1)])
        .status_is(Status::WaitingApproval)
        .node_is("gate", &NodeStatus::Waiting(InterruptId(1)))
        .next_is("nothing");
}

#[test]
fn an_answered_node_is_entered_again_and_completes() {
    waiting()
        .when(accept(1))
        .then([resolved(1, accepted_value()), approval_received(1), resumed("gate", 1)])
        .obliges([Obligation::Activate])
        .status_is(Status::Running)
        .next_is("enter gate")
        .given([done("gate"), begin("after"), done("after")])
        .status_is(Status::Completed);
}

#[test]
fn an_answer_to_a_node_resolves_its_interrupt() {
    waiting().when(accept_at("gate")).then([
        resolved(1, accepted_value()),
        approval_received(1),
        resumed("gate", 1),
    ]);
    waiting().given([accept(1)]).when(accept_at("gate")).refused(Refusal::AlreadyResolved);
    waiting().when(accept_at("after")).refused(Refusal::InterruptNotFound);
    waiting().when(accept_at("unknown")).refused(Refusal::InterruptNotFound);
}

#[test]
fn the_second_answer_is_refused() {
    waiting().given([accept(1)]).when(accept(1)).refused(Refusal::AlreadyResolved);
}

#[test]
fn an_unknown_interrupt_and_an_empty_list_of_answers_are_not_found() {
    waiting().when(accept(2)).refused(Refusal::InterruptNotFound);
    waiting().when(accept(0)).refused(Refusal::InterruptNotFound);
    waiting().when(answer_all([])).refused(Refusal::InterruptNotFound);
}

#[test]
fn a_refused_answer_leaves_the_interrupt_open() {
    waiting()
        .when(answer(1, json!({"action": "dance"})))
        .refused_for("resumeValue.action")
        .status_is(Status::WaitingApproval)
        .when(accept(1))
        .accepted();
}

#[test]
fn two_nodes_with_one_key_share_one_interrupt_and_its_answer() {
    on(left_and_right())
        .given([start(), begin("left"), ask("left", approval())])
        .status_is(Status::Running)
        .given([begin("right")])
        .when(ask("right", approval()))
        .then([suspended("right", 1)])
        .status_is(Status::WaitingApproval)
        .when(accept(1))
        .then([resolved(1, accepted_value()), approval_received(1), resumed("left", 1), resumed("right", 1)]);
}

#[test]
fn a_node_can_join_only_an_open_interrupt() {
    let joining = |past: Vec<holdpoint_core::Command>| {
        on(left_and_right()).given([start(), begin("left"), ask("left", approval())]).given(past)
    };
    joining(vec![begin("right")]).when(join("right", 1)).then([suspended("right", 1)]);
    joining(vec![begin("right")]).when(join("right", 2)).refused(Refusal::NodeNotRunning);
    joining(vec![accept(1), done("left"), begin("right")])
        .when(join("right", 1))
        .refused(Refusal::NodeNotRunning);
}

#[test]
fn a_key_with_an_answer_opens_no_second_interrupt() {
    // The refusal makes the executor enter the node again, where it finds the answer under its key.
    on(left_and_right())
        .given([start(), begin("left"), ask("left", approval()), accept(1), done("left"), begin("right")])
        .when(ask("right", approval()))
        .refused(Refusal::NodeNotRunning)
        .node_is("right", &NodeStatus::Running);
}

#[test]
fn another_key_opens_another_interrupt() {
    let second = || InterruptRequest { key: Some("other".to_owned()), ..approval() };
    let story = on(left_and_right())
        .given([start(), begin("left"), ask("left", approval()), begin("right")])
        .when(ask("right", second()))
        .then([requested(2, "right", second()), suspended("right", 2), approval_requested(2)]);
    assert_eq!(story.interrupt_of("left").map(|interrupt| interrupt.id), Some(InterruptId(1)));
    assert_eq!(story.interrupt_of("right").map(|interrupt| interrupt.id), Some(InterruptId(2)));
    let value = || json!({"action": "accept"});
    let refused = story.when(answer_all([(1, value()), (2, json!(7))])).refused_for("resumeValue");
    // Either all answers are accepted or none: the valid answer of the refused pair did not count.
    refused.when(answer_all([(1, value()), (2, value())])).then([
        resolved(1, accepted_value()),
        approval_received(1),
        resumed("left", 1),
        resolved(2, accepted_value()),
        approval_received(2),
        resumed("right", 2),
    ]);
}

#[test]
fn an_answer_to_a_node_with_several_interrupts_reaches_the_last_one() {
    let again = InterruptRequest { key: Some("again".to_owned()), ..custom() };
    let story = waiting().given([accept(1), ask("gate", again)]).status_is(Status::WaitingInput);
    assert_eq!(story.interrupt_of("gate").map(|interrupt| interrupt.id), Some(InterruptId(2)));
    assert_eq!(story.interrupt_of("after"), None);
    let story = story.given([answer(2, json!("blue")), done("gate")]);
    assert_eq!(story.interrupt_of("gate").map(|interrupt| interrupt.id), Some(InterruptId(2)));
}

#[test]
fn answers_after_the_end_are_refused_according_to_the_end_of_the_run() {
    waiting().given([cancel()]).when(accept(1)).refused(Refusal::InterruptCancelled);
    waiting().given([abandon()]).when(accept(1)).refused(Refusal::AlreadyResolved);
    waiting()
        .given([accept(1), done("gate"), begin("after"), done("after")])
        .when(accept(1))
        .refused(Refusal::AlreadyResolved);
    waiting().given([cancelled_with_parent()]).when(accept(1)).refused(Refusal::InterruptGone);
    waiting().given([accept(1), cancel()]).when(accept(1)).refused(Refusal::AlreadyResolved);
    waiting().given([cancel()]).when(accept(2)).refused(Refusal::InterruptNotFound);
}

#[test]
fn an_invalid_interrupt_request_fails_its_node() {
    let bad = |field: &str, request: InterruptRequest| {
        let story =
            given([start(), begin("gate")]).when(ask("gate", request)).accepted().status_is(Status::Failed);
        assert_eq!(story.interrupt_of("gate"), None);
        story.failed_with("invalid_interrupt", &format!("{field}: "));
    };
    bad("key", InterruptRequest { key: None, ..approval() });
    bad("key", InterruptRequest { key: Some(String::new()), ..approval() });
    bad("key", InterruptRequest { key: Some("k".repeat(limits::INTERRUPT_KEY_CHARS_MAX + 1)), ..approval() });
    bad("resumeSchema", InterruptRequest { resume_schema: Some(json!({"type": 5})), ..approval() });
    bad(
        "data.title",
        request(Kind::Approval, json!({"artifactId": "a", "artifactType": "t", "actions": ["accept"]})),
    );
    bad("data.title", approval_of(json!({"title": "", "actions": ["accept"]})));
    bad("data.actions", approval_of(json!({"actions": []})));
    bad("data.actions[1]", approval_of(json!({"actions": ["accept", "dance"]})));
    bad("data.actions", approval_of(json!({"actions": ["ask"]})));
    for required in [json!(0), json!(101), json!("2"), json!(1.5)] {
        let data = json!({"actions": ["accept"], "requiredApprovals": required});
        bad("data.requiredApprovals", approval_of(data));
    }
    bad("data.rejectionPolicy", approval_of(json!({"actions": ["accept"], "rejectionPolicy": "dictator"})));
    let edits = json!({"actions": ["accept", "edit"], "requiredApprovals": 2});
    bad("data.actions[1]", approval_of(edits));
    for list in ["approversList", "approverRoleRefs", "approverGroupRefs"] {
        bad(&format!("data.{list}"), approval_of(json!({"actions": ["accept"], list: "ada"})));
    }
    bad("data.audience.roles", approval_of(json!({"actions": ["accept"], "audience": {"roles": [1]}})));
    let own = json!({"actions": ["accept"], "requesterMayNotApprove": "yes"});
    bad("data.requesterMayNotApprove", approval_of(own));
    bad("data.questions", request(Kind::Clarification, json!({"questions": []})));
    bad("data.questions[0].question", request(Kind::Clarification, json!({"questions": [{"id": "q"}]})));
    let twice = json!({"questions": [{"id": "q", "question": "?"}, {"id": "q", "question": "!"}]});
    bad("data.questions[1].id", request(Kind::Clarification, twice));
    let schema = json!({"questions": [{"id": "q", "question": "?", "schema": "text"}]});
    bad("data.questions[0].schema", request(Kind::Clarification, schema));
    bad("data.eventType", request(Kind::ExternalEvent, json!({"correlation": {}})));
    bad("data.correlation", request(Kind::ExternalEvent, json!({"eventType": "paid"})));
    bad("data.customKind", request(Kind::Custom, json!({})));
}

#[test]
fn the_data_of_an_interrupt_is_limited_in_size() {
    let around = r#"{"customKind":"c","payload":""}"#.len();
    let of_bytes = |bytes: usize| {
        let data = json!({"customKind": "c", "payload": "x".repeat(bytes - around)});
        given([start(), begin("gate")]).when(ask("gate", request(Kind::Custom, data))).accepted()
    };
    of_bytes(limits::INTERRUPT_DATA_BYTES_MAX).status_is(Status::WaitingInput);
    of_bytes(limits::INTERRUPT_DATA_BYTES_MAX + 1)
        .failed_with("interrupt_too_large", "interrupt data is 262145");
}

#[test]
fn the_number_of_interrupts_of_a_run_is_limited_and_joining_stays_possible() {
    let asked = |count: usize| {
        let question = |id: u32| InterruptRequest { key: Some(format!("k{id}")), ..custom() };
        let past = (1..).take(count).map(|id| requested(id, "gate", question(id)));
        given([start(), begin("gate")]).given::<Event>(past)
    };
    asked(limits::INTERRUPTS_PER_RUN_MAX - 1)
        .when(ask("gate", custom()))
        .accepted()
        .status_is(Status::WaitingInput);
    let full = asked(limits::INTERRUPTS_PER_RUN_MAX);
    let open = InterruptRequest { key: Some("k7".to_owned()), ..custom() };
    full.when(ask("gate", open)).then([suspended("gate", 7)]);
    let error = RunError::new("too_many_interrupts", "a run may open at most 10000 interrupts");
    asked(limits::INTERRUPTS_PER_RUN_MAX).when(ask("gate", custom())).then([
        Event::NodeFailed { node: node_id("gate"), error: error.clone() },
        Event::RunFailed { error, node: Some(node_id("gate")) },
    ]);
}

#[test]
fn keys_and_artifacts_of_a_fork_have_the_id_of_the_original_run() {
    use holdpoint_core::ForkMode::{Branch, Replay};
    let run = |text: &str| holdpoint_core::RunId::parse(text).expect("a run id");
    let (source, origin) = (run("run-0"), run("run-00"));
    let forked_from = |mode, artifacts| {
        let (source, origin) = (source.clone(), origin.clone());
        let fork =
            holdpoint_core::Fork { source, origin, from_seq: 0, mode, at: None, artifacts, copied: None };
        let start = holdpoint_core::StartRequest { fork: Some(fork), ..start_request(json!({})) };
        given([holdpoint_core::Command::Start(Box::new(start))])
    };
    let forked = |mode| forked_from(mode, None);
    for mode in [Replay, Branch] {
        assert_eq!(forked(mode).run().interrupt_key(0, 3), "run-00:gate:3");
    }
    assert_eq!(given([start()]).run().interrupt_key(0, 3), "run-1:gate:3");
    let artifact = |story: &crate::story::Story| story.run().artifact_id(&node_id("gate"));
    assert_eq!(artifact(&forked(Replay)), "run-00:gate");
    assert_eq!(artifact(&forked_from(Replay, Some(run("run-0")))), "run-0:gate", "the replay of a branch");
    assert_eq!(artifact(&forked(Branch)), "run-1:gate", "a branch has artifacts of its own");
}
