//! Nodes that a worker executes: limits, required capabilities and recorded outputs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use holdpoint_engine::core::{RunEnd, RunRef, StartRequest, WorkflowId};
use holdpoint_engine::{
    Answerer, AnswererError, ApproverQuestion, ChannelOptions, EffectContext, Node, Outputs, Stop,
};
use serde_json::{Map, json};

use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, line, start, tenant};

on_both! {
    a_worker_does_not_start_a_node_over_the_execution_limit,
    a_worker_does_not_enter_a_node_with_a_missing_capability,
    a_node_with_effects_records_variables_channels_chunks_and_a_branch,
    an_unreadable_row_does_not_block_other_work,
}

/// A node that counts its entries and records a variable, a channel write, a chunk and a branch.
#[derive(Clone, Default)]
struct RecordingNode {
    entries: Arc<AtomicU32>,
    requires: &'static [&'static str],
}

impl Node for RecordingNode {
    fn requires(&self) -> &'static [&'static str] {
        self.requires
    }

    async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        self.entries.fetch_add(1, Ordering::SeqCst);
        context.set_variable("x", json!(1));
        context.write_channel("log", json!("entry"), ChannelOptions::default());
        context.emit_chunk("text", Map::new());
        context.choose("left");
        Ok(Outputs::new())
    }
}

async fn run_of_two(database: TestDatabase, recording: RecordingNode, limit: u64) -> (TestEnv, RunRef) {
    let env = TestEnv::with(database, |options| options.node("test.recording", recording)).await;
    let nodes = [("a", "test.recording", json!({})), ("b", "test.recording", json!({}))];
    env.register(line("recording", &nodes)).await;
    let configurable = Map::from_iter([("recursionLimit".to_owned(), json!(limit))]);
    let id = WorkflowId::parse("recording").unwrap();
    let run = env.engine.runs().create(&id, StartRequest { configurable, ..start(json!({})) }).await.unwrap();
    env.drain().await;
    (env, RunRef { tenant: tenant(), run: run.id.clone() })
}

async fn code(env: &TestEnv, of: &RunRef) -> String {
    match &env.run(of).await.end {
        Some(RunEnd::Failed { error, .. }) => error.code.clone(),
        other => panic!("not failed: {other:?}"),
    }
}

async fn a_worker_does_not_start_a_node_over_the_execution_limit(database: TestDatabase) {
    let recording = RecordingNode::default();
    let (env, of) = run_of_two(database, recording.clone(), 1).await;
    assert_eq!(code(&env, &of).await, "recursion_limit_exceeded");
    assert_eq!(recording.entries.load(Ordering::SeqCst), 1);
}

async fn a_worker_does_not_enter_a_node_with_a_missing_capability(database: TestDatabase) {
    let recording = RecordingNode { requires: &["steps", "a-printer"], ..RecordingNode::default() };
    let (env, of) = run_of_two(database, recording.clone(), 9).await;
    assert_eq!(code(&env, &of).await, "capability_not_provided");
    assert_eq!(recording.entries.load(Ordering::SeqCst), 0);
}

async fn a_node_with_effects_records_variables_channels_chunks_and_a_branch(database: TestDatabase) {
    let (env, of) = run_of_two(database, RecordingNode::default(), 9).await;
    assert_eq!(env.status(&of).await, "completed");
    let log = env.log(&of).await;
    let of_a: Vec<&String> = log.iter().filter(|line| line.contains(r#""node":"a""#)).collect();
    let expected = [
        r#"{"type":"node.started","node":"a"}"#,
        r#"{"type":"variable.changed","node":"a","name":"x","next":1}"#,
        r#"{"type":"channel.written","node":"a","channel":"log","value":"entry","reducer":"append"}"#,
        r#"{"type":"ai.message.chunk","node":"a","chunk":"text","last":true}"#,
        r#"{"type":"node.completed","node":"a","branch":"left"}"#,
    ];
    assert_eq!(of_a, expected);
    assert_eq!(env.run(&of).await.variables["log"].as_array().map(Vec::len), Some(2));
}

struct NoAnswer;

impl Answerer for NoAnswer {
    async fn answer(&self, _: &ApproverQuestion) -> Result<Option<String>, AnswererError> {
        Ok(None)
    }
}

async fn an_unreadable_row_does_not_block_other_work(database: TestDatabase) {
    // The empty id is not a valid run id.
    let rows = [
        "INSERT INTO awaited (tenant_id, topic, run_id, interrupt_id, topics, look_ms)
            VALUES ('default', 'ffff', '', 1, 'ffff', 0)",
        "INSERT INTO pending (tenant_id, requested_ms, run_id, interrupt_id, workflow_id, node_id, kind, key, title,
            required, restricted, open_asks, ask_due_ms)
            VALUES ('default', 1, '', 1, 'flow', 'gate', 'approval', 'gate', '', 1, 0, 1, 0)",
        "INSERT INTO timers (due_ms, tenant_id, run_id, timer) VALUES (0, 'default', '', 'run')",
    ];
    for row in rows {
        let recording = RecordingNode::default();
        let counting = recording.clone();
        let database = database.another().await;
        let env =
            TestEnv::with(database, |options| options.node("test.recording", counting).answerer(NoAnswer))
                .await;
        env.register(line("recording", &[("a", "test.recording", json!({}))])).await;
        env.database.execute(row).await.unwrap();
        let of = env.start("recording").await;
        let drained = env.engine.worker().drain().await;
        assert_eq!(env.status(&of).await, "completed", "{row}");
        assert_eq!(recording.entries.load(Ordering::SeqCst), 1, "{row}");
        assert!(drained.is_err(), "the worker reports the unreadable row: {row}");
    }
}
