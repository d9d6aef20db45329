//! Cancellation, interruption of threads and input modes: cases 86 to 88 of the mailbox contract.

use holdpoint_agents::{AgentInput, EngineAgents};
use holdpoint_engine::core::agent::CallStatus;
use holdpoint_engine::core::mailbox::{DispatchOptions, MailboxError, RunDispatch, RunDispatchStatus};
use holdpoint_engine::core::{Principal, Refusal, RunRef, StartRequest, Timestamp};
use holdpoint_engine::{Error, InputMode, WaitingRun};
use serde_json::{Value, json};

use super::{AgentEnv, agent, call, input, reject, resume, send_script, with_tools};
use crate::test_database::on_both;
use crate::test_env::{NOON, alice, tenant};

on_both! {
    a_cancelled_run_rejects_decisions,
    a_new_message_cancels_the_suspended_call_and_continues_the_run,
    a_call_is_made_only_if_its_decision_wins_against_a_cancellation,
    interrupting_a_thread_cancels_its_run_unless_waiting_runs_are_kept,
    input_continues_the_open_run_or_starts_one,
    input_with_the_key_of_a_live_dispatch_cancels_nothing,
    messages_to_a_delayed_run_wait_for_its_instant,
    messages_to_an_urgent_run_have_the_normal_priority,
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

/// Returns input whose start has these dispatch options.
fn input_with(text: &str, dispatch: DispatchOptions) -> AgentInput {
    let input = input(Some("t"), text);
    let start = StartRequest { dispatch, ..StartRequest::new(input.owner.clone()) };
    AgentInput { start: Some(Box::new(start)), ..input }
}

async fn queue_of(agents: &AgentEnv) -> Vec<RunDispatch> {
    let mailbox = agents.env.engine.mailbox(&tenant());
    mailbox.list_dispatches("t", Some(&[RunDispatchStatus::Queued]), 10, 0).await.unwrap()
}

/// An agent whose replies need a worker.
fn slow_agent() -> Value {
    agent(&json!([{ "text": "Done.", "delayMs": 1 }]))
}

async fn input_with_the_key_of_a_live_dispatch_cancels_nothing(agents: AgentEnv) {
    agents.declare(slow_agent()).await;
    let say = async |text: &str, mode| {
        let keyed = DispatchOptions { dedupe_key: Some("daily".to_owned()), ..DispatchOptions::default() };
        agents.env.engine.agents().send_input(input_with(text, keyed), mode).await
    };
    let first = say("one", InputMode::Queue).await.unwrap();
    let refused = say("two", InputMode::InterruptThenQueue).await;
    assert!(matches!(refused, Err(Error::Mailbox(MailboxError::DuplicateKey { .. }))), "{refused:?}");
    let of = RunRef { tenant: tenant(), run: first.id.clone() };
    assert_ne!(agents.env.status(&of).await, "cancelled");
    agents.env.drain().await;
    assert_ne!(say("three", InputMode::InterruptThenQueue).await.unwrap().id, first.id);
}

async fn messages_to_a_delayed_run_wait_for_its_instant(agents: AgentEnv) {
    agents.declare(slow_agent()).await;
    let at = Some(Timestamp(NOON + 5000));
    let delayed = || DispatchOptions { available_at: at, ..DispatchOptions::default() };
    let say = async |text: &str, dispatch| {
        agents.env.engine.agents().send_input(input_with(text, dispatch), InputMode::Queue).await
    };
    let first = say("one", delayed()).await.unwrap();
    assert_eq!(say("two", DispatchOptions::default()).await.unwrap().id, first.id);
    let refused = say("three", delayed()).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::InvalidRequest { .. }))), "{refused:?}");
    assert_eq!((agents.env.drain().await, queue_of(&agents).await.len()), (0, 1));
    agents.env.clock.advance(5000);
    agents.env.drain().await;
    let of = RunRef { tenant: tenant(), run: first.id.clone() };
    assert_eq!(agents.env.status(&of).await, "completed");
}

async fn messages_to_an_urgent_run_have_the_normal_priority(agents: AgentEnv) {
    let steps = json!([{ "calls": [call("c1", "send", json!({}))] }, { "text": "Done.", "delayMs": 1 }]);
    agents.declare(agent(&steps)).await;
    let priority = |priority| DispatchOptions { priority, ..DispatchOptions::default() };
    for (of_start, of_message, expected) in
        [(Some(7), None, 128), (Some(7), Some(9), 9), (Some(200), None, 200)]
    {
        let started = input_with("one", priority(of_start));
        let mode = InputMode::InterruptThenQueue;
        agents.env.engine.agents().send_input(started, mode).await.unwrap();
        agents.env.drain().await;
        let message = input_with("two", priority(of_message));
        agents.env.engine.agents().send_input(message, InputMode::Queue).await.unwrap();
        let queued: Vec<_> = queue_of(&agents).await.iter().map(|row| row.priority).collect();
        assert_eq!(queued, [expected], "{of_start:?} {of_message:?}");
        agents.env.drain().await;
    }
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
