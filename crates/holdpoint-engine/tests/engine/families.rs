//! Child runs: a parent and its children change in one commit.

use std::sync::atomic::Ordering;

use holdpoint_engine::core::{Refusal, RunRef, StartRequest, Status, WorkflowId};
use holdpoint_engine::{Clock, CommitFault, Engine, Error, Options, RunFilter};
use serde_json::{Value, json};

use crate::effects::{Shop, with_shop};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{
    TestEnv, accept, alice, child_of, gated, graph, line, node, resolve, run_id, start, tenant, with_fault,
};

on_both! {
    a_parent_waits_for_its_child_and_takes_the_mapped_outputs,
    a_parent_has_the_waiting_status_of_its_child_at_any_depth,
    a_child_that_cannot_start_fails_its_node_at_once,
    a_child_without_a_waiting_parent_continues_alone,
    a_run_that_does_not_wait_for_an_unknown_workflow_completes,
    a_cancelled_parent_cancels_all_runs_below_it,
    a_cancelled_child_fails_its_parent,
    sixteen_children_that_end_concurrently_are_all_recorded,
    a_crash_around_any_commit_leaves_one_consistent_family,
    a_failed_or_lost_commit_leaves_one_consistent_family,
    children_are_listed_by_their_parent,
    a_child_has_the_options_and_tags_of_its_parent_at_any_depth,
    a_child_that_rejects_the_options_of_its_parent_fails_its_node,
}

pub(crate) fn calls(id: &str, workflow: &str, more: Value) -> Value {
    let mut config = json!({"workflowId": workflow, "outputMapping": {"got": "receipt"}});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    line(
        id,
        &[
            ("before", "core.noop", json!({})),
            ("call", "core.subWorkflow", config),
            ("after", "core.noop", json!({})),
        ],
    )
}

/// Checks that a parent has the status and the open interrupts of its children.
pub(crate) async fn assert_consistent(engine: &Engine, of: &RunRef) {
    let parent = engine.runs().get(of).await.unwrap();
    for known in &parent.children {
        let child = engine.runs().get(&RunRef { tenant: tenant(), run: known.run.clone() }).await.unwrap();
        let status = child.status();
        if parent.finished() {
            assert!(child.finished() || !known.cascade, "the child run is still {status:?}");
        } else {
            let has_started = known.status == Status::Pending && status == Status::Running;
            assert!(has_started || known.status == status, "{status:?}, recorded as {:?}", known.status);
            assert_eq!(known.result.is_some(), child.finished());
            let open = child.interrupts_for_parent();
            assert_eq!(known.interrupts.len(), open.len());
            assert!(open.iter().all(|one| known.interrupts.contains(one)), "{open:?}");
        }
    }
}

async fn a_parent_waits_for_its_child_and_takes_the_mapped_outputs(database: TestDatabase) {
    let shop = Shop::default();
    let env = TestEnv::with(database, with_shop(&shop)).await;
    env.register(line("buying", &[("buy", "test.shop", json!({}))])).await;
    env.register(calls("parent", "buying", json!({"inputMapping": {"wish": "wish"}}))).await;
    let of = env.start_with("parent", json!({"wish": "tea", "other": 1})).await;
    let child = child_of(&of, 1);
    let started = env.run(&child).await.started.clone().unwrap();
    assert_eq!(Value::Object(started.inputs.clone()), json!({"wish": "tea"}));
    let parent = started.parent.clone().unwrap();
    assert_eq!((parent.run, parent.node.as_str(), parent.depth), (of.run.clone(), "call", 1));
    env.drain().await;
    assert_consistent(&env.engine, &of).await;
    env.answer(&child, "buy", json!("r1")).await.unwrap();
    env.drain().await;
    let parent = env.run(&of).await;
    assert_eq!(parent.status().as_str(), "completed");
    assert_eq!(parent.variables["got"], "r1");
    assert_eq!(parent.variables["childStatus"], "completed");
    let outputs = &parent.children[0].result.as_ref().unwrap().outputs;
    assert_eq!(outputs.keys().collect::<Vec<_>>(), ["receipt"], "only the mapped outputs");
    assert_eq!(shop.payments.load(Ordering::SeqCst), 1);
}

async fn a_parent_has_the_waiting_status_of_its_child_at_any_depth(env: TestEnv) {
    env.register(gated("leaf")).await;
    env.register(calls("middle", "leaf", json!({}))).await;
    env.register(calls("top", "middle", json!({}))).await;
    let of = env.start("top").await;
    env.drain().await;
    let (middle, leaf) = (child_of(&of, 1), child_of(&child_of(&of, 1), 1));
    for of in [&of, &middle, &leaf] {
        assert_eq!(env.status(of).await, "waiting-approval");
    }
    assert_consistent(&env.engine, &of).await;
    assert_consistent(&env.engine, &middle).await;
    env.answer(&leaf, "gate", accept()).await.unwrap();
    assert_consistent(&env.engine, &middle).await;
    env.drain().await;
    for of in [&of, &middle, &leaf] {
        assert_eq!(env.status(of).await, "completed");
    }
    assert_eq!(env.drain().await, 0);
}

async fn a_run_that_does_not_wait_for_an_unknown_workflow_completes(env: TestEnv) {
    let config = json!({"workflowId": "nowhere", "waitForCompletion": false});
    env.register(line("calls", &[("call", "core.subWorkflow", config)])).await;
    let of = env.start("calls").await;
    env.drain().await;
    assert_eq!(env.status(&of).await, "completed");
}

async fn a_child_that_cannot_start_fails_its_node_at_once(env: TestEnv) {
    let mut picky = gated("picky");
    picky["variables"] = json!([{"name": "size", "type": "number", "required": true}]);
    env.register(picky).await;
    for (callee, why) in [("nowhere", "workflow_not_found"), ("picky", "validation_error")] {
        let parent = format!("calls-{callee}");
        env.register(calls(&parent, callee, json!({}))).await;
        let of = env.start(&parent).await;
        assert_eq!(env.status(&of).await, "failed", "{callee}, in the commit that starts it");
        let log = env.log(&of).await.join("\n");
        assert!(log.contains("child_failed") && log.contains(why), "{log}");
        assert_eq!(env.drain().await, 0);
    }
}

async fn a_child_without_a_waiting_parent_continues_alone(env: TestEnv) {
    env.register(gated("child")).await;
    let free = json!({"waitForCompletion": false, "propagateCancellation": false});
    env.register(calls("parent", "child", free)).await;
    let of = env.start("parent").await;
    assert_eq!(env.status(&of).await, "completed");
    env.drain().await;
    assert_eq!(env.status(&child_of(&of, 1)).await, "waiting-approval");
    env.answer(&child_of(&of, 1), "gate", accept()).await.unwrap();
    assert_eq!(env.status(&child_of(&of, 1)).await, "completed");
}

async fn a_cancelled_parent_cancels_all_runs_below_it(database: TestDatabase) {
    // The commits before the cancellation: three definitions, the start, and those of the worker for two children.
    let cancel_family = async |env: &TestEnv| -> Result<RunRef, Error> {
        for definition in
            [gated("leaf"), calls("middle", "leaf", json!({})), calls("top", "middle", json!({}))]
        {
            env.engine.workflows().register(&tenant(), definition).await?;
        }
        let (id, top) = (run_id("the-run"), WorkflowId::parse("top").unwrap());
        let of = RunRef { tenant: tenant(), run: id.clone() };
        match env.engine.runs().create_as(&id, &top, start(json!({}))).await {
            Ok(_) | Err(Error::Refused(Refusal::AlreadyStarted)) => {}
            Err(error) => return Err(error),
        }
        env.engine.worker().drain().await?;
        env.engine.runs().cancel(&of, Some("enough".to_owned()), alice()).await?;
        Ok(of)
    };
    let env = TestEnv::with(database.another().await, |options| options).await;
    cancel_family(&env).await.unwrap();
    let commits = env.engine.counters().commits.load(Ordering::SeqCst);
    for n in 4..=commits {
        for stop in [CommitFault::StopBefore(n), CommitFault::StopAfter(n)] {
            let env = TestEnv::with(database.another().await, with_fault(stop)).await;
            assert!(cancel_family(&env).await.is_err(), "{stop:?} was reached");
            let env = env.reopen(|options| options).await;
            let of = RunRef { tenant: tenant(), run: run_id("the-run") };
            if let Ok(run) = env.engine.runs().get(&of).await
                && run.finished()
            {
                assert_consistent(&env.engine, &of).await;
                assert_consistent(&env.engine, &child_of(&of, 1)).await;
            }
            let of = cancel_family(&env).await.unwrap();
            env.drain().await;
            assert!(env.pending().await.is_empty());
            let (middle, leaf) = (child_of(&of, 1), child_of(&child_of(&of, 1), 1));
            for of in [&of, &middle, &leaf] {
                assert_eq!(env.status(of).await, "cancelled", "{stop:?}");
            }
            assert!(env.log(&leaf).await.last().unwrap().contains("parent-cancelled"));
            assert_eq!(env.drain().await, 0);
        }
    }
}

async fn a_cancelled_child_fails_its_parent(env: TestEnv) {
    env.register(gated("child")).await;
    env.register(calls("parent", "child", json!({}))).await;
    let of = env.start("parent").await;
    env.drain().await;
    env.engine.runs().cancel(&child_of(&of, 1), None, alice()).await.unwrap();
    assert_consistent(&env.engine, &of).await;
    env.drain().await;
    assert_eq!(env.status(&of).await, "failed");
    assert!(env.log(&of).await.last().unwrap().contains("child_failed"));
}

async fn sixteen_children_that_end_concurrently_are_all_recorded(env: TestEnv) {
    env.register(gated("child")).await;
    let config = json!({"workflowId": "child"});
    let nodes: Vec<Value> =
        (0..16).map(|n| node(&format!("call{n}"), "core.subWorkflow", config.clone())).collect();
    env.register(graph("parent", &nodes, &[])).await;
    let of = env.start("parent").await;
    env.drain().await;
    assert_eq!((env.status(&of).await, env.pending().await.len()), ("waiting-approval", 16));
    // Only one process can open a SQLite file.
    let other = match env.database {
        TestDatabase::Sqlite(_) => env.engine.clone(),
        TestDatabase::Postgres(_) => env.second_engine(|options| options).await,
    };
    let mut answers = tokio::task::JoinSet::new();
    for n in 1..=16 {
        let (engine, child) = (if n % 2 == 0 { other.clone() } else { env.engine.clone() }, child_of(&of, n));
        answers.spawn(async move {
            let id = engine.runs().get(&child).await.unwrap().waiting_on().unwrap().id;
            engine.runs().execute(&child, &resolve(id, accept())).await.unwrap();
        });
    }
    answers.join_all().await;
    assert_consistent(&env.engine, &of).await;
    env.drain().await;
    assert_eq!(env.status(&of).await, "completed");
    assert_eq!(env.run(&of).await.children.len(), 16);
}

/// Performs a parent run and a child run with an effect and an interrupt. Steps that already happened are skipped.
async fn perform(engine: &Engine, clock: &Clock) -> Result<(), Error> {
    let of = RunRef { tenant: tenant(), run: run_id("the-run") };
    engine
        .workflows()
        .register(
            &tenant(),
            line("buying", &[("nap", "core.delay", json!({"ms": 50})), ("buy", "test.shop", json!({}))]),
        )
        .await?;
    engine.workflows().register(&tenant(), calls("parent", "buying", json!({}))).await?;
    match engine.runs().create_as(&of.run, &WorkflowId::parse("parent").unwrap(), start(json!({}))).await {
        Ok(_) | Err(Error::Refused(Refusal::AlreadyStarted)) => {}
        Err(error) => return Err(error),
    }
    assert_consistent(engine, &of).await;
    let mut worker = engine.worker();
    worker.drain().await?;
    clock.advance(50);
    worker.drain().await?;
    assert_consistent(engine, &of).await;
    let child = child_of(&of, 1);
    if let Some(interrupt) = engine.runs().get(&child).await?.waiting_on() {
        engine.runs().execute(&child, &resolve(interrupt.id, json!("r1"))).await?;
    }
    assert_consistent(engine, &of).await;
    worker.drain().await?;
    assert_consistent(engine, &of).await;
    Ok(())
}

async fn assert_performed(env: &TestEnv, shop: &Shop, what: &str) -> Vec<String> {
    let of = RunRef { tenant: tenant(), run: run_id("the-run") };
    assert_eq!(env.status(&of).await, "completed", "{what}");
    assert_eq!(env.run(&of).await.variables["got"], "r1", "{what}");
    assert_eq!(env.run(&of).await.children.len(), 1, "{what}");
    let filter = RunFilter { limit: 10, ..RunFilter::default() };
    assert_eq!(env.engine.runs().list(&tenant(), filter).await.unwrap().len(), 2, "one child: {what}");
    assert!(shop.payments.load(Ordering::SeqCst) <= 2, "{what}");
    assert_eq!(env.drain().await, 0, "{what}");
    assert!(env.pending().await.is_empty(), "{what}");
    let mut log = env.log(&of).await;
    log.extend(env.log(&child_of(&of, 1)).await);
    log
}

async fn a_crash_around_any_commit_leaves_one_consistent_family(database: TestDatabase) {
    let shop = Shop::default();
    let env = TestEnv::with(database.another().await, with_shop(&shop)).await;
    perform(&env.engine, &env.clock).await.unwrap();
    let commits = env.engine.counters().commits.load(Ordering::SeqCst);
    assert_performed(&env, &shop, "no fault").await;
    for n in 3..=commits {
        for stop in [CommitFault::StopBefore(n), CommitFault::StopAfter(n)] {
            let shop = Shop::default();
            let configure = |options: Options| options.node("test.shop", shop.clone());
            let env =
                TestEnv::with(database.another().await, |options| with_fault(stop)(configure(options))).await;
            assert!(perform(&env.engine, &env.clock).await.is_err(), "{stop:?} was reached");
            let env = env.reopen(configure).await;
            perform(&env.engine, &env.clock).await.unwrap();
            assert_performed(&env, &shop, &format!("{stop:?}")).await;
        }
    }
}

async fn a_failed_or_lost_commit_leaves_one_consistent_family(database: TestDatabase) {
    for n in 3..=14 {
        for fault in
            [CommitFault::Fail(n), CommitFault::LoseConnectionBefore(n), CommitFault::LoseConnectionAfter(n)]
        {
            let shop = Shop::default();
            let configure = |options: Options| options.fault(fault).node("test.shop", shop.clone());
            let env = TestEnv::with(database.another().await, configure).await;
            for _ in 0..8 {
                let _ = perform(&env.engine, &env.clock).await;
                env.clock.advance(40_000);
            }
            assert_performed(&env, &shop, &format!("{fault:?}")).await;
        }
    }
}

async fn children_are_listed_by_their_parent(env: TestEnv) {
    env.register(gated("child")).await;
    env.register(calls("parent", "child", json!({}))).await;
    let (of, other) = (env.start("parent").await, env.start("parent").await);
    let filter = RunFilter { parent: Some(of.run.to_string()), limit: 10, ..RunFilter::default() };
    let found = env.engine.runs().list(&tenant(), filter).await.unwrap();
    let found: Vec<_> = found.into_iter().map(|run| (run.run, run.parent)).collect();
    assert_eq!(found, [(child_of(&of, 1).run, Some(of.run.clone()))]);
    assert_consistent(&env.engine, &other).await;
}

/// Starts a run with options and a tag.
async fn start_with_options(env: &TestEnv, workflow: &str, options: &Value) -> RunRef {
    let (configurable, tags) = (options.as_object().cloned().unwrap(), vec!["nightly".to_owned()]);
    let start = StartRequest { configurable, tags, ..start(json!({})) };
    let run = env.engine.runs().create(&WorkflowId::parse(workflow).unwrap(), start).await.unwrap();
    RunRef { tenant: tenant(), run: run.id.clone() }
}

async fn a_child_has_the_options_and_tags_of_its_parent_at_any_depth(env: TestEnv) {
    env.register(line("leaf", &[("ask", "core.ai.callPrompt", json!({"promptId": "greeting"}))])).await;
    env.register(calls("middle", "leaf", json!({"outputMapping": {"text": "text"}}))).await;
    env.register(calls("top", "middle", json!({"outputMapping": {"text": "text"}}))).await;
    let mock = json!({"id": "stream-text", "config": {"tokens": ["Hel", "lo"]}});
    let options = json!({"mockProvider": mock, "temperature": 1, "recursionLimit": 7});
    let of = start_with_options(&env, "top", &options).await;
    env.drain().await;
    assert_eq!(env.run(&of).await.variables["text"], "Hello");
    for below in [child_of(&of, 1), child_of(&child_of(&of, 1), 1)] {
        let started = env.run(&below).await.started.clone().unwrap();
        assert_eq!(Value::Object(started.configurable.clone()), options);
        assert_eq!(started.tags, ["nightly"]);
    }
    let filter = RunFilter { tag: Some("nightly".to_owned()), limit: 10, ..RunFilter::default() };
    assert_eq!(env.engine.runs().list(&tenant(), filter).await.unwrap().len(), 3, "each run has the tag");
}

async fn a_child_that_rejects_the_options_of_its_parent_fails_its_node(env: TestEnv) {
    let mut cool = gated("cool");
    cool["configurableSchema"] = json!({"properties": {"temperature": {"maximum": 0.5}}});
    env.register(cool).await;
    env.register(calls("parent", "cool", json!({}))).await;
    let of = start_with_options(&env, "parent", &json!({"temperature": 1})).await;
    assert_eq!(env.status(&of).await, "failed", "in the commit that starts it");
    let log = env.log(&of).await.join("\n");
    for part in ["child_failed", "validation_error", "configurable/temperature"] {
        assert!(log.contains(part), "{part} in {log}");
    }
    let of = start_with_options(&env, "parent", &json!({"temperature": 0.5})).await;
    env.drain().await;
    assert_eq!(env.status(&of).await, "waiting-approval");
}
