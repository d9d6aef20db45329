//! Whole arrays: taken or not.

use serde_json::json;

use super::*;
use crate::agui::samples::{asking, entries, event, permission};

const NOW: Timestamp = Timestamp(2000);

fn planned_at(run: &Run, given: Value, now: Timestamp) -> Result<Plan, &'static str> {
    let runs = BTreeMap::from([(run.id.clone(), Arc::new(run.clone()))]);
    plan(Some(run), &runs, &entries(given), now).map_err(|violation| violation.code)
}

fn planned(run: &Run, given: Value) -> Result<Plan, &'static str> {
    planned_at(run, given, NOW)
}

fn yes(id: &str) -> Value {
    json!({"interruptId": id, "status": "resolved", "payload": {"approved": true}})
}

fn cancel(id: &str) -> Value {
    json!({"interruptId": id, "status": "cancelled"})
}

/// Two calls that wait.
fn two() -> Run {
    asking(&[permission("c1"), permission("c2")])
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
    let plan = planned(&two(), json!([yes("r:i1"), cancel("r:i2")])).unwrap();
    let actions: Vec<_> = plan.answers.values().map(|said| said.value["action"].clone()).collect();
    assert_eq!(actions, [json!("accept"), json!("reject")]);
    assert!(plan.expired.is_empty() && !plan.cancels_run && !plan.is_replay());
}

#[test]
fn one_bad_entry_refuses_everything() {
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
        assert_eq!(planned(&two(), given.clone()).unwrap_err(), code, "{given}");
    }
}

#[test]
fn what_was_said_before_is_nothing_new_wherever_it_was_said() {
    let elsewhere = json!({"action": "accept", "decidedBy": "ann"});
    let run = answered(answered(two(), 1, elsewhere.clone(), None), 2, elsewhere, None);
    assert!(planned(&run, json!([yes("r:i1"), yes("r:i2")])).unwrap().is_replay());
    assert!(planned(&run, json!([yes("r:i1")])).unwrap().is_replay(), "nothing is open");
    let no = json!({"interruptId": "r:i1", "status": "resolved", "payload": {"approved": false}});
    assert_eq!(planned(&run, json!([no, yes("r:i2")])).unwrap_err(), "ALREADY_ANSWERED");
    assert_eq!(planned(&run, json!([cancel("r:i1")])).unwrap_err(), "ALREADY_ANSWERED");
}

#[test]
fn a_decision_made_here_is_known_by_its_name() {
    let given = entries(json!([cancel("r:i1")]));
    let name = format!("{}0000", answers::name(&given[0]));
    let run = answered(asking(&[permission("c1")]), 1, json!({"strange": 1}), Some(&name));
    assert!(planned(&run, json!([cancel("r:i1")])).unwrap().is_replay());
}

#[test]
fn what_is_half_answered_elsewhere_can_be_finished() {
    let run = answered(two(), 1, json!({"action": "accept"}), None);
    let plan = planned(&run, json!([yes("r:i1"), yes("r:i2")])).unwrap();
    assert_eq!(plan.answers.keys().map(|id| id.0).collect::<Vec<_>>(), [2]);
    assert!(
        planned(&run, json!([yes("r:i1")])).unwrap().is_replay(),
        "an old answer told again executes nothing"
    );
}

#[test]
fn after_its_time_an_interrupt_can_only_be_cancelled() {
    let mut request = permission("c1");
    request.timeout_ms = Some(500);
    let run = asking(&[request]);
    assert_eq!(planned_at(&run, json!([yes("r:i1")]), Timestamp(1500)).unwrap_err(), "INTERRUPT_EXPIRED");
    assert!(planned_at(&run, json!([yes("r:i1")]), Timestamp(1499)).is_ok());
    let plan = planned(&run, json!([cancel("r:i1")])).unwrap();
    assert_eq!(plan.expired, [InterruptId(1)]);
    let mut closed = run;
    closed.apply(&event(json!({"type": "interrupt.timed_out", "id": 1})), NOW);
    assert_eq!(planned(&closed, json!([yes("r:i1")])).unwrap_err(), "INTERRUPT_EXPIRED");
    assert!(planned(&closed, json!([cancel("r:i1")])).unwrap().is_replay());
}

#[test]
fn a_run_that_was_cancelled_takes_only_that() {
    let mut run = asking(&[permission("c1")]);
    run.apply(&event(json!({"type": "run.cancelled", "by": "ann"})), NOW);
    assert!(planned(&run, json!([cancel("r:i1")])).unwrap().is_replay());
    assert_eq!(planned(&run, json!([yes("r:i1")])).unwrap_err(), "ALREADY_ANSWERED");
}

#[test]
fn what_the_core_says_no_to_has_a_code_or_is_looked_at_again() {
    assert_eq!(refused(&Refusal::AlreadyResolved), None);
    for (refusal, code) in [
        (Refusal::Expired, "INTERRUPT_EXPIRED"),
        (Refusal::NotAnApprover("ann".to_owned()), "FORBIDDEN"),
        (Refusal::invalid("resumeValue", "no"), "INVALID_PAYLOAD"),
        (Refusal::AlreadyVoted("ann".to_owned()), "ALREADY_ANSWERED"),
    ] {
        assert_eq!(refused(&refusal).unwrap().code, code);
    }
}

#[test]
fn an_array_that_ended_its_run_is_the_same_when_it_comes_again() {
    let unanswerable = holdpoint_core::Request::new(holdpoint_core::Kind::Custom, json!({"customKind": "x"}));
    let mut run = asking(&[permission("c1"), unanswerable]);
    let given = json!([yes("r:i1"), cancel("r:i2")]);
    assert!(planned(&run, given.clone()).unwrap().cancels_run);
    run.apply(&event(json!({"type": "run.cancelled", "by": "ann"})), NOW);
    assert!(planned(&run, given).unwrap().is_replay());
    assert_eq!(planned(&run, json!([yes("r:i1")])).unwrap_err(), "ALREADY_ANSWERED");
}
