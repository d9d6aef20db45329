//! Options of a dispatch that a caller chooses: priority, delay, deduplication key and attempts.

use std::sync::{Arc, Mutex};

use holdpoint_engine::core::mailbox::{DispatchOptions, MailboxError, RunDispatch, RunDispatchStatus};
use holdpoint_engine::core::{Command, Refusal, Run, RunRef, StartRequest, WorkflowId};
use holdpoint_engine::{EffectContext, Engine, Error, ExecuteOptions, Node, Outputs, StartOptions, Stop};
use serde_json::json;

use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{NOON, TestEnv, alice, child_of, gated, line, start, tenant};

on_both! {
    a_delayed_start_is_executed_at_its_instant,
    a_delayed_run_with_effects_is_not_handed_to_a_worker_before_its_instant,
    a_delayed_run_can_be_cancelled_before_its_instant,
    the_end_of_a_delayed_run_frees_its_key_and_its_thread,
    the_end_of_a_delayed_run_keeps_the_dispatches_of_other_runs,
    a_resumed_run_leaves_no_delayed_dispatch_at_its_end,
    a_change_of_a_started_run_cannot_be_delayed,
    repeated_requests_get_the_receipt_and_not_the_error_of_the_key,
    the_priority_decides_which_run_a_worker_claims_first,
    later_dispatches_and_child_runs_have_the_priority_of_the_start,
    a_thread_refuses_a_second_live_dispatch_with_a_key,
    of_concurrent_starts_with_a_key_on_two_nodes_one_is_accepted,
    a_dispatch_with_one_attempt_is_a_dead_letter_after_its_failure,
    options_beyond_their_limits_are_refused,
}

/// A node that records the run that it belongs to.
#[derive(Clone, Default)]
struct RecordingNode(Arc<Mutex<Vec<String>>>);

impl Node for RecordingNode {
    async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        self.0.lock().unwrap().push(context.run_id().to_string());
        Ok(Outputs::new())
    }
}

struct PanickingNode;

impl Node for PanickingNode {
    async fn run(&self, _: &mut EffectContext) -> Result<Outputs, Stop> {
        panic!("the test panics here");
    }
}

fn priority(priority: u8) -> DispatchOptions {
    DispatchOptions { priority: Some(priority), ..DispatchOptions::default() }
}

fn delayed_by(ms: i64) -> DispatchOptions {
    let at = holdpoint_engine::core::Timestamp(NOON + ms);
    DispatchOptions { available_at: Some(at), ..DispatchOptions::default() }
}

fn with_key(key: &str) -> DispatchOptions {
    DispatchOptions { dedupe_key: Some(key.to_owned()), ..DispatchOptions::default() }
}

async fn begin(engine: &Engine, workflow: &str, request: StartRequest) -> Result<RunRef, Error> {
    let run = engine.runs().create(&WorkflowId::parse(workflow).unwrap(), request).await?;
    Ok(RunRef { tenant: tenant(), run: run.id.clone() })
}

async fn start_as(env: &TestEnv, workflow: &str, dispatch: DispatchOptions) -> RunRef {
    begin(&env.engine, workflow, StartRequest { dispatch, ..start(json!({})) }).await.unwrap()
}

async fn dispatches(env: &TestEnv, thread: &str) -> Vec<RunDispatch> {
    env.engine.mailbox(&tenant()).list_dispatches(thread, None, 10, 0).await.unwrap()
}

async fn recording(database: TestDatabase) -> (TestEnv, RecordingNode) {
    let node = RecordingNode::default();
    let added = node.clone();
    let env = TestEnv::with(database, |options| options.node("test.recording", added)).await;
    env.register(line("work", &[("n", "test.recording", json!({}))])).await;
    (env, node)
}

async fn a_delayed_start_is_executed_at_its_instant(env: TestEnv) {
    env.register(gated("gated")).await;
    let of = start_as(&env, "gated", delayed_by(5000)).await;
    assert_eq!(
        (env.drain().await, env.pending().await.len()),
        (0, 0),
        "no node is executed before the instant"
    );
    env.clock.advance(4999);
    let env = env.reopen(|options| options).await;
    assert_eq!(env.drain().await, 0);
    env.clock.advance(1);
    assert_eq!(env.drain().await, 1);
    assert_eq!(env.status(&of).await, "waiting-approval");
    let past = start_as(&env, "gated", delayed_by(-1)).await;
    assert_eq!(env.status(&past).await, "waiting-approval", "an instant in the past has no effect");
}

async fn a_delayed_run_with_effects_is_not_handed_to_a_worker_before_its_instant(database: TestDatabase) {
    let (env, node) = recording(database).await;
    let (stop, worker) = crate::slow_node::start_worker(&env.engine);
    let of = start_as(&env, "work", delayed_by(5000)).await;
    let now = start_as(&env, "work", DispatchOptions::default()).await;
    crate::slow_node::wait_for_status(&env.engine, &now, "completed").await;
    stop.send(true).unwrap();
    worker.await.unwrap();
    assert_eq!(*node.0.lock().unwrap(), [now.run.to_string()]);
    env.clock.advance(5000);
    assert_eq!(env.drain().await, 1);
    assert_eq!(env.status(&of).await, "completed");
}

async fn a_delayed_run_can_be_cancelled_before_its_instant(env: TestEnv) {
    env.register(gated("gated")).await;
    let of = start_as(&env, "gated", delayed_by(5000)).await;
    env.engine.runs().cancel(&of, None, alice()).await.unwrap();
    env.clock.advance(5000);
    env.drain().await;
    assert_eq!((env.status(&of).await, env.pending().await.len()), ("cancelled", 0));
}

/// Returns the dispatches of a thread that are not acknowledged.
async fn unperformed(env: &TestEnv, thread: &str) -> Vec<RunDispatchStatus> {
    let rows = dispatches(env, thread).await.into_iter();
    rows.map(|row| row.status).filter(|status| *status != RunDispatchStatus::Acked).collect()
}

async fn the_end_of_a_delayed_run_frees_its_key_and_its_thread(env: TestEnv) {
    env.register(gated("gated")).await;
    let mut hasty = gated("hasty");
    hasty["settings"] = json!({"timeout": 1000});
    env.register(hasty).await;
    let keyed = DispatchOptions { dedupe_key: Some("daily".to_owned()), ..delayed_by(5000) };
    let request =
        || StartRequest { thread: Some("t1".to_owned()), dispatch: keyed.clone(), ..start(json!({})) };
    let cancelled = begin(&env.engine, "gated", request()).await.unwrap();
    env.engine.runs().cancel(&cancelled, None, alice()).await.unwrap();
    assert_eq!(unperformed(&env, "t1").await, [RunDispatchStatus::Cancelled]);
    let expired = begin(&env.engine, "hasty", request()).await.unwrap();
    env.clock.advance(1000);
    env.drain().await;
    assert_eq!(env.status(&expired).await, "failed");
    assert_eq!(unperformed(&env, "t1").await, [RunDispatchStatus::Cancelled; 2]);
    let operator = begin(&env.engine, "gated", request()).await.unwrap();
    let queued = dispatches(&env, "t1").await.into_iter().find(|row| row.run_id == operator.run.as_str());
    let id = queued.unwrap().dispatch_id;
    let removed = env.engine.dispatches().cancel(&tenant(), &id, alice(), None).await.unwrap();
    assert_eq!(removed.unwrap().status, RunDispatchStatus::Cancelled);
    assert_eq!(env.status(&operator).await, "cancelled");
    begin(&env.engine, "gated", request()).await.unwrap();
}

async fn the_end_of_a_delayed_run_keeps_the_dispatches_of_other_runs(env: TestEnv) {
    env.register(gated("gated")).await;
    let request =
        || StartRequest { thread: Some("t1".to_owned()), dispatch: delayed_by(5000), ..start(json!({})) };
    let first = begin(&env.engine, "gated", request()).await.unwrap();
    let second = begin(&env.engine, "gated", request()).await.unwrap();
    env.engine.runs().cancel(&first, None, alice()).await.unwrap();
    env.clock.advance(5000);
    assert_eq!(env.drain().await, 1);
    assert_eq!(env.status(&second).await, "waiting-approval");
}

async fn a_resumed_run_leaves_no_delayed_dispatch_at_its_end(database: TestDatabase) {
    let (env, _) = recording(database).await;
    let of = start_as(&env, "work", delayed_by(5000)).await;
    let pause = Command::Pause { reason: None, drain: holdpoint_engine::core::Drain::Immediate, by: alice() };
    env.engine.runs().execute(&of, &pause).await.unwrap();
    env.engine.runs().execute(&of, &Command::Resume { by: alice() }).await.unwrap();
    env.drain().await;
    assert_eq!(env.status(&of).await, "completed", "a resume ends the delay");
    assert_eq!(unperformed(&env, of.run.as_str()).await, [RunDispatchStatus::Cancelled]);
}

async fn a_change_of_a_started_run_cannot_be_delayed(env: TestEnv) {
    env.register(gated("gated")).await;
    let of = start_as(&env, "gated", DispatchOptions::default()).await;
    let pause =
        [Command::Pause { reason: None, drain: holdpoint_engine::core::Drain::Immediate, by: alice() }];
    let options = |ms| ExecuteOptions { dispatch: delayed_by(ms), ..ExecuteOptions::default() };
    match env.engine.runs().execute_once(&of, &pause, options(1)).await {
        Err(Error::Refused(Refusal::InvalidRequest { field, .. })) => assert_eq!(field, "dispatch"),
        other => panic!("{other:?}"),
    }
    assert_eq!(env.status(&of).await, "waiting-approval");
    env.engine.runs().execute_once(&of, &pause, options(0)).await.unwrap();
}

async fn repeated_requests_get_the_receipt_and_not_the_error_of_the_key(database: TestDatabase) {
    let (env, _) = recording(database).await;
    let dispatch = DispatchOptions { dedupe_key: Some("daily".to_owned()), ..delayed_by(5000) };
    let workflow = WorkflowId::parse("work").unwrap();
    let send = async || {
        let request =
            StartRequest { thread: Some("t1".to_owned()), dispatch: dispatch.clone(), ..start(json!({})) };
        let once = Some(crate::receipts::once("k", |run: &Run| run.id.to_string()));
        let options = StartOptions { once, ..StartOptions::default() };
        env.engine.runs().create_with(&workflow, request, options).await
    };
    let first = send().await.unwrap();
    for _ in 0..2 {
        match send().await {
            Err(Error::Duplicate(receipt)) => assert_eq!(receipt.response, first.id.as_str()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(dispatches(&env, "t1").await.len(), 1);
}

async fn the_priority_decides_which_run_a_worker_claims_first(database: TestDatabase) {
    let (env, _) = recording(database).await;
    let mut runs = Vec::new();
    for options in [priority(200), DispatchOptions::default(), priority(10)] {
        runs.push(start_as(&env, "work", options).await.run.to_string());
    }
    let mailbox = env.engine.mailbox(&tenant());
    let claimed = mailbox.claims().claim_ready("test", 1000, env.clock.now(), 10).await.unwrap();
    let order: Vec<_> = claimed.iter().map(|row| (row.run_id.clone(), row.priority)).collect();
    runs.reverse();
    assert_eq!(order, std::iter::zip(runs, [10, 128, 200]).collect::<Vec<_>>());
}

async fn later_dispatches_and_child_runs_have_the_priority_of_the_start(database: TestDatabase) {
    let (env, _) = recording(database).await;
    env.register(line("parent", &[("call", "core.subWorkflow", json!({"workflowId": "work"}))])).await;
    let gate = json!({"title": "Go on?", "actions": ["accept"]});
    env.register(line("later", &[("gate", "core.approvalGate", gate), ("n", "test.recording", json!({}))]))
        .await;
    let options = DispatchOptions { max_attempts: Some(7), ..priority(40) };
    let of = start_as(&env, "later", options.clone()).await;
    env.answer(&of, "gate", crate::test_env::accept()).await.unwrap();
    let parent = start_as(&env, "parent", options).await;
    env.drain().await;
    for of in [of, child_of(&parent, 1)] {
        let rows = dispatches(&env, of.run.as_str()).await;
        let shown: Vec<_> = rows.iter().map(|row| (row.priority, row.max_attempts)).collect();
        assert_eq!(shown, [(40, 7)], "{of:?}");
    }
}

async fn a_thread_refuses_a_second_live_dispatch_with_a_key(database: TestDatabase) {
    let (env, _) = recording(database).await;
    let request = |thread: &str, key: &str| StartRequest {
        thread: Some(thread.to_owned()),
        dispatch: with_key(key),
        ..start(json!({}))
    };
    let first = begin(&env.engine, "work", request("t1", "daily")).await.unwrap();
    let held = dispatches(&env, "t1").await[0].dispatch_id.clone();
    match begin(&env.engine, "work", request("t1", "daily")).await {
        Err(Error::Mailbox(MailboxError::DuplicateKey { dedupe_key, existing_dispatch_id })) => {
            assert_eq!((dedupe_key.as_str(), existing_dispatch_id), ("daily", held));
        }
        other => panic!("{other:?}"),
    }
    let pause = Command::Pause { reason: None, drain: holdpoint_engine::core::Drain::Immediate, by: alice() };
    let options = || ExecuteOptions { dispatch: with_key("daily"), ..ExecuteOptions::default() };
    let refused = env.engine.runs().execute_once(&first, &[pause], options()).await;
    assert!(matches!(refused, Err(Error::Mailbox(MailboxError::DuplicateKey { .. }))), "{refused:?}");
    begin(&env.engine, "work", request("t1", "weekly")).await.unwrap();
    begin(&env.engine, "work", request("t2", "daily")).await.unwrap();
    assert_eq!(dispatches(&env, "t1").await.len(), 2, "a refused start leaves no dispatch");
    env.drain().await;
    begin(&env.engine, "work", request("t1", "daily")).await.unwrap();
}

async fn of_concurrent_starts_with_a_key_on_two_nodes_one_is_accepted(database: TestDatabase) {
    let (env, node) = recording(database).await;
    let other = env.second_engine(|options| options.node("test.recording", node)).await;
    for round in 0..20 {
        let thread = format!("t{round}");
        let request =
            || StartRequest { thread: Some(thread.clone()), dispatch: with_key("daily"), ..start(json!({})) };
        let starts =
            [&env.engine, &other, &env.engine, &other].map(|engine| begin(engine, "work", request()));
        let ended = futures_util::future::join_all(starts).await;
        assert_eq!(ended.iter().filter(|ended| ended.is_ok()).count(), 1, "{ended:?}");
        assert_eq!(dispatches(&env, &thread).await.len(), 1);
    }
}

async fn a_dispatch_with_one_attempt_is_a_dead_letter_after_its_failure(database: TestDatabase) {
    let env = TestEnv::with(database, |options| options.node("test.panicking", PanickingNode)).await;
    env.register(line("broken", &[("n", "test.panicking", json!({}))])).await;
    let of = start_as(&env, "broken", DispatchOptions { max_attempts: Some(1), ..priority(200) }).await;
    env.drain().await;
    assert_eq!(env.status(&of).await, "failed");
    let rows = dispatches(&env, of.run.as_str()).await;
    let shown: Vec<_> = rows.iter().map(|row| (row.status, row.attempt_count, row.max_attempts)).collect();
    assert_eq!(shown, [(RunDispatchStatus::DeadLetter, 1, 1)]);
}

async fn options_beyond_their_limits_are_refused(env: TestEnv) {
    env.register(gated("gated")).await;
    let attempts = |count| DispatchOptions { max_attempts: Some(count), ..DispatchOptions::default() };
    let year = 365 * 24 * 60 * 60 * 1000;
    for (options, field) in [
        (attempts(0), "dispatch.maxAttempts"),
        (attempts(101), "dispatch.maxAttempts"),
        (delayed_by(year + 1), "dispatch.availableAt"),
        (with_key(" "), "dispatch.dedupeKey"),
        (with_key("a\nb"), "dispatch.dedupeKey"),
        (with_key(&"k".repeat(129)), "dispatch.dedupeKey"),
        (with_key("requeue:0199"), "dispatch.dedupeKey"),
    ] {
        let request = StartRequest { dispatch: options.clone(), ..start(json!({})) };
        match begin(&env.engine, "gated", request).await {
            Err(Error::Refused(Refusal::InvalidRequest { field: refused, .. })) => assert_eq!(refused, field),
            other => panic!("{options:?}: {other:?}"),
        }
    }
    for options in [attempts(1), attempts(100), delayed_by(year), with_key(&"k".repeat(128))] {
        start_as(&env, "gated", options).await;
    }
}
