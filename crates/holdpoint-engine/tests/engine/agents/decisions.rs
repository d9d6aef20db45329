//! Waiting and deciding: cases 75 to 85 of the mailbox contract.

use holdpoint_engine::Error;
use holdpoint_engine::core::Refusal;
use holdpoint_engine::core::agent::CallStatus;
use serde_json::{Value, json};

use super::{Office, agent, call, decide, furnished, refuse, resume, sends};
use crate::place::on_both;

on_both! {
    a_run_that_waits_holds_nothing,
    an_approved_call_is_made_once_by_whoever_comes_after_a_restart,
    a_decision_told_twice_even_at_once_is_one_decision,
    another_decision_under_a_name_or_about_a_decided_call_is_refused,
    a_decision_about_nothing_harms_nothing,
    of_two_calls_the_decided_one_is_made_and_the_other_waits,
    two_decisions_before_anybody_looks_share_one_dispatch,
    an_agent_that_waits_for_all_is_woken_by_the_last,
    a_claim_that_is_lost_leaves_the_decision_to_be_carried_out_once,
    a_refused_call_is_not_made_and_the_agent_goes_on,
    each_resume_mode_does_what_it_says,
    a_result_that_breaks_the_schema_leaves_the_ticket_open,
}

async fn a_run_that_waits_holds_nothing(office: Office) {
    let of = office.asked(&sends()).await;
    assert_eq!(office.house.status(&of).await, "waiting-approval");
    assert_eq!(office.call(&of, "c1").await, CallStatus::Suspended);
    assert_eq!(office.dispatches().await, [("acked".to_owned(), 1)].into());
    let open = office.house.engine.open_run(&of.tenant, office.house.run(&of).await.thread()).await.unwrap();
    assert_eq!(open, Some(of.clone()));
    assert_eq!(office.house.pending().await, ["agent"]);
    assert_eq!(office.calls(), []);
}

async fn an_approved_call_is_made_once_by_whoever_comes_after_a_restart(office: Office) {
    let of = office.asked(&sends()).await;
    let office = office.reopened().await;
    office.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    assert_eq!(office.calls(), [], "nothing is done before a worker comes");
    let office = office.reopened().await;
    let other = office.house.second_engine(furnished(&office.calls)).await;
    other.worker().drain().await.unwrap();
    assert_eq!(office.calls(), [("c1".to_owned(), json!({ "to": "bob" }))]);
    let run = other.run(&of).await.unwrap();
    assert_eq!((run.status().as_str(), &run.id), ("completed", &of.run));
    office.house.drain().await;
    assert_eq!(office.calls().len(), 1);
}

async fn a_decision_told_twice_even_at_once_is_one_decision(office: Office) {
    let of = office.asked(&sends()).await;
    let other = office.house.second_engine(furnished(&office.calls)).await;
    let how = resume("d1", Value::Null);
    let both = tokio::join!(office.decide(&of, "c1", &how), decide(&other, &of, "c1", &how));
    let (one, two) = (both.0.unwrap(), both.1.unwrap());
    assert_eq!(one.interrupts, two.interrupts);
    office.decide(&of, "perm_c1", &how).await.unwrap();
    assert_eq!(office.dispatches().await, [("acked".to_owned(), 1), ("queued".to_owned(), 1)].into());
    office.house.drain().await;
    assert_eq!(office.calls().len(), 1);
    office.decide(&of, "c1", &how).await.unwrap();
    assert_eq!(office.house.status(&of).await, "completed");
}

async fn another_decision_under_a_name_or_about_a_decided_call_is_refused(office: Office) {
    let of = office.asked(&sends()).await;
    office.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    let other_body = office.decide(&of, "c1", &refuse("d1")).await.unwrap_err();
    assert!(matches!(other_body, Error::Refused(Refusal::DecisionConflict(_))), "{other_body}");
    let late = office.decide(&of, "c1", &resume("d2", Value::Null)).await.unwrap_err();
    assert!(matches!(late, Error::Refused(Refusal::AlreadyResolved)), "{late}");
}

async fn a_decision_about_nothing_harms_nothing(office: Office) {
    let of = office.asked(&sends()).await;
    let unknown = office.decide(&of, "c9", &resume("d1", Value::Null)).await.unwrap_err();
    assert!(matches!(unknown, Error::Refused(Refusal::InterruptNotFound)), "{unknown}");
    assert_eq!(office.house.status(&of).await, "waiting-approval");
    office.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    office.house.drain().await;
    assert_eq!(office.house.status(&of).await, "completed");
}

fn two() -> Value {
    let calls = [call("c1", "send", json!({ "to": "bob" })), call("c2", "send", json!({ "to": "eve" }))];
    json!([{ "calls": calls }, { "text": "Both." }])
}

async fn of_two_calls_the_decided_one_is_made_and_the_other_waits(office: Office) {
    let of = office.asked(&two()).await;
    office.decide(&of, "c2", &resume("d2", Value::Null)).await.unwrap();
    office.house.drain().await;
    assert_eq!(office.calls(), [("c2".to_owned(), json!({ "to": "eve" }))]);
    assert_eq!(office.house.status(&of).await, "waiting-approval");
    assert_eq!(office.house.pending().await.len(), 1);
    office.decide(&of, "c1", &refuse("d1")).await.unwrap();
    office.house.drain().await;
    assert_eq!(office.calls().len(), 1);
    assert_eq!(office.house.status(&of).await, "completed");
}

async fn two_decisions_before_anybody_looks_share_one_dispatch(office: Office) {
    let of = office.asked(&two()).await;
    office.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    office.decide(&of, "c2", &resume("d2", Value::Null)).await.unwrap();
    assert_eq!(office.dispatches().await, [("acked".to_owned(), 1), ("queued".to_owned(), 1)].into());
    office.house.drain().await;
    assert_eq!(office.calls().len(), 2);
    assert_eq!(office.house.status(&of).await, "completed");
    assert_eq!(office.dispatches().await, [("acked".to_owned(), 2)].into());
}

async fn an_agent_that_waits_for_all_is_woken_by_the_last(office: Office) {
    let mut definition = agent(&two());
    definition["resume"] = json!("wait_all");
    office.hire(definition).await;
    let of = office.told(None, "please").await;
    office.decide(&of, "c2", &resume("d2", Value::Null)).await.unwrap();
    assert_eq!(office.dispatches().await, [("acked".to_owned(), 1)].into());
    assert_eq!(office.house.drain().await, 0);
    office.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    office.house.drain().await;
    assert_eq!(office.calls().len(), 2);
    assert_eq!(office.house.status(&of).await, "completed");
}

async fn a_claim_that_is_lost_leaves_the_decision_to_be_carried_out_once(office: Office) {
    let of = office.asked(&sends()).await;
    office.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    // Somebody claims it, and is gone before anything is written.
    let thread = office.house.run(&of).await.thread().to_owned();
    let mailbox = office.house.engine.mailbox(&of.tenant);
    let now = office.house.clock.now();
    assert_eq!(mailbox.claim(&thread, "ghost", 1000, now, 1).await.unwrap().len(), 1);
    assert_eq!(office.house.drain().await, 0);
    office.house.clock.advance(60_000);
    office.house.drain().await;
    assert_eq!(office.calls().len(), 1);
    assert_eq!(office.house.status(&of).await, "completed");
}

async fn a_refused_call_is_not_made_and_the_agent_goes_on(office: Office) {
    let of = office.asked(&sends()).await;
    office.decide(&of, "c1", &refuse("d1")).await.unwrap();
    office.house.drain().await;
    assert_eq!(office.calls(), []);
    assert_eq!(office.call(&of, "c1").await, CallStatus::Cancelled);
    assert_eq!(office.house.status(&of).await, "completed");
    let told = office.agent(&of).await.messages[2].text();
    assert!(told.is_empty() && office.agent(&of).await.messages[2].content["cancelled"] == "not today");
}

async fn each_resume_mode_does_what_it_says(office: Office) {
    let given = json!({ "n": 3 });
    let first = json!({ "to": "bob" });
    let expected = [
        ("replay", vec![first.clone(), first.clone()], json!({ "sent": first })),
        ("answer", vec![first.clone()], given.clone()),
        (
            "pass",
            vec![first.clone(), json!({ "to": "bob", "n": 3 })],
            json!({ "sent": { "to": "bob", "n": 3 } }),
        ),
    ];
    for (tool, ran_with, result) in expected {
        office.calls.lock().unwrap().clear();
        let of = office.asked(&json!([{ "calls": [call("c1", tool, first.clone())] }])).await;
        assert_eq!(office.house.status(&of).await, "waiting-input", "{tool}");
        office.decide(&of, "wants_c1", &resume("d1", given.clone())).await.unwrap();
        office.house.drain().await;
        assert_eq!(office.calls().into_iter().map(|(_, with)| with).collect::<Vec<_>>(), ran_with, "{tool}");
        assert_eq!(office.agent(&of).await.messages[2].content, result, "{tool}");
        assert_eq!(office.house.status(&of).await, "completed");
    }
}

async fn a_result_that_breaks_the_schema_leaves_the_ticket_open(office: Office) {
    let of = office.asked(&json!([{ "calls": [call("c1", "pass", json!({}))] }])).await;
    let bad = office.decide(&of, "c1", &resume("d1", json!({ "m": 1 }))).await.unwrap_err();
    assert!(matches!(bad, Error::Refused(Refusal::InvalidRequest { .. })), "{bad}");
    assert_eq!(office.call(&of, "c1").await, CallStatus::Suspended);
    office.decide(&of, "c1", &resume("d1", json!({ "n": 1 }))).await.unwrap();
    office.house.drain().await;
    assert_eq!(office.house.status(&of).await, "completed");
}
