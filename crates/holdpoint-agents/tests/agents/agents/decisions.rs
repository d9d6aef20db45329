//! Suspended calls and their decisions: cases 75 to 85 of the mailbox contract.

use holdpoint_engine::Error;
use holdpoint_engine::core::Refusal;
use holdpoint_engine::core::agent::CallStatus;
use serde_json::{Value, json};

use super::{AgentEnv, agent, call, decide, reject, resume, send_script, with_tools};
use crate::test_database::on_both;

on_both! {
    a_waiting_run_holds_no_dispatch,
    an_approved_call_is_made_once_after_a_restart,
    a_repeated_or_concurrent_decision_counts_once,
    a_decision_with_a_reused_id_or_for_a_decided_call_is_rejected,
    a_decision_for_an_unknown_call_is_rejected,
    of_two_calls_the_decided_one_is_made_and_the_other_waits,
    two_decisions_before_a_claim_share_one_dispatch,
    an_agent_with_wait_all_is_activated_by_the_last_decision,
    a_decision_is_carried_out_once_after_a_claim_is_lost,
    a_rejected_call_is_not_made_and_the_agent_continues,
    each_resume_mode_determines_the_calls_and_the_result,
    a_result_that_violates_the_schema_leaves_the_ticket_open,
}

async fn a_waiting_run_holds_no_dispatch(agents: AgentEnv) {
    let of = agents.run_script(&send_script()).await;
    assert_eq!(agents.env.status(&of).await, "waiting-approval");
    assert_eq!(agents.call(&of, "c1").await, CallStatus::Suspended);
    assert_eq!(agents.dispatches().await, [("acked".to_owned(), 1)].into());
    let open =
        agents.env.engine.threads().open_run(&of.tenant, agents.env.run(&of).await.thread()).await.unwrap();
    assert_eq!(open, Some(of.clone()));
    assert_eq!(agents.env.pending().await, ["agent"]);
    assert_eq!(agents.calls(), []);
}

async fn an_approved_call_is_made_once_after_a_restart(agents: AgentEnv) {
    let of = agents.run_script(&send_script()).await;
    let agents = agents.reopen().await;
    agents.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    assert_eq!(agents.calls(), [], "no call is made before a worker claims the dispatch");
    let agents = agents.reopen().await;
    let other = agents.env.second_engine(with_tools(&agents.calls)).await;
    other.worker().drain().await.unwrap();
    assert_eq!(agents.calls(), [("c1".to_owned(), json!({ "to": "bob" }))]);
    let run = other.runs().get(&of).await.unwrap();
    assert_eq!((run.status().as_str(), &run.id), ("completed", &of.run));
    agents.env.drain().await;
    assert_eq!(agents.calls().len(), 1);
}

async fn a_repeated_or_concurrent_decision_counts_once(agents: AgentEnv) {
    let of = agents.run_script(&send_script()).await;
    let other = agents.env.second_engine(with_tools(&agents.calls)).await;
    let how = resume("d1", Value::Null);
    let both = tokio::join!(agents.decide(&of, "c1", &how), decide(&other, &of, "c1", &how));
    let (one, two) = (both.0.unwrap(), both.1.unwrap());
    assert_eq!(one.interrupts, two.interrupts);
    agents.decide(&of, "perm_c1", &how).await.unwrap();
    assert_eq!(agents.dispatches().await, [("acked".to_owned(), 1), ("queued".to_owned(), 1)].into());
    agents.env.drain().await;
    assert_eq!(agents.calls().len(), 1);
    agents.decide(&of, "c1", &how).await.unwrap();
    assert_eq!(agents.env.status(&of).await, "completed");
}

async fn a_decision_with_a_reused_id_or_for_a_decided_call_is_rejected(agents: AgentEnv) {
    let of = agents.run_script(&send_script()).await;
    agents.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    let other_body = agents.decide(&of, "c1", &reject("d1")).await.unwrap_err();
    assert!(matches!(other_body, Error::Refused(Refusal::DecisionConflict(_))), "{other_body}");
    let late = agents.decide(&of, "c1", &resume("d2", Value::Null)).await.unwrap_err();
    assert!(matches!(late, Error::Refused(Refusal::AlreadyResolved)), "{late}");
}

async fn a_decision_for_an_unknown_call_is_rejected(agents: AgentEnv) {
    let of = agents.run_script(&send_script()).await;
    let unknown = agents.decide(&of, "c9", &resume("d1", Value::Null)).await.unwrap_err();
    assert!(matches!(unknown, Error::Refused(Refusal::InterruptNotFound)), "{unknown}");
    assert_eq!(agents.env.status(&of).await, "waiting-approval");
    agents.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    agents.env.drain().await;
    assert_eq!(agents.env.status(&of).await, "completed");
}

fn two() -> Value {
    let calls = [call("c1", "send", json!({ "to": "bob" })), call("c2", "send", json!({ "to": "eve" }))];
    json!([{ "calls": calls }, { "text": "Both." }])
}

async fn of_two_calls_the_decided_one_is_made_and_the_other_waits(agents: AgentEnv) {
    let of = agents.run_script(&two()).await;
    agents.decide(&of, "c2", &resume("d2", Value::Null)).await.unwrap();
    agents.env.drain().await;
    assert_eq!(agents.calls(), [("c2".to_owned(), json!({ "to": "eve" }))]);
    assert_eq!(agents.env.status(&of).await, "waiting-approval");
    assert_eq!(agents.env.pending().await.len(), 1);
    agents.decide(&of, "c1", &reject("d1")).await.unwrap();
    agents.env.drain().await;
    assert_eq!(agents.calls().len(), 1);
    assert_eq!(agents.env.status(&of).await, "completed");
}

async fn two_decisions_before_a_claim_share_one_dispatch(agents: AgentEnv) {
    let of = agents.run_script(&two()).await;
    agents.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    agents.decide(&of, "c2", &resume("d2", Value::Null)).await.unwrap();
    assert_eq!(agents.dispatches().await, [("acked".to_owned(), 1), ("queued".to_owned(), 1)].into());
    agents.env.drain().await;
    assert_eq!(agents.calls().len(), 2);
    assert_eq!(agents.env.status(&of).await, "completed");
    assert_eq!(agents.dispatches().await, [("acked".to_owned(), 2)].into());
}

async fn an_agent_with_wait_all_is_activated_by_the_last_decision(agents: AgentEnv) {
    let mut definition = agent(&two());
    definition["resume"] = json!("wait_all");
    agents.declare(definition).await;
    let of = agents.send(None, "please").await;
    agents.decide(&of, "c2", &resume("d2", Value::Null)).await.unwrap();
    assert_eq!(agents.dispatches().await, [("acked".to_owned(), 1)].into());
    assert_eq!(agents.env.drain().await, 0);
    agents.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    agents.env.drain().await;
    assert_eq!(agents.calls().len(), 2);
    assert_eq!(agents.env.status(&of).await, "completed");
}

async fn a_decision_is_carried_out_once_after_a_claim_is_lost(agents: AgentEnv) {
    let of = agents.run_script(&send_script()).await;
    agents.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    // A mailbox client claims the dispatch and writes no result.
    let thread = agents.env.run(&of).await.thread().to_owned();
    let mailbox = agents.env.engine.mailbox(&of.tenant);
    let now = agents.env.clock.now();
    assert_eq!(mailbox.claims().claim(&thread, "lost", 1000, now, 1).await.unwrap().len(), 1);
    assert_eq!(agents.env.drain().await, 0);
    agents.env.clock.advance(60_000);
    agents.env.drain().await;
    assert_eq!(agents.calls().len(), 1);
    assert_eq!(agents.env.status(&of).await, "completed");
}

async fn a_rejected_call_is_not_made_and_the_agent_continues(agents: AgentEnv) {
    let of = agents.run_script(&send_script()).await;
    agents.decide(&of, "c1", &reject("d1")).await.unwrap();
    agents.env.drain().await;
    assert_eq!(agents.calls(), []);
    assert_eq!(agents.call(&of, "c1").await, CallStatus::Cancelled);
    assert_eq!(agents.env.status(&of).await, "completed");
    let text = agents.agent(&of).await.messages[2].text();
    assert!(text.is_empty() && agents.agent(&of).await.messages[2].content["cancelled"] == "not today");
}

async fn each_resume_mode_determines_the_calls_and_the_result(agents: AgentEnv) {
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
        agents.calls.lock().unwrap().clear();
        let of = agents.run_script(&json!([{ "calls": [call("c1", tool, first.clone())] }])).await;
        assert_eq!(agents.env.status(&of).await, "waiting-input", "{tool}");
        agents.decide(&of, "wants_c1", &resume("d1", given.clone())).await.unwrap();
        agents.env.drain().await;
        assert_eq!(agents.calls().into_iter().map(|(_, with)| with).collect::<Vec<_>>(), ran_with, "{tool}");
        assert_eq!(agents.agent(&of).await.messages[2].content, result, "{tool}");
        assert_eq!(agents.env.status(&of).await, "completed");
    }
}

async fn a_result_that_violates_the_schema_leaves_the_ticket_open(agents: AgentEnv) {
    let of = agents.run_script(&json!([{ "calls": [call("c1", "pass", json!({}))] }])).await;
    let bad = agents.decide(&of, "c1", &resume("d1", json!({ "m": 1 }))).await.unwrap_err();
    assert!(matches!(bad, Error::Refused(Refusal::InvalidRequest { .. })), "{bad}");
    assert_eq!(agents.call(&of, "c1").await, CallStatus::Suspended);
    agents.decide(&of, "c1", &resume("d1", json!({ "n": 1 }))).await.unwrap();
    agents.env.drain().await;
    assert_eq!(agents.env.status(&of).await, "completed");
}
