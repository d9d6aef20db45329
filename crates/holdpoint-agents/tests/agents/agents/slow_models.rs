//! Agents whose model takes time. The changes that activate their runs execute them until they call the model, and a
//! reply is committed with the outcome that it leads to.

use std::sync::atomic::Ordering;

use holdpoint_agents::EngineAgents;
use holdpoint_engine::CommitFault;
use holdpoint_engine::core::RunRef;
use holdpoint_engine::core::agent::{CallStatus, Role};
use serde_json::{Value, json};

use super::{AgentEnv, agent, call, input, resume, with_tools};
use crate::test_database::on_both;
use crate::test_env::{tenant, with_fault};

on_both! {
    a_run_with_one_approval_needs_four_changes,
    the_start_records_the_entry_of_the_node_and_its_message,
    a_decision_makes_the_calls_of_local_tools,
    a_call_with_effects_begins_under_a_claim,
    a_reply_is_committed_before_a_call_with_effects,
    a_crash_around_each_commit_repeats_no_recorded_reply,
    an_error_of_the_store_does_not_repeat_a_reply,
}

/// One call of `send` and a final reply, each after a millisecond.
fn slow_script() -> Value {
    json!([
        { "calls": [call("c1", "send", json!({ "to": "bob" }))], "delayMs": 1 },
        { "text": "Done.", "delayMs": 1 },
    ])
}

/// An agent with a slow model whose only tool is scripted.
fn with_local_tool() -> Value {
    json!({
        "agentId": "clerk", "model": { "provider": "scripted", "steps": slow_script() },
        "tools": [{ "type": "scripted", "name": "send", "result": { "sent": true } }],
        "permissions": { "default": "ask" },
    })
}

impl AgentEnv {
    /// Starts a run and does not execute it.
    async fn begin(&self) -> RunRef {
        let run = self.env.engine.agents().start(input(None, "please")).await.unwrap();
        RunRef { tenant: tenant(), run: run.id.clone() }
    }

    async fn count(&self, of: &RunRef, role: Role) -> usize {
        self.agent(of).await.messages.iter().filter(|message| message.role == role).count()
    }
}

async fn a_run_with_one_approval_needs_four_changes(agents: AgentEnv) {
    agents.declare(with_local_tool()).await;
    let changes = || agents.env.engine.counters().changes.load(Ordering::SeqCst);
    let before = changes();
    let of = agents.begin().await;
    agents.env.drain().await;
    assert_eq!(agents.env.status(&of).await, "waiting-approval");
    agents.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    agents.env.drain().await;
    assert_eq!(agents.env.status(&of).await, "completed");
    // Without a handoff, the start of each of the two dispatches is recorded in a change of its own.
    assert_eq!(changes() - before, 4 + 2);
}

async fn the_start_records_the_entry_of_the_node_and_its_message(agents: AgentEnv) {
    for definition in [with_local_tool(), agent(&slow_script())] {
        agents.declare(definition).await;
        let of = agents.begin().await;
        let log = agents.env.log(&of).await;
        assert_eq!(log.iter().filter(|event| event.contains("node.started")).count(), 1, "{log:?}");
        assert_eq!((agents.count(&of, Role::User).await, agents.agent(&of).await.steps), (1, 0));
        agents.env.drain().await;
        let log = agents.env.log(&of).await;
        assert_eq!(log.iter().filter(|event| event.contains("node.started")).count(), 1, "{log:?}");
        assert_eq!(agents.count(&of, Role::User).await, 1, "the worker does not repeat the message");
        assert_eq!(agents.env.status(&of).await, "waiting-approval");
    }
}

async fn a_decision_makes_the_calls_of_local_tools(agents: AgentEnv) {
    agents.declare(with_local_tool()).await;
    let of = agents.begin().await;
    agents.env.drain().await;
    agents.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    assert_eq!(agents.call(&of, "c1").await, CallStatus::Succeeded);
    assert_eq!(agents.env.status(&of).await, "running", "a worker calls the model");
    let agents = agents.reopen().await;
    agents.env.drain().await;
    assert_eq!(agents.env.status(&of).await, "completed");
    assert_eq!(agents.count(&of, Role::Tool).await, 1);
}

/// A call that began in the change of the decision would have an unknown outcome for the worker.
async fn a_call_with_effects_begins_under_a_claim(agents: AgentEnv) {
    agents.declare(agent(&slow_script())).await;
    let of = agents.begin().await;
    agents.env.drain().await;
    agents.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    assert_eq!(agents.call(&of, "c1").await, CallStatus::Resuming);
    assert_eq!(agents.calls().len(), 0);
    let agents = agents.reopen().await;
    agents.env.drain().await;
    assert_eq!((agents.env.status(&of).await, agents.calls().len()), ("completed", 1));
}

async fn a_reply_is_committed_before_a_call_with_effects(agents: AgentEnv) {
    let steps = json!([
        { "calls": [call("c1", "look", json!({ "to": "bob" }))], "delayMs": 1 },
        { "text": "Done.", "delayMs": 1 },
    ]);
    agents.declare(agent(&steps)).await;
    let of = agents.begin().await;
    let before = agents.env.engine.counters().changes.load(Ordering::SeqCst);
    agents.env.drain().await;
    assert_eq!((agents.env.status(&of).await, agents.calls().len()), ("completed", 1));
    // The start of the dispatch, the reply, the result of the call, and the last reply with the end.
    assert_eq!(agents.env.engine.counters().changes.load(Ordering::SeqCst) - before, 4);
}

async fn a_crash_around_each_commit_repeats_no_recorded_reply(mut agents: AgentEnv) {
    agents.declare(agent(&slow_script())).await;
    let faults = (1..=9).flat_map(|n| {
        [
            CommitFault::StopBefore(n),
            CommitFault::StopAfter(n),
            CommitFault::LoseConnectionBefore(n),
            CommitFault::LoseConnectionAfter(n),
        ]
    });
    for fault in faults {
        agents.calls.lock().unwrap().clear();
        let AgentEnv { env, calls } = agents;
        let env = env.reopen(|options| with_tools(&calls)(with_fault(fault)(options))).await;
        let started = env.engine.agents().start(input(None, "please")).await;
        let _ = env.engine.worker().drain().await;
        if let Ok(run) = &started {
            let of = RunRef { tenant: tenant(), run: run.id.clone() };
            let _ = super::decide(&env.engine, &of, "c1", &resume("d1", Value::Null)).await;
        }
        let _ = env.engine.worker().drain().await;
        agents = AgentEnv { env: env.reopen(with_tools(&calls)).await, calls };
        let Ok(run) = started else { continue };
        let of = RunRef { tenant: tenant(), run: run.id.clone() };
        agents.env.drain().await;
        if agents.env.status(&of).await == "waiting-approval" && agents.calls().is_empty() {
            agents.decide(&of, "c1", &resume("d2", Value::Null)).await.unwrap();
            agents.env.drain().await;
        }
        assert!(agents.calls().len() <= 1, "{fault:?}: the call was made twice");
        let (status, replies) = (agents.env.status(&of).await, agents.agent(&of).await.steps);
        match status {
            "completed" => assert_eq!((replies, agents.count(&of, Role::Tool).await), (2, 1), "{fault:?}"),
            // The call began and its result was not recorded: its outcome is unknown.
            "waiting-approval" => assert_eq!((replies, agents.calls().len()), (1, 1), "{fault:?}"),
            other => panic!("{fault:?}: {other}"),
        }
    }
}

async fn an_error_of_the_store_does_not_repeat_a_reply(mut agents: AgentEnv) {
    agents.declare(with_local_tool()).await;
    for failed in 1..=4 {
        let of = agents.begin().await;
        let AgentEnv { env, calls } = agents;
        let fault = CommitFault::Fail(failed);
        let env = env.reopen(|options| with_tools(&calls)(with_fault(fault)(options))).await;
        let _ = env.engine.worker().drain().await;
        agents = AgentEnv { env, calls };
        if failed >= 3 {
            // The reply is committed by the same claim, without the delay of a new attempt.
            assert_eq!(agents.env.status(&of).await, "waiting-approval", "{failed}");
        }
        agents.env.clock.advance(600_000);
        agents.env.drain().await;
        assert_eq!(agents.env.status(&of).await, "waiting-approval", "{failed}");
        assert_eq!(agents.agent(&of).await.steps, 1, "{failed}");
        agents = agents.reopen().await;
    }
}
