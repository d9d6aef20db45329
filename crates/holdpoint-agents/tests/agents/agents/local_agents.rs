//! Local agents: a scripted model with scripted tools needs no worker. Its results are part of the change that
//! activates it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use holdpoint_agents::tool::{Call, CallFuture, ListFuture, ToolSpec, Toolbox};
use holdpoint_agents::{AgentRuntime, AgentSettings, EngineAgents};
use holdpoint_engine::core::agent::{CallStatus, Role};
use holdpoint_engine::core::{ForkMode, RunRef, Status, TenantId};
use holdpoint_engine::{CommitFault, ForkRequest, Options, Overlay};
use serde_json::{Value, json};

use super::{AgentEnv, agent_of, call, input, reject, resume};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, alice, tenant, with_fault};

on_both! {
    a_local_agent_needs_two_changes_and_no_worker,
    approvals_and_rejections_are_carried_out_with_the_decision,
    agents_with_delays_or_other_tools_need_a_worker,
    an_agent_in_a_named_thread_needs_a_worker,
    a_node_after_a_local_agent_executes_in_the_same_change,
    a_crash_around_the_commit_of_a_decision_keeps_all_of_it_or_none,
    a_local_agent_run_either_completes_or_is_cancelled_when_both_race,
    a_repeated_decision_applies_to_the_interrupt_that_received_it,
    a_long_script_needs_a_worker_and_several_changes,
    a_local_tool_that_panics_is_left_to_a_worker,
    a_replay_of_a_local_agent_run_is_identical,
}

/// An agent whose only tool is scripted.
fn scripted(steps: &Value, tool: &Value) -> Value {
    let mut send = json!({ "type": "scripted", "name": "send", "result": { "sent": "{{arguments}}" } });
    send.as_object_mut().unwrap().extend(tool.as_object().unwrap().clone());
    json!({
        "agentId": "clerk", "model": { "provider": "scripted", "steps": steps }, "tools": [send],
        "permissions": { "default": "ask" },
    })
}

fn two_sends() -> Value {
    let calls = [call("c1", "send", json!({ "to": "bob" })), call("c2", "send", json!({ "to": "ann" }))];
    json!([{ "text": "I send both.", "calls": calls }, { "text": "Done." }])
}

fn one_send() -> Value {
    json!([{ "calls": [call("c1", "send", json!({ "to": "bob" }))] }, { "text": "Done." }])
}

impl AgentEnv {
    /// Starts a run without a worker.
    async fn start_run(&self, thread: Option<&str>) -> RunRef {
        let run = self.env.engine.agents().start(input(thread, "please")).await.unwrap();
        RunRef { tenant: tenant(), run: run.id.clone() }
    }

    fn changes(&self) -> u64 {
        self.env.engine.counters().changes.load(Ordering::SeqCst)
    }
}

async fn a_local_agent_needs_two_changes_and_no_worker(agents: AgentEnv) {
    agents.declare(scripted(&one_send(), &json!({}))).await;
    let before = agents.changes();
    let of = agents.start_run(None).await;
    assert_eq!(agents.env.status(&of).await, "waiting-approval");
    agents.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    assert_eq!(agents.env.status(&of).await, "completed");
    assert_eq!(agents.changes() - before, 2);
    assert_eq!(agents.dispatches().await, [("acked".to_owned(), 2)].into());
    let agent = agents.agent(&of).await;
    assert_eq!(agent.last_reply().unwrap().text(), "Done.");
    let results = agent.messages.iter().filter(|message| message.role == Role::Tool);
    assert_eq!(results.count(), 1, "there is one result");
    assert_eq!(agents.env.drain().await, 0, "there is no work for a worker");
}

async fn approvals_and_rejections_are_carried_out_with_the_decision(agents: AgentEnv) {
    agents.declare(scripted(&two_sends(), &json!({}))).await;
    let of = agents.start_run(None).await;
    agents.decide(&of, "c2", &reject("d1")).await.unwrap();
    assert_eq!(agents.call(&of, "c2").await, CallStatus::Cancelled);
    assert_eq!(agents.env.status(&of).await, "waiting-approval", "one interrupt is still open");
    agents.decide(&of, "c1", &resume("d2", Value::Null)).await.unwrap();
    assert_eq!(agents.call(&of, "c1").await, CallStatus::Succeeded);
    assert_eq!(agents.env.status(&of).await, "completed");
    // A repeated decision is accepted, a later different one is rejected.
    agents.decide(&of, "c1", &resume("d2", Value::Null)).await.unwrap();
    agents.decide(&of, "c1", &reject("d3")).await.unwrap_err();
    assert_eq!(agents.call(&of, "c1").await, CallStatus::Succeeded);
}

async fn agents_with_delays_or_other_tools_need_a_worker(agents: AgentEnv) {
    let mut slow_model = one_send();
    slow_model[1]["delayMs"] = json!(1);
    let mut with_other_tool = scripted(&one_send(), &json!({}));
    with_other_tool["tools"].as_array_mut().unwrap().push(json!({ "type": "rust", "name": "look" }));
    let slow_tool = scripted(&one_send(), &json!({ "delayMs": 1 }));
    for definition in [scripted(&slow_model, &json!({})), slow_tool, with_other_tool] {
        agents.declare(definition.clone()).await;
        let of = agents.start_run(None).await;
        assert_eq!(agents.env.status(&of).await, "running", "{definition}");
        agents.env.drain().await;
        assert_eq!(agents.env.status(&of).await, "waiting-approval", "{definition}");
        agents.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
        assert_eq!(agents.env.status(&of).await, "running", "{definition}");
        agents.env.drain().await;
        assert_eq!(agents.env.status(&of).await, "completed", "{definition}");
    }
}

async fn an_agent_in_a_named_thread_needs_a_worker(agents: AgentEnv) {
    let known = json!([[
        { "if": { "userSays": "please" }, "text": "You said {{user}}." }, { "text": "What?" },
    ]]);
    agents.declare(scripted(&known, &json!({}))).await;
    for _ in 0..2 {
        let of = agents.start_run(Some("t")).await;
        assert_eq!(agents.env.status(&of).await, "running", "the worker reads the messages of the thread");
        agents.env.drain().await;
        assert_eq!(agents.env.status(&of).await, "completed");
        assert_eq!(agents.agent(&of).await.last_reply().unwrap().text(), "You said please.");
    }
    let messages = agents.env.engine.threads().messages(&tenant(), "t", None, 100).await.unwrap();
    assert_eq!(messages.len(), 4);
}

async fn a_node_after_a_local_agent_executes_in_the_same_change(agents: AgentEnv) {
    let definition = scripted(&one_send(), &json!({}));
    let nodes = [
        ("clerk", "core.agent", definition),
        ("gate", "core.approvalGate", json!({})),
        ("end", "core.end", json!({})),
    ];
    agents.env.register(crate::test_env::line("both", &nodes)).await;
    let before = agents.changes();
    let of = agents.env.start("both").await;
    assert_eq!(agents.env.status(&of).await, "waiting-approval");
    agents.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    assert!(agents.env.log(&of).await.iter().any(|event| event.contains("gate")), "the gate is open");
    agents.env.answer(&of, "gate", crate::test_env::accept()).await.unwrap();
    assert_eq!(agents.env.status(&of).await, "completed");
    assert_eq!(agents.changes() - before, 3);
}

async fn a_crash_around_the_commit_of_a_decision_keeps_all_of_it_or_none(mut agents: AgentEnv) {
    agents.declare(scripted(&one_send(), &json!({}))).await;
    let faults = [
        CommitFault::StopBefore(1),
        CommitFault::StopAfter(1),
        CommitFault::LoseConnectionBefore(1),
        CommitFault::LoseConnectionAfter(1),
    ];
    for fault in faults {
        let of = agents.start_run(None).await;
        let AgentEnv { env, calls } = agents;
        let env: TestEnv = env.reopen(with_fault(fault)).await;
        let decision = super::decide(&env.engine, &of, "c1", &resume("d1", Value::Null)).await;
        let lost =
            matches!(fault, CommitFault::LoseConnectionBefore(_) | CommitFault::LoseConnectionAfter(_));
        assert_eq!(decision.is_ok(), lost, "{fault:?}: the engine reads the outcome of a lost commit");
        agents = AgentEnv { env: env.reopen(super::with_tools(&calls)).await, calls };
        let decided = lost || matches!(fault, CommitFault::StopAfter(_));
        let (expected, call) = match decided {
            true => ("completed", CallStatus::Succeeded),
            false => ("waiting-approval", CallStatus::Suspended),
        };
        // After a restart the thread is not in the cache, so a worker carries the decision out.
        agents.env.drain().await;
        assert_eq!(
            (agents.env.status(&of).await, agents.call(&of, "c1").await),
            (expected, call),
            "{fault:?}"
        );
        agents.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
        agents.env.drain().await;
        assert_eq!(agents.env.status(&of).await, "completed", "{fault:?}");
        let agent = agents.agent(&of).await;
        assert_eq!(
            agent.messages.iter().filter(|message| message.role == Role::Tool).count(),
            1,
            "{fault:?}"
        );
    }
}

async fn a_local_agent_run_either_completes_or_is_cancelled_when_both_race(agents: AgentEnv) {
    agents.declare(scripted(&one_send(), &json!({}))).await;
    let other = agents.env.second_engine(super::with_tools(&agents.calls)).await;
    let mut completed = 0;
    for _ in 0..100 {
        let of = agents.start_run(None).await;
        let how = resume("d1", Value::Null);
        let (decided, cancelled) =
            tokio::join!(agents.decide(&of, "c1", &how), other.runs().cancel(&of, None, alice()));
        let run = agents.env.run(&of).await;
        assert!(cancelled.unwrap().finished());
        assert_eq!(decided.is_ok(), run.status() == Status::Completed, "{decided:?}");
        completed += u32::from(decided.is_ok());
    }
    let dispatches = agents.dispatches().await;
    assert_eq!((dispatches.get("queued"), dispatches.get("claimed")), (None, None), "{completed} of 100");
    other.close().await;
}

async fn a_repeated_decision_applies_to_the_interrupt_that_received_it(agents: AgentEnv) {
    let asks = json!({ "asks": { "action": "pick", "message": "How many?" } });
    agents.declare(scripted(&one_send(), &asks)).await;
    let of = agents.start_run(None).await;
    agents.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    assert_eq!(agents.env.run(&of).await.open_interrupts().count(), 1, "the tool opens its own interrupt");
    let seq = agents.env.run(&of).await.seq;
    agents.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    assert_eq!(agents.env.run(&of).await.seq, seq, "the decision is repeated");
    agents.decide(&of, "c1", &resume("d2", json!({ "n": 3 }))).await.unwrap();
    assert_eq!(agents.env.status(&of).await, "completed");
}

async fn a_long_script_needs_a_worker_and_several_changes(agents: AgentEnv) {
    let steps: Vec<Value> =
        (0..200).map(|n| json!({ "calls": [call(&format!("c{n}"), "send", json!({ "n": n }))] })).collect();
    let mut endless = scripted(&json!(steps), &json!({}));
    endless["permissions"] = json!({ "default": "allow" });
    endless["limits"] = json!({ "steps": 500 });
    agents.declare(endless).await;
    let before = agents.changes();
    let of = agents.start_run(None).await;
    assert_eq!(agents.env.status(&of).await, "running");
    agents.env.drain().await;
    assert_eq!(agents.env.status(&of).await, "completed");
    assert!(agents.changes() - before >= 3, "{} changes", agents.changes() - before);
    assert_eq!(agents.agent(&of).await.calls.len(), 200);
}

/// A tool that claims to be local and panics.
struct PanickingTool(Arc<ToolSpec>);

impl Toolbox for PanickingTool {
    fn list<'a>(&'a self, _: &'a TenantId) -> ListFuture<'a> {
        Box::pin(async { Ok(vec![self.0.clone()]) })
    }

    fn call<'a>(&'a self, _: &'a Call) -> CallFuture<'a> {
        Box::pin(async { panic!("the test panics here") })
    }

    fn is_local(&self) -> bool {
        true
    }
}

async fn a_local_tool_that_panics_is_left_to_a_worker(database: TestDatabase) {
    let spec = ToolSpec {
        name: "send".to_owned(),
        description: String::new(),
        parameters: json!({ "type": "object" }),
        idempotent: true,
        primary: None,
    };
    let tool: Arc<dyn Toolbox> = Arc::new(PanickingTool(Arc::new(spec)));
    let rust = [("send".to_owned(), tool)].into();
    let configure = |options: Options| {
        options.extension(AgentRuntime::new(AgentSettings { rust, ..AgentSettings::default() }))
    };
    let agents = AgentEnv { env: TestEnv::with(database, configure).await, calls: super::Calls::default() };
    let mut definition = scripted(&one_send(), &json!({}));
    definition["tools"] = json!([{ "type": "rust", "name": "send" }]);
    agents.declare(definition).await;
    let of = agents.start_run(None).await;
    assert_eq!(agents.env.status(&of).await, "waiting-approval");
    agents.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    assert_eq!(agents.env.status(&of).await, "running", "the decision is recorded");
    assert_eq!(agents.dispatches().await.get("queued"), Some(&1));
}

async fn a_replay_of_a_local_agent_run_is_identical(agents: AgentEnv) {
    // The random value of the template is recorded and reused.
    agents.declare(scripted(&one_send(), &json!({ "result": "{{unique}}", "counts": "sent" }))).await;
    let of = agents.start_run(None).await;
    agents.decide(&of, "c1", &resume("d1", Value::Null)).await.unwrap();
    let events = agents.env.log(&of).await.len() as u64;
    for from_seq in [0, events / 2, events] {
        let overlay = Overlay::default();
        let request = ForkRequest {
            by: "ann".to_owned(),
            credential: None,
            mode: ForkMode::Replay,
            from_seq,
            overlay,
            once: None,
        };
        let copy = agents.env.engine.runs().fork(&of, request).await.unwrap();
        let original = agents.env.run(&of).await;
        assert_eq!(copy.status(), original.status(), "from {from_seq}");
        assert_eq!(agent_of(&copy).messages, agent_of(&original).messages, "from {from_seq}");
        assert_eq!(copy.seq, original.seq, "from {from_seq}");
    }
}
