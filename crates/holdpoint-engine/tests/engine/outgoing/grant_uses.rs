//! A grant is used once: across crashes between decision and effect, and by clients that perform the effect themselves.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use holdpoint_engine::core::{Answer, Command, InterruptId, RunRef, WorkflowId};
use holdpoint_engine::{CommitFault, Engine, Error, Options};
use serde_json::{Value, json};

use crate::outgoing::grants::{edge, gate, pay, peer, uses};
use crate::outgoing::node::open;
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, accept, alice, graph, run_id, start, tenant};

on_both! {
    a_crash_between_decision_and_effect_leaves_one_use_and_one_key,
    a_grant_is_consumed_once,
}

/// Registers the definition and executes a run. Steps that happened before a crash are skipped.
async fn execute_run(engine: &Engine, definition: Value) -> Result<(), Error> {
    engine.workflows().register(&tenant(), definition).await?;
    let of = RunRef { tenant: tenant(), run: run_id("the-run") };
    let workflow = WorkflowId::parse("pay").unwrap();
    match engine.runs().create_as(&of.run, &workflow, start(json!({"sum": 1}))).await {
        Ok(_) | Err(Error::Refused(_)) => {}
        Err(error) => return Err(error),
    }
    let answers = BTreeMap::from([(InterruptId(1), Answer::new(accept(), alice()))]);
    match engine.runs().execute(&of, &Command::Resolve { answers }).await {
        Ok(_) | Err(Error::Refused(_)) => {}
        Err(error) => return Err(error),
    }
    engine.worker().drain().await.map(|_| ())
}

async fn a_crash_between_decision_and_effect_leaves_one_use_and_one_key(database: TestDatabase) {
    let mut stops = vec![None];
    while let Some(stop) = stops.pop() {
        let peer = peer().await;
        let definition = graph("pay", &[gate(json!({})), pay("pay", &peer)], &[edge("gate", "pay")]);
        let crashing = |options: Options| match stop {
            Some(stop) => open(options).fault(stop),
            None => open(options),
        };
        let env = TestEnv::with(database.another().await, crashing).await;
        let crashed = execute_run(&env.engine, definition.clone()).await.is_err();
        assert_eq!(crashed, stop.is_some(), "{stop:?} was reached");
        if stop.is_none() {
            let commits = env.engine.counters().commits.load(Ordering::SeqCst);
            assert!(commits >= 5, "{commits} commits");
            stops.extend(
                (1..=commits)
                    .flat_map(|n| [Some(CommitFault::StopBefore(n)), Some(CommitFault::StopAfter(n))]),
            );
        }
        let env = env.reopen(open).await;
        execute_run(&env.engine, definition).await.unwrap();
        let of = RunRef { tenant: tenant(), run: run_id("the-run") };
        assert_eq!(env.status(&of).await, "completed", "{stop:?}");
        assert_eq!(uses(&*env.run(&of).await), [("pay".to_owned(), 1)], "{stop:?}");
        let mut keys = peer.header("idempotency-key");
        keys.dedup();
        assert_eq!(keys.len(), 1, "{stop:?}: {keys:?}");
    }
}

async fn a_grant_is_consumed_once(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    env.register(graph("ask", &[gate(json!({}))], &[])).await;
    let of = env.start_with("ask", json!({"sum": 1})).await;
    let consume = |key: &str, digest: String| {
        let (engine, of, key) = (env.engine.clone(), of.clone(), key.to_owned());
        async move { engine.grants().consume(&of, InterruptId(1), &digest, "bot", key).await }
    };
    let code = |result: Result<_, Error>| match result {
        Err(Error::Refused(refusal)) => refusal.code().to_string(),
        Err(Error::NotFound(kind)) => kind.to_owned(),
        Err(error) => panic!("{error}"),
        Ok(_) => "ok".to_owned(),
    };
    let digest = holdpoint_engine::core::digest(&json!(1));
    assert_eq!(code(consume("k", digest.clone()).await), "grant", "there is no grant before the approval");
    env.answer(&of, "gate", accept()).await.unwrap();
    assert_eq!(code(consume("k", holdpoint_engine::core::digest(&json!(2))).await), "payload_mismatch");
    let many =
        futures_util::future::join_all((0..16).map(|n| consume(&format!("k{n}"), digest.clone()))).await;
    let codes: Vec<String> = many.into_iter().map(code).collect();
    assert_eq!(codes.iter().filter(|code| *code == "ok").count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| *code == "grant_used").count(), 15, "{codes:?}");
    let winner = codes.iter().position(|code| code == "ok").unwrap();
    assert_eq!(code(consume(&format!("k{winner}"), digest.clone()).await), "ok", "the same key again");
    assert!(env.engine.grants().get(&of, InterruptId(1)).await.unwrap().consumed.is_some());
}
