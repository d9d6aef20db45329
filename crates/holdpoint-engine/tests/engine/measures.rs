//! Metrics and commit subscriptions: each run, attempt and interrupt is counted once, with its duration.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use holdpoint_engine::core::{ForkMode, NodeId, Run, RunRef, StartRequest, WorkflowId};
use holdpoint_engine::{Distribution, Engine, RunCommit, SpanContext, causing_span};
use serde_json::{Value, json};

use crate::effects::{Shop, with_shop};
use crate::forks::perform_all_features;
use crate::loops::reviewed;
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::fork;
use crate::test_env::{TestEnv, accept, alice, gated, line, start, tenant};

on_both! {
    every_end_of_a_run_is_counted_once,
    every_visit_of_a_node_is_measured,
    every_attempt_of_a_node_is_measured_separately,
    an_interrupt_ends_with_its_answer_its_deadline_or_its_run,
    copied_events_of_a_fork_are_not_counted_again,
    a_subscriber_can_rebuild_every_run_from_its_commits,
    the_span_of_a_child_run_belongs_to_the_node_that_starts_it,
}

fn ended(engine: &Engine) -> Vec<u64> {
    engine.measures().runs_ended.read().map(|(_, count)| count).collect()
}

fn created(engine: &Engine) -> u64 {
    engine.measures().runs_created.load(Ordering::Relaxed)
}

/// The attempts of a node type that ended as completed, failed and cancelled.
fn attempts(engine: &Engine, type_id: &str) -> Vec<Distribution> {
    engine.measures().nodes[type_id].read().map(|(_, read)| read).collect()
}

fn counts(distributions: &[Distribution]) -> Vec<u64> {
    distributions.iter().map(Distribution::count).collect()
}

fn seconds(read: &Distribution) -> f64 {
    (read.sum_seconds * 1000.0).round() / 1000.0
}

async fn every_end_of_a_run_is_counted_once(env: TestEnv) {
    env.register(gated("gated")).await;
    env.register(line("failing", &[("f", "core.fail", json!({}))])).await;
    let mut hasty = gated("hasty");
    hasty["settings"] = json!({"timeout": 5000});
    env.register(hasty).await;
    env.register(line("parent", &[("call", "core.subWorkflow", json!({"workflowId": "gated"}))])).await;

    let completed = env.start("gated").await;
    env.clock.advance(2000);
    env.answer(&completed, "gate", accept()).await.unwrap();
    assert_eq!((created(&env.engine), ended(&env.engine)), (1, vec![1, 0, 0]));

    env.start("failing").await;
    let late = env.start("hasty").await;
    env.clock.advance(5000);
    env.drain().await;
    assert_eq!(env.status(&late).await, "failed");
    assert_eq!((created(&env.engine), ended(&env.engine)), (3, vec![1, 2, 0]));

    let parent = env.start("parent").await;
    env.drain().await;
    for _ in 0..2 {
        // The second cancellation has no effect.
        let _ = env.engine.runs().cancel(&parent, None, alice()).await;
    }
    assert_eq!((created(&env.engine), ended(&env.engine)), (5, vec![1, 2, 2]), "with its child run");

    let durations: Vec<f64> = env.engine.measures().runs.read().map(|(_, read)| seconds(&read)).collect();
    assert_eq!(durations, [2.0, 5.0, 0.0]);
    // The gates of the timed-out run and of the child are cancelled.
    assert_eq!(counts(&attempts(&env.engine, "core.approvalGate")), [1, 0, 2]);
    assert_eq!(counts(&attempts(&env.engine, "core.subWorkflow")), [0, 0, 1]);
}

async fn every_visit_of_a_node_is_measured(env: TestEnv) {
    env.register(reviewed()).await;
    let of = env.start("reviewed").await;
    for (wait, answer) in [(70, json!({"action": "reject"})), (400, accept())] {
        env.clock.advance(wait * 1000);
        env.answer(&of, "gate", answer).await.unwrap();
    }
    assert_eq!(env.status(&of).await, "completed");
    let [completed, failed, _]: [Distribution; 3] =
        attempts(&env.engine, "core.approvalGate").try_into().unwrap();
    assert_eq!(completed.count() + failed.count(), 2);
    assert!((seconds(&completed) + seconds(&failed) - 470.0).abs() < 0.001, "{completed:?} {failed:?}");
}

async fn every_attempt_of_a_node_is_measured_separately(env: TestEnv) {
    let mut definition = line("busy", &[("n", "core.fail", json!({"code": "busy", "retryable": true}))]);
    definition["settings"] = json!({"maxRetries": 2});
    env.register(definition).await;
    let of = env.start("busy").await;
    for wait in [1000, 2000] {
        env.clock.advance(wait);
        env.drain().await;
    }
    assert_eq!(env.status(&of).await, "failed");
    let attempts = attempts(&env.engine, "core.fail");
    assert_eq!(counts(&attempts), [0, 3, 0]);
    assert!(seconds(&attempts[1]) < 0.001, "the delays between attempts are not measured: {attempts:?}");
    assert_eq!(ended(&env.engine), [0, 1, 0]);
}

async fn an_interrupt_ends_with_its_answer_its_deadline_or_its_run(env: TestEnv) {
    let gate = json!({"title": "Go on?", "actions": ["accept"], "timeoutMs": 90_000});
    env.register(line("asked", &[("gate", "core.approvalGate", gate)])).await;
    let (answered, expired) = (env.start("asked").await, env.start("asked").await);
    let cancelled = env.start("asked").await;
    env.clock.advance(30_000);
    env.answer(&answered, "gate", accept()).await.unwrap();
    env.engine.runs().cancel(&cancelled, None, alice()).await.unwrap();
    env.clock.advance(60_000);
    env.drain().await;
    assert_eq!(env.status(&expired).await, "failed");
    let closed: Vec<_> = env.engine.measures().interrupts.read().collect();
    let ends: Vec<_> = closed.iter().map(|(end, read)| (*end, read.count(), seconds(read))).collect();
    assert_eq!(ends, [("resolved", 1, 30.0), ("timeout", 1, 90.0), ("cancelled", 1, 30.0)]);
    assert_eq!(closed[1].1.counts, [0, 1, 0, 0, 0, 0, 0, 0, 0], "a minute and a half");
    let requested: Vec<_> = env.engine.measures().interrupts_requested.read().collect();
    assert_eq!(requested[0], ("approval", 3));
}

/// All measures except those of runs.
fn work_counts(engine: &Engine) -> Value {
    let measures = engine.measures();
    let nodes = measures.nodes.iter();
    let nodes: Vec<(&String, Vec<Vec<u64>>)> =
        nodes.map(|(name, family)| (name, family.read().map(|one| one.1.counts).collect())).collect();
    let activities: Vec<_> = measures.activities.values().map(|one| one.read().counts).collect();
    let interrupts: Vec<_> = measures.interrupts.read().map(|one| one.1.counts).collect();
    let requested: Vec<_> = measures.interrupts_requested.read().collect();
    json!([nodes, activities, interrupts, requested])
}

async fn copied_events_of_a_fork_are_not_counted_again(database: TestDatabase) {
    let shop = Shop::default();
    let env = TestEnv::with(database, with_shop(&shop)).await;
    let of = perform_all_features(&env, true).await;
    let count = env.run(&of).await.seq;
    let (before, runs) = (work_counts(&env.engine), created(&env.engine));
    let durations: u64 = env.engine.measures().runs.read().map(|(_, read)| read.count()).sum();
    for from_seq in [1, count / 2, count] {
        let copy = fork(&env, &of, ForkMode::Replay, from_seq).await;
        assert_eq!(env.status(&copy).await, "completed");
    }
    assert_eq!(work_counts(&env.engine), before, "a replay does no work");
    // A replay counts as created and ended, so that the difference of the two counters is the number of open runs.
    assert_eq!(created(&env.engine), runs + 3);
    assert_eq!(ended(&env.engine), [runs + 3, 0, 0]);

    let branch = fork(&env, &of, ForkMode::Branch, count - 2).await;
    env.drain().await;
    assert_eq!(env.status(&branch).await, "completed");
    assert_eq!((created(&env.engine), ended(&env.engine)), (runs + 4, vec![runs + 4, 0, 0]));
    let now: u64 = env.engine.measures().runs.read().map(|(_, read)| read.count()).sum();
    assert_eq!(now, durations, "the duration of a fork is not measured");
}

fn received(receiver: &holdpoint_engine::CommitReceiver) -> Vec<RunCommit> {
    std::iter::from_fn(|| receiver.recv(Duration::ZERO).ok()).collect()
}

async fn a_subscriber_can_rebuild_every_run_from_its_commits(database: TestDatabase) {
    let shop = Shop::default();
    let env = TestEnv::with(database, with_shop(&shop)).await;
    let receiver = env.engine.subscribe_commits(1000);
    let of = perform_all_features(&env, true).await;
    let count = env.run(&of).await.seq;
    let whole = fork(&env, &of, ForkMode::Replay, count).await;
    fork(&env, &of, ForkMode::Branch, count / 2).await;
    env.drain().await;
    let commits = received(&receiver);
    for committed in &commits {
        let new_run = || Run::new(committed.run.id.clone(), committed.run.workflow.clone());
        let mut run = committed.from.as_ref().map_or_else(new_run, |run| Run::clone(run));
        committed.events.iter().for_each(|event| run.apply(event, committed.at));
        assert_eq!(run, *committed.run);
    }
    let of_source: Vec<_> = commits.iter().filter(|committed| committed.of == of).collect();
    let events: usize = of_source.iter().map(|committed| committed.events.len()).sum();
    assert_eq!(events as u64, count, "every event once");
    let of_whole: Vec<_> = commits.iter().filter(|committed| committed.of == whole).collect();
    assert_eq!(of_whole.len(), 1);
    assert!(of_whole[0].events.is_empty() && of_whole[0].run.finished());
    assert_eq!(env.engine.dropped_commits(), 0);
}

async fn the_span_of_a_child_run_belongs_to_the_node_that_starts_it(env: TestEnv) {
    env.register(gated("gated")).await;
    let call = |id| (id, "core.subWorkflow", json!({"workflowId": "gated"}));
    env.register(line("parent", &[call("one"), call("two")])).await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for parent_trace in [Some(trace.to_owned()), None] {
        let trace_state = parent_trace.as_ref().map(|_| "vendor=opaque".to_owned());
        let request = StartRequest {
            trace: parent_trace.clone(),
            trace_state: trace_state.clone(),
            ..start(json!({}))
        };
        let parent = env.engine.runs().create(&WorkflowId::parse("parent").unwrap(), request).await.unwrap();
        assert_eq!(causing_span(&parent), parent_trace.as_deref().and_then(SpanContext::parse));
        let of = RunRef { tenant: tenant(), run: parent.id.clone() };
        for (node, n) in [("one", 1), ("two", 2)] {
            env.drain().await;
            let child = RunRef { run: crate::test_env::run_id(&format!("{}.{n}", parent.id)), ..of.clone() };
            let run: Arc<Run> = env.run(&child).await;
            let caller = SpanContext::of_visit(&tenant(), &parent, &NodeId::parse(node).unwrap(), 1);
            assert_eq!(causing_span(&run), Some(caller));
            let started = run.started.as_ref().unwrap();
            assert_eq!(started.trace_state, trace_state, "the trace state is passed on unchanged");
            assert_eq!(started.engine_version, Some(Engine::VERSION));
            assert_eq!(
                SpanContext::of_run(&tenant(), &run).trace,
                SpanContext::of_run(&tenant(), &parent).trace
            );
            env.answer(&child, "gate", accept()).await.unwrap();
        }
        env.drain().await;
        assert_eq!(env.status(&of).await, "completed");
        // The parent did not start the copy of a child. The copy stays in the trace of the child.
        let child = RunRef { run: crate::test_env::run_id(&format!("{}.1", parent.id)), ..of };
        let copy = fork(&env, &child, ForkMode::Replay, 1).await;
        let (source, copy) = (env.run(&child).await, env.run(&copy).await);
        assert_eq!(causing_span(&copy), None);
        assert_eq!(copy.started.as_ref().unwrap().trace_state, trace_state);
        assert_eq!(
            SpanContext::of_source(&tenant(), &source.id, &copy),
            SpanContext::of_run(&tenant(), &source)
        );
    }
}
