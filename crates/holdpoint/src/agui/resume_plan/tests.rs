//! Tests of the validation of resume arrays.

use holdpoint_core::agent::{CLIENT_TOOL, ToolCallResumeMode};
use serde_json::json;

use super::*;
use crate::agui::interrupts;
use crate::agui::test_runs::{entries, event, permission, run_with_interrupts, ticket};

const NOW: Timestamp = Timestamp(2000);

fn plan_at(run: &Run, given: Value, now: Timestamp) -> Result<ResumePlan, &'static str> {
    let shared = Arc::new(run.clone());
    let open =
        interrupts::open_for_people(run).map(|asked| OpenInterrupt { run: shared.clone(), id: asked.id });
    let open: Vec<_> = open.collect();
    let named = BTreeMap::from([(run.id.clone(), NamedRun { run: shared.clone(), root: run.id.clone() })]);
    let target = ResumeTarget { latest: Some(run), open: &open, named: &named };
    plan(&target, &entries(given), now).map_err(|violation| violation.code)
}

fn plan_now(run: &Run, given: Value) -> Result<ResumePlan, &'static str> {
    plan_at(run, given, NOW)
}

fn yes(id: &str) -> Value {
    json!({"interruptId": id, "status": "resolved", "payload": {"approved": true}})
}

fn cancel(id: &str) -> Value {
    json!({"interruptId": id, "status": "cancelled"})
}

/// Returns a run with two calls that wait for a permission.
fn two() -> Run {
    run_with_interrupts(&[permission("c1"), permission("c2")])
}

fn answered(mut run: Run, id: u32, value: Value, decision: Option<&str>) -> Run {
    let mut resolved = json!({"type": "interrupt.resolved", "id": id, "value": value, "by": "ann"});
    if let Some(decision) = decision {
        resolved["decision"] = json!(decision);
    }
    run.apply(&event(resolved), NOW);
    run
}

#[test]
fn all_open_interrupts_are_answered_at_once() {
    let plan = plan_now(&two(), json!([yes("r:i1"), cancel("r:i2")])).unwrap();
    let actions: Vec<_> = plan.answers.values().map(|answer| answer.value["action"].clone()).collect();
    assert_eq!(actions, [json!("accept"), json!("reject")]);
    assert!(plan.expired.is_empty() && !plan.cancels_run && !plan.is_replay());
}

#[test]
fn one_invalid_entry_rejects_the_whole_array() {
    for (given, code) in [
        (json!([yes("r:i1")]), "PARTIAL_RESUME"),
        (json!([yes("r:i1"), yes("r:i3")]), "UNKNOWN_INTERRUPT_ID"),
        (json!([yes("r:i1"), yes("other:i2")]), "UNKNOWN_INTERRUPT_ID"),
        (json!([yes("r:i1"), yes("r:i1"), yes("r:i2")]), "DUPLICATE_INTERRUPT_ID"),
        (json!([yes("r:i1"), {"interruptId": "r:i2", "status": "resolved"}]), "INVALID_PAYLOAD"),
        (
            json!([yes("r:i1"), {"interruptId": "r:i2", "status": "resolved", "payload": 7}]),
            "INVALID_PAYLOAD",
        ),
    ] {
        assert_eq!(plan_now(&two(), given.clone()).unwrap_err(), code, "{given}");
    }
}

#[test]
fn a_repeated_answer_is_a_replay_also_if_it_came_over_another_protocol() {
    let elsewhere = json!({"action": "accept", "decidedBy": "ann"});
    let run = answered(answered(two(), 1, elsewhere.clone(), None), 2, elsewhere, None);
    assert!(plan_now(&run, json!([yes("r:i1"), yes("r:i2")])).unwrap().is_replay());
    assert!(plan_now(&run, json!([yes("r:i1")])).unwrap().is_replay(), "no interrupt is open");
    let no = json!({"interruptId": "r:i1", "status": "resolved", "payload": {"approved": false}});
    assert_eq!(plan_now(&run, json!([no, yes("r:i2")])).unwrap_err(), "ALREADY_ANSWERED");
    assert_eq!(plan_now(&run, json!([cancel("r:i1")])).unwrap_err(), "ALREADY_ANSWERED");
}

#[test]
fn a_decision_of_ag_ui_is_recognized_by_its_prefix() {
    let given = entries(json!([cancel("r:i1")]));
    let name = format!("{}0000", answers::decision_prefix(&given[0]));
    let run = answered(run_with_interrupts(&[permission("c1")]), 1, json!({"strange": 1}), Some(&name));
    assert!(plan_now(&run, json!([cancel("r:i1")])).unwrap().is_replay());
}

#[test]
fn an_array_can_complete_answers_that_came_over_another_protocol() {
    let run = answered(two(), 1, json!({"action": "accept"}), None);
    let plan = plan_now(&run, json!([yes("r:i1"), yes("r:i2")])).unwrap();
    assert_eq!(plan.answers.keys().map(|place| place.id.0).collect::<Vec<_>>(), [2]);
    assert!(plan_now(&run, json!([yes("r:i1")])).unwrap().is_replay(), "a repeated answer has no effect");
}

#[test]
fn an_expired_interrupt_can_only_be_cancelled() {
    let mut request = permission("c1");
    request.timeout_ms = Some(500);
    let run = run_with_interrupts(&[request]);
    assert_eq!(plan_at(&run, json!([yes("r:i1")]), Timestamp(1500)).unwrap_err(), "INTERRUPT_EXPIRED");
    assert!(plan_at(&run, json!([yes("r:i1")]), Timestamp(1499)).is_ok());
    let plan = plan_now(&run, json!([cancel("r:i1")])).unwrap();
    assert_eq!(plan.expired, [InterruptPlace { run: run.id.clone(), id: InterruptId(1) }]);
    let mut closed = run;
    closed.apply(&event(json!({"type": "interrupt.timed_out", "id": 1})), NOW);
    assert_eq!(plan_now(&closed, json!([yes("r:i1")])).unwrap_err(), "INTERRUPT_EXPIRED");
    assert!(plan_now(&closed, json!([cancel("r:i1")])).unwrap().is_replay());
}

#[test]
fn a_cancelled_run_accepts_only_cancelled_entries() {
    let mut run = run_with_interrupts(&[permission("c1")]);
    run.apply(&event(json!({"type": "run.cancelled", "by": "ann"})), NOW);
    assert!(plan_now(&run, json!([cancel("r:i1")])).unwrap().is_replay());
    assert_eq!(plan_now(&run, json!([yes("r:i1")])).unwrap_err(), "ALREADY_ANSWERED");
}

#[test]
fn a_refusal_has_a_violation_code_or_causes_a_new_attempt() {
    assert_eq!(violation_of(&Refusal::AlreadyResolved), None);
    for (refusal, code) in [
        (Refusal::Expired, "INTERRUPT_EXPIRED"),
        (Refusal::NotAnApprover("ann".to_owned()), "FORBIDDEN"),
        (Refusal::invalid("resumeValue", "no"), "INVALID_PAYLOAD"),
        (Refusal::AlreadyVoted("ann".to_owned()), "ALREADY_ANSWERED"),
    ] {
        assert_eq!(violation_of(&refusal).unwrap().code, code);
    }
}

#[test]
fn a_repeated_array_that_cancelled_its_run_is_a_replay() {
    let unanswerable =
        holdpoint_core::InterruptRequest::new(holdpoint_core::Kind::Custom, json!({"customKind": "x"}));
    let mut run = run_with_interrupts(&[permission("c1"), unanswerable]);
    let given = json!([yes("r:i1"), cancel("r:i2")]);
    assert!(plan_now(&run, given.clone()).unwrap().cancels_run);
    run.apply(&event(json!({"type": "run.cancelled", "by": "ann"})), NOW);
    assert!(plan_now(&run, given).unwrap().is_replay());
    assert_eq!(plan_now(&run, json!([yes("r:i1")])).unwrap_err(), "ALREADY_ANSWERED");
}

#[test]
fn only_a_client_tool_of_a_child_run_is_answered_as_an_interrupt() {
    let request = ticket(CLIENT_TOOL, ToolCallResumeMode::default(), None);
    let child = Arc::new(run_with_interrupts(&[request]));
    let open = [OpenInterrupt { run: child.clone(), id: InterruptId(1) }];
    let root = Run::new(RunId::parse("root").unwrap(), child.workflow.clone());
    for (latest, planned) in [(&root, Ok(1)), (&*child, Err("UNKNOWN_INTERRUPT_ID"))] {
        let one = NamedRun { run: child.clone(), root: latest.id.clone() };
        let named = BTreeMap::from([(child.id.clone(), one)]);
        let target = ResumeTarget { latest: Some(latest), open: &open, named: &named };
        let plan = plan(&target, &entries(json!([yes("r:i1")])), NOW);
        assert_eq!(plan.map(|plan| plan.answers.len()).map_err(|violation| violation.code), planned);
    }
}
