//! Budgets of tokens: of a thread and of a tenant. They are checked before a model is called.

use std::sync::atomic::Ordering;

use holdpoint_agents::{AgentRuntime, EngineAgents};
use holdpoint_engine::core::{Event, ForkMode, RunRef, StartRequest, WorkflowId};
use holdpoint_engine::{CommitFault, ForkRequest, Options, Overlay, Quotas};
use serde_json::{Value, json};

use super::{AgentEnv, Calls, call, input};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, accept, start, tenant, with_fault};

on_both! {
    a_thread_over_its_budget_calls_no_model,
    a_tenant_over_its_quota_calls_no_model_until_the_next_day,
    a_quota_of_one_tenant_does_not_affect_another,
    replies_without_a_token_count_and_copies_use_no_budget,
    a_crash_around_each_commit_counts_each_recorded_reply_once,
    replies_of_one_thread_can_be_in_one_batch,
    token_counts_are_purged_after_the_next_day,
}

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// An agent whose model uses 10 tokens for each of its replies: one with a call, and one with text.
fn definition(limits: Value) -> Value {
    let usage = json!({ "inputTokens": 7, "outputTokens": 3 });
    json!({
        "agentId": "clerk", "limits": limits,
        "model": { "provider": "scripted", "steps": [
            { "calls": [call("c1", "look", json!({}))], "usage": usage, "delayMs": 1 },
            { "text": "Done.", "usage": usage, "delayMs": 1 },
        ] },
        "tools": [{ "type": "scripted", "name": "look", "result": "seen" }],
        "permissions": { "default": "allow" },
    })
}

async fn env_with(database: TestDatabase, tokens_per_day: u64) -> AgentEnv {
    let quotas = Quotas { tokens_per_day, ..Quotas::default() };
    let env = TestEnv::with(database, |options| with_agents(options.quotas(quotas))).await;
    AgentEnv { env, calls: Calls::default() }
}

fn with_agents(options: Options) -> Options {
    options.extension(AgentRuntime::default())
}

/// Returns the status of a run, the number of its replies, and the code of its error.
async fn outcome(agents: &AgentEnv, of: &RunRef) -> (&'static str, u32, String) {
    let log = agents.env.engine.events().list(of, 0).await.unwrap();
    let code = log.iter().find_map(|one| match &one.event {
        Event::RunFailed { error, .. } => Some(error.code.clone()),
        _ => None,
    });
    (agents.env.status(of).await, agents.agent(of).await.steps, code.unwrap_or_default())
}

async fn a_thread_over_its_budget_calls_no_model(database: TestDatabase) {
    let agents = env_with(database, 0).await;
    agents.declare(definition(json!({ "threadTokens": 25 }))).await;
    let completed = ("completed", 2, String::new());
    assert_eq!(outcome(&agents, &agents.send(Some("t1"), "one").await).await, completed);
    let over = agents.send(Some("t1"), "two").await;
    assert_eq!(outcome(&agents, &over).await, ("failed", 1, "agent_token_limit".to_owned()));
    let log = agents.env.log(&over).await;
    assert!(log.iter().any(|one| one.contains("has used 30 tokens; the limit is 25")), "{log:#?}");
    let again = agents.send(Some("t1"), "three").await;
    assert_eq!(outcome(&agents, &again).await, ("failed", 0, "agent_token_limit".to_owned()));
    assert_eq!(outcome(&agents, &agents.send(Some("t2"), "one").await).await, completed, "another thread");
    let AgentEnv { env, calls } = agents;
    let agents = AgentEnv { env: env.reopen(with_agents).await, calls };
    assert_eq!(agents.env.engine.limits().thread_tokens(&tenant(), "t1").await.unwrap(), 30);
}

async fn a_tenant_over_its_quota_calls_no_model_until_the_next_day(database: TestDatabase) {
    let agents = env_with(database, 30).await;
    agents.declare(definition(json!({}))).await;
    let completed = ("completed", 2, String::new());
    assert_eq!(outcome(&agents, &agents.send(None, "one").await).await, completed);
    let over = agents.send(None, "two").await;
    assert_eq!(outcome(&agents, &over).await, ("failed", 1, "quota_exceeded".to_owned()));
    let usage = agents.env.engine.limits().usage(&tenant()).await.unwrap();
    assert_eq!(usage.tokens_per_day, 30);
    agents.env.clock.advance(DAY_MS);
    assert_eq!(agents.env.engine.limits().usage(&tenant()).await.unwrap().tokens_per_day, 0);
    assert_eq!(outcome(&agents, &agents.send(None, "three").await).await, completed);
}

async fn a_quota_of_one_tenant_does_not_affect_another(database: TestDatabase) {
    let agents = env_with(database, 20).await;
    agents.declare(definition(json!({}))).await;
    agents.send(None, "one").await;
    let limits = agents.env.engine.limits();
    assert!(limits.check_tokens(&tenant()).await.is_err());
    let other = holdpoint_engine::core::TenantId::parse("other").unwrap();
    assert!(limits.check_tokens(&other).await.is_ok());
    assert_eq!(limits.thread_tokens(&other, "t1").await.unwrap(), 0);
}

async fn replies_without_a_token_count_and_copies_use_no_budget(database: TestDatabase) {
    let agents = env_with(database, 0).await;
    agents.declare(definition(json!({ "threadTokens": 20 }))).await;
    let of = agents.send(Some("t1"), "one").await;
    for from_seq in 0..=agents.env.run(&of).await.seq {
        let (by, mode, overlay) = ("forker".to_owned(), ForkMode::Replay, Overlay::default());
        let request = ForkRequest { by, credential: None, mode, from_seq, overlay, once: None };
        let copy = agents.env.engine.runs().fork(&of, request).await.unwrap();
        assert!(copy.finished() && !copy.diverged, "from {from_seq}");
    }
    let usage = agents.env.engine.limits().usage(&tenant()).await.unwrap();
    assert_eq!(usage.tokens_per_day, 20, "a replay calls no model");
    let free = json!({ "agentId": "clerk", "model": { "provider": "scripted", "steps": [{ "text": "x" }] } });
    agents.declare(free).await;
    agents.send(Some("t2"), "one").await;
    assert_eq!(agents.env.engine.limits().thread_tokens(&tenant(), "t2").await.unwrap(), 0);
}

async fn a_crash_around_each_commit_counts_each_recorded_reply_once(database: TestDatabase) {
    let mut agents = env_with(database, 0).await;
    agents.declare(definition(json!({}))).await;
    let faults = (1..=6).flat_map(|n| {
        [CommitFault::StopBefore(n), CommitFault::StopAfter(n), CommitFault::LoseConnectionAfter(n)]
    });
    for (fault, number) in faults.zip(0..) {
        let thread = format!("t{number}");
        let AgentEnv { env, calls } = agents;
        let env = env.reopen(|options| with_agents(with_fault(fault)(options))).await;
        let started = env.engine.agents().start(input(Some(&thread), "please")).await;
        let _ = env.engine.worker().drain().await;
        agents = AgentEnv { env: env.reopen(with_agents).await, calls };
        let Ok(run) = started else { continue };
        let of = RunRef { tenant: tenant(), run: run.id.clone() };
        agents.env.drain().await;
        let counted = agents.env.engine.limits().thread_tokens(&tenant(), &thread).await.unwrap();
        assert_eq!((agents.agent(&of).await.usage.total(), counted), (20, 20), "{fault:?}");
    }
}

/// PostgreSQL rejects a statement that writes a row twice. The committer would then commit each job alone.
async fn replies_of_one_thread_can_be_in_one_batch(database: TestDatabase) {
    const RUNS: u64 = 16;
    let agents = env_with(database, 0).await;
    let usage = json!({ "inputTokens": 7, "outputTokens": 3 });
    let mut unsure = definition(json!({}));
    unsure["model"]["steps"] = json!([
        { "calls": [call("c1", "look", json!({}))], "usage": usage, "confidence": 0.1 },
        { "text": "Done.", "usage": usage },
    ]);
    agents.declare(unsure).await;
    let workflow = WorkflowId::parse("agent:clerk").unwrap();
    let mut open = Vec::new();
    for _ in 0..RUNS {
        let request = StartRequest { thread: Some("t1".to_owned()), ..start(json!({ "message": "please" })) };
        let run = agents.env.engine.runs().create(&workflow, request).await.unwrap();
        agents.env.drain().await;
        open.push(RunRef { tenant: tenant(), run: run.id.clone() });
    }
    let commits = || agents.env.engine.counters().commits.load(Ordering::SeqCst);
    let before = commits();
    let answers = open.iter().map(|of| agents.env.answer(of, "agent", accept()));
    for answered in futures_util::future::join_all(answers).await {
        answered.unwrap();
    }
    let used = commits() - before;
    assert!(used < RUNS, "{used} commits");
    agents.env.drain().await;
    let counted = agents.env.engine.limits().thread_tokens(&tenant(), "t1").await.unwrap();
    assert_eq!(counted, RUNS * 20);
}

async fn token_counts_are_purged_after_the_next_day(database: TestDatabase) {
    let agents = env_with(database, 0).await;
    agents.declare(definition(json!({}))).await;
    agents.send(Some("t1"), "one").await;
    for expected in ["1", "1", "0"] {
        agents.env.engine.worker().tidy().await;
        let rows = agents.env.database.read("SELECT COUNT(DISTINCT day) AS n FROM tenant_tokens").await;
        assert_eq!(rows[0][0].1.as_deref(), Some(expected));
        agents.env.clock.advance(DAY_MS);
    }
    let counted = agents.env.engine.limits().thread_tokens(&tenant(), "t1").await.unwrap();
    assert_eq!(counted, 20, "the count of a thread stays");
}
