//! Cancellation, interruption of threads and input modes: cases 86 to 88 of the mailbox contract.

use holdpoint_agents::EngineAgents;
use holdpoint_engine::core::agent::CallStatus;
use holdpoint_engine::core::{Principal, Refusal};
use holdpoint_engine::{Error, InputMode, WaitingRun};
use serde_json::{Value, json};

use super::{AgentEnv, agent, call, input, reject, resume, send_script, with_tools};
use crate::test_database::on_both;
use crate::test_env::{alice, tenant};

on_both! {
    a_cancelled_run_rejects_decisions,
    a_new_message_cancels_the_suspended_call_and_continues_the_run,
    a_call_is_made_only_if_its_decision_wins_against_a_cancellation,
    interrupting_a_thread_cancels_its_run_unless_waiting_runs_are_kept,
    input_continues_the_open_run_or_starts_one,
    principals_that_instructed_the_agent_cannot_approve_its_calls,
}

async fn a_cancelled_run_rejects_decisions(agents: AgentEnv) {
    let of = agents.run_script(&send_script()).await;
    let thread = agents.env.run(&of).await.thread().to_owned();
    agents.env.engine.runs().cancel(&of, None, alice()).await.unwrap();
    assert_eq!(agents.env.status(&of).await, "cancelled");
    assert_eq!(agents.env.engine.threads().open_run(&tenant(), &thread).await.unwrap(), None);
    assert!(agents.env.pending().await.is_empty());
    let late = agents.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap_err();
    assert!(matches!(late, Error::Refused(Refusal::InterruptCancelled)), "{late}");
    agents.env.engine.runs().cancel(&of, None, alice()).await.unwrap();
    assert_eq!((agents.env.drain().await, agents.calls()), (0, Vec::new()));
}

async fn a_new_message_cancels_the_suspended_call_and_continues_the_run(agents: AgentEnv) {
    let of = agents.run_script(&send_script()).await;
    let thread = agents.env.run(&of).await.thread().to_owned();
    let run = agents
        .env
        .engine
        .agents()
        .send_input(input(Some(&thread), "never mind"), InputMode::Queue)
        .await
        .unwrap();
    assert_eq!(run.id, of.run);
    agents.env.drain().await;
    assert_eq!(agents.call(&of, "c1").await, CallStatus::Cancelled);
    assert_eq!((agents.env.status(&of).await, agents.calls()), ("completed", Vec::new()));
    assert!(agents.env.pending().await.is_empty());
}

async fn a_call_is_made_only_if_its_decision_wins_against_a_cancellation(agents: AgentEnv) {
    agents.declare(agent(&send_script())).await;
    let other = agents.env.second_engine(with_tools(&agents.calls)).await;
    let mut made = 0;
    for _ in 0..100 {
        let of = agents.send(None, "please").await;
        let how = resume("d1", Value::Null);
        let (decided, cancelled) =
            tokio::join!(agents.decide(&of, "c1", &how), other.runs().cancel(&of, None, alice()));
        assert!(cancelled.is_ok());
        let before = agents.calls().len();
        agents.env.drain().await;
        let run = agents.env.engine.runs().get(&of).await.unwrap();
        // If the cancellation wins, the call is not made.
        assert!(run.finished());
        if agents.calls().len() > before {
            made += 1;
            assert!(decided.is_ok());
        }
        assert_eq!(agents.dispatches().await.get("claimed"), None);
    }
    assert_eq!(agents.calls().len(), made);
    assert_eq!(agents.dispatches().await.get("queued"), None);
}

async fn interrupting_a_thread_cancels_its_run_unless_waiting_runs_are_kept(agents: AgentEnv) {
    let of = agents.run_script(&send_script()).await;
    let thread = agents.env.run(&of).await.thread().to_owned();
    let engine = &agents.env.engine;
    let kept = engine.threads().interrupt(&tenant(), &thread, WaitingRun::Keep, alice()).await.unwrap();
    assert_eq!((kept.mail.new_dispatch_epoch, kept.cancelled), (1, None));
    assert_eq!(agents.env.status(&of).await, "waiting-approval");
    agents.decide(&of, "c1", &reject("d1")).await.unwrap();
    let ended = engine.threads().interrupt(&tenant(), &thread, WaitingRun::Cancel, alice()).await.unwrap();
    assert_eq!((ended.mail.superseded_count, ended.cancelled), (1, Some(of.run.clone())));
    assert_eq!(agents.env.status(&of).await, "cancelled");
    agents.env.drain().await;
    assert_eq!(agents.calls(), []);
    let again = engine.threads().interrupt(&tenant(), &thread, WaitingRun::Cancel, alice()).await.unwrap();
    assert_eq!((again.mail.superseded_count, again.cancelled), (0, None));
}

async fn input_continues_the_open_run_or_starts_one(agents: AgentEnv) {
    let steps = json!([{ "calls": [call("c1", "send", json!({}))] }, { "text": "Done." }]);
    agents.declare(agent(&steps)).await;
    let engine = &agents.env.engine;
    let none =
        engine.agents().send_input(input(Some("t"), "hello"), InputMode::ResumeOpenRun).await.unwrap_err();
    assert!(matches!(none, Error::NotFound("open run")), "{none}");
    let first = engine.agents().send_input(input(Some("t"), "hello"), InputMode::Queue).await.unwrap();
    let busy = engine.agents().start(input(Some("t"), "me too")).await.unwrap_err();
    assert!(matches!(&busy, Error::ScopeBusy { active_run } if *active_run == first.id), "{busy}");
    agents.env.drain().await;
    let second =
        engine.agents().send_input(input(Some("t"), "stop"), InputMode::InterruptThenQueue).await.unwrap();
    assert_ne!(first.id, second.id);
    agents.env.drain().await;
    let runs = engine.threads().runs(&tenant(), "t", None, 10).await.unwrap();
    let states: Vec<_> = runs.iter().map(|run| run.status.as_str()).collect();
    assert_eq!(states, ["waiting-approval", "cancelled"]);
}

async fn principals_that_instructed_the_agent_cannot_approve_its_calls(agents: AgentEnv) {
    let mut definition = agent(&send_script());
    definition["approval"] = json!({ "requesterMayNotApprove": true });
    agents.declare(definition).await;
    // The tester starts the run with a message of Bob.
    let mut input = input(None, "send it");
    input.messages[0].by = Some("bob".to_owned());
    let run = agents.env.engine.agents().start(input).await.unwrap();
    let of = holdpoint_engine::core::RunRef { tenant: tenant(), run: run.id.clone() };
    agents.env.drain().await;
    let decide = async |who: &str| {
        let how = resume(who, Value::Null);
        agents.env.engine.agents().decide_call(&of, "c1", &how, Principal::named(who)).await
    };
    for who in ["bob", "tester"] {
        let refused = decide(who).await.unwrap_err();
        assert!(matches!(refused, Error::Refused(Refusal::OwnRequest(_))), "{who}: {refused:?}");
    }
    decide("ann").await.unwrap();
    agents.env.drain().await;
    assert_eq!((agents.env.status(&of).await, agents.calls().len()), ("completed", 1));
}
