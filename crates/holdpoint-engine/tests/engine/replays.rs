//! Replays from every event of runs that ended in different ways: they have the same events and no effects.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use holdpoint_engine::core::{Answer, Command, Drain, Event, ForkMode, NodeId, Principal, RunError, RunRef};
use holdpoint_engine::{
    CommitFault, EffectContext, Error, ForkRequest, Node, Options, Outputs, Overlay, RunFilter, Stop,
};
use serde_json::{Value, json};

use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, accept, alice, gated, line, tenant, text, with_fault};

on_both! {
    an_expired_deadline_is_replayed,
    a_cancellation_is_replayed,
    a_pause_is_replayed,
    a_retried_step_is_replayed,
    an_abandoned_run_is_replayed,
    a_timed_out_run_is_replayed,
    a_child_that_failed_is_replayed,
    votes_side_questions_and_conversations_are_replayed,
    a_crash_around_a_fork_leaves_all_of_it_or_none,
}

async fn list(env: &TestEnv, of: &RunRef, source: &RunRef) -> Vec<(i64, String)> {
    let mut found = env.engine.events().list(of, 0).await.unwrap();
    if let Event::RunStarted(started) = &mut found[0].event {
        let started = std::sync::Arc::make_mut(started);
        started.fork = None;
        started.forked_by.clear();
    }
    let plain = |text: String| text.replace(of.run.as_str(), "RUN").replace(source.run.as_str(), "RUN");
    found.iter().map(|one| (one.at.0, plain(text(&one.event)))).collect()
}

fn replay(from_seq: u64) -> ForkRequest {
    ForkRequest {
        by: "forker".to_owned(),
        credential: None,
        mode: ForkMode::Replay,
        from_seq,
        overlay: Overlay::default(),
        once: None,
    }
}

/// Checks that every replay of an ended run has the same events.
async fn assert_replays(env: &TestEnv, of: &RunRef, status: &str) {
    assert_eq!(env.status(of).await, status, "{:#?}", env.log(of).await);
    env.clock.advance(1_000_000);
    let expected = list(env, of, of).await;
    for from_seq in 0..=expected.len() as u64 {
        let run = env.engine.runs().fork(of, replay(from_seq)).await.unwrap();
        let copy = RunRef { tenant: tenant(), run: run.id.clone() };
        assert_eq!(list(env, &copy, of).await, expected, "from {from_seq}");
        assert_eq!(run.status(), env.run(of).await.status());
    }
    assert_eq!(env.drain().await, 0);
    assert!(env.pending().await.is_empty());
}

async fn an_expired_deadline_is_replayed(env: TestEnv) {
    let gate = json!({"title": "ok?", "actions": ["accept"], "timeoutMs": 90});
    env.register(line("late", &[("gate", "core.approvalGate", gate)])).await;
    let of = env.start("late").await;
    env.clock.advance(90);
    env.drain().await;
    let status = env.status(&of).await;
    assert_replays(&env, &of, status).await;
}

async fn votes_side_questions_and_conversations_are_replayed(env: TestEnv) {
    let gate = json!({"actions": ["accept", "ask"], "requiredApprovals": 2});
    let agent = json!({"agentId": "planner", "mockDecision": {"decision": "go", "confidence": 0.1}});
    let nodes = [
        ("gate", "core.approvalGate", gate),
        ("talk", "core.conversationGate", json!({"turnCount": 2})),
        ("play", "core.conversationGate", json!({"mockAutoResume": true})),
        ("agent", "core.conformance.mock-agent", agent),
    ];
    env.register(line("people", &nodes)).await;
    let of = env.start("people").await;
    let answer_as = async |by: &str, node: &str, value: Value| {
        env.clock.advance(5);
        let answer = Answer::new(value, Principal::named(by));
        let command = Command::ResolveNode { node: NodeId::parse(node).unwrap(), interrupt: None, answer };
        env.engine.runs().execute(&of, &command).await.unwrap();
    };
    answer_as("ann", "gate", json!({"action": "ask", "question": "Why?"})).await;
    let interrupt = env.run(&of).await.interrupts[0].id;
    let (answer, by) = ("So.".to_owned(), alice());
    env.engine
        .runs()
        .execute(&of, &Command::AnswerSideQuestion { interrupt, ask: 1, answer, by })
        .await
        .unwrap();
    for name in ["ann", "ann", "bob"] {
        answer_as(name, "gate", accept()).await;
    }
    answer_as("ann", "talk", json!("one")).await;
    answer_as("ann", "talk", json!("two")).await;
    answer_as("ann", "agent", json!("stay")).await;
    assert_replays(&env, &of, "completed").await;
}

async fn a_cancellation_is_replayed(env: TestEnv) {
    env.register(gated("flow")).await;
    let of = env.start("flow").await;
    env.clock.advance(5);
    env.engine.runs().cancel(&of, Some("enough".to_owned()), alice()).await.unwrap();
    assert_replays(&env, &of, "cancelled").await;
}

async fn a_pause_is_replayed(env: TestEnv) {
    env.register(gated("flow")).await;
    let of = env.start("flow").await;
    let pause = Command::Pause { reason: None, drain: Drain::Immediate, by: alice() };
    env.engine.runs().execute(&of, &pause).await.unwrap();
    env.clock.advance(5);
    env.answer(&of, "gate", accept()).await.unwrap();
    env.clock.advance(5);
    env.engine.runs().execute(&of, &Command::Resume { by: alice() }).await.unwrap();
    env.drain().await;
    assert_replays(&env, &of, "completed").await;
}

/// A node whose first call fails. It counts its calls.
struct FailsOnce(Arc<AtomicU32>);

impl Node for FailsOnce {
    async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        let calls = self.0.clone();
        let call = || async move {
            match calls.fetch_add(1, Ordering::SeqCst) {
                0 => {
                    let error = RunError::new("busy", "the line is busy");
                    Err(Stop::Failed(RunError { retryable: true, ..error }))
                }
                _ => Ok(json!("hello")),
            }
        };
        let result = context.step("call", call).await?;
        Ok(Outputs::from_iter([("result".to_owned(), result)]))
    }
}

async fn a_retried_step_is_replayed(database: TestDatabase) {
    let calls = Arc::new(AtomicU32::new(0));
    let env =
        TestEnv::with(database, |options: Options| options.node("test.failsOnce", FailsOnce(calls.clone())))
            .await;
    let mut definition = line("calling", &[("call", "test.failsOnce", json!({}))]);
    definition["settings"] = json!({"maxRetries": 3});
    env.register(definition).await;
    let of = env.start("calling").await;
    env.drain().await;
    env.clock.advance(60_000);
    env.drain().await;
    assert_replays(&env, &of, "completed").await;
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    assert!(env.log(&of).await.iter().any(|line| line.contains("node.retried")));
}

struct AlwaysPanics;

impl Node for AlwaysPanics {
    async fn run(&self, _context: &mut EffectContext) -> Result<Outputs, Stop> {
        panic!("always");
    }
}

async fn an_abandoned_run_is_replayed(database: TestDatabase) {
    let env = TestEnv::with(database, |options| options.node("test.panicking", AlwaysPanics)).await;
    env.register(line("panicking", &[("s", "test.panicking", json!({}))])).await;
    let of = env.start("panicking").await;
    for _ in 0..10 {
        env.drain().await;
        env.clock.advance(30_000);
    }
    assert_replays(&env, &of, "failed").await;
}

async fn a_timed_out_run_is_replayed(env: TestEnv) {
    let mut definition = gated("slow");
    definition["settings"] = json!({"timeout": 1000});
    env.register(definition).await;
    let of = env.start("slow").await;
    env.clock.advance(1000);
    env.drain().await;
    assert_replays(&env, &of, "failed").await;
}

async fn a_child_that_failed_is_replayed(env: TestEnv) {
    env.register(gated("child")).await;
    env.register(line("parent", &[("call", "core.subWorkflow", json!({"workflowId": "child"}))])).await;
    let of = env.start("parent").await;
    env.drain().await;
    let child = RunRef { tenant: tenant(), run: env.run(&of).await.children[0].run.clone() };
    env.engine.runs().cancel(&child, None, alice()).await.unwrap();
    env.drain().await;
    assert_replays(&env, &of, "failed").await;
}

async fn a_crash_around_a_fork_leaves_all_of_it_or_none(database: TestDatabase) {
    for (stop, expected) in [(CommitFault::StopBefore(4), 1), (CommitFault::StopAfter(4), 2)] {
        let env = TestEnv::with(database.another().await, with_fault(stop)).await;
        env.register(gated("flow")).await;
        let of = env.start("flow").await;
        env.answer(&of, "gate", accept()).await.unwrap();
        let forked = env.engine.runs().fork(&of, replay(0)).await;
        assert!(matches!(forked, Err(Error::Store(_))), "{stop:?}");
        let env = env.reopen(|options| options).await;
        let filter = RunFilter { limit: 10, ..RunFilter::default() };
        let found = env.engine.runs().list(&tenant(), filter).await.unwrap();
        assert_eq!(found.len(), expected, "{stop:?}");
        for one in found {
            let copy = RunRef { tenant: tenant(), run: one.run };
            assert_eq!(list(&env, &copy, &of).await, list(&env, &of, &of).await);
        }
        let gate: Value = json!("completed");
        assert_eq!(gate, env.status(&of).await);
    }
}
