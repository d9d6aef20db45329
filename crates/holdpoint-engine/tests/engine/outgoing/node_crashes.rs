//! `core.http` with crashes and cancellations: the response is recorded once, and a call whose outcome is unknown is
//! repeated with the same idempotency key.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use holdpoint_engine::core::{Refusal, RunRef, WorkflowId};
use holdpoint_engine::{CommitFault, Engine, Error, Options};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::outgoing::node::open;
use crate::peer::{Peer, PeerReply};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, alice, line, run_id, start, tenant};

on_both! {
    a_crash_at_any_commit_repeats_the_call_at_most_once_with_the_same_key,
    a_recorded_response_is_used_even_if_the_host_is_no_longer_allowed,
    a_run_cancelled_during_its_call_stays_cancelled,
}

fn definition(peer: &Peer) -> Value {
    let config = json!({"url": peer.url("/pay"), "method": "POST"});
    line("pay", &[("a", "core.noop", json!({})), ("pay", "core.http", config), ("z", "core.noop", json!({}))])
}

fn the_run() -> RunRef {
    RunRef { tenant: tenant(), run: run_id("the-run") }
}

/// Registers the definition and executes the run. Steps that happened before a crash are skipped.
async fn execute_run(engine: &Engine, definition: Value) -> Result<(), Error> {
    engine.workflows().register(&tenant(), definition).await?;
    let workflow = WorkflowId::parse("pay").unwrap();
    match engine.runs().create_as(&the_run().run, &workflow, start(json!({}))).await {
        Ok(_) | Err(Error::Refused(Refusal::AlreadyStarted)) => {}
        Err(error) => return Err(error),
    }
    engine.worker().drain().await.map(|_| ())
}

/// Executes the run with a crash. Returns the number of calls, the log, and the number of commits before the crash.
async fn run_with_crash(database: TestDatabase, stop: Option<CommitFault>) -> (usize, Vec<String>, u64) {
    let peer = Peer::with_replies([PeerReply::json(200, r#"{"paid":true}"#)]).await;
    let crashing = |options: Options| match stop {
        Some(stop) => open(options).fault(stop),
        None => open(options),
    };
    let env = TestEnv::with(database, crashing).await;
    let crashed = execute_run(&env.engine, definition(&peer)).await.is_err();
    assert_eq!(crashed, stop.is_some(), "{stop:?} was reached");
    let commits = env.engine.counters().commits.load(Ordering::SeqCst);
    let env = env.reopen(open).await;
    execute_run(&env.engine, definition(&peer)).await.unwrap();
    assert_eq!(env.status(&the_run()).await, "completed", "{stop:?}");
    let mut keys = peer.header("idempotency-key");
    keys.dedup();
    assert!(keys.len() == 1 && keys[0].is_some(), "{stop:?}: {keys:?}");
    let log = env.log(&the_run()).await;
    (peer.requests().len(), log, commits)
}

async fn a_crash_at_any_commit_repeats_the_call_at_most_once_with_the_same_key(database: TestDatabase) {
    let (calls, expected, commits) = run_with_crash(database.another().await, None).await;
    assert_eq!(calls, 1);
    assert!(commits >= 4, "{commits} commits");
    let mut repeated = 0;
    for n in 1..=commits {
        for stop in [CommitFault::StopBefore(n), CommitFault::StopAfter(n)] {
            let (calls, log, _) = run_with_crash(database.another().await, Some(stop)).await;
            assert_eq!(log, expected, "{stop:?}");
            assert!(calls <= 2, "{stop:?}: {calls} calls");
            repeated += calls - 1;
        }
    }
    assert_eq!(repeated, 1, "only a crash between the call and its record repeats the call");
}

async fn a_recorded_response_is_used_even_if_the_host_is_no_longer_allowed(database: TestDatabase) {
    // Finds the first crash between the record of the response and the end of the node.
    for n in 1..20 {
        let peer = Peer::with_replies([PeerReply::json(200, "7")]).await;
        let crashing = |options: Options| open(options).fault(CommitFault::StopAfter(n));
        let env = TestEnv::with(database.another().await, crashing).await;
        assert!(execute_run(&env.engine, definition(&peer)).await.is_err());
        let env = env.reopen(|options| options).await;
        let recorded = match env.engine.runs().get(&the_run()).await {
            Ok(run) => run.nodes[1].steps.contains_key("request"),
            Err(_) => false,
        };
        if recorded {
            env.drain().await;
            let run = env.run(&the_run()).await;
            assert_eq!((run.status().as_str(), &run.variables["body"]), ("completed", &json!(7)));
            assert_eq!(peer.requests().len(), 1);
            return;
        }
    }
    panic!("no crash left a recorded response");
}

async fn a_run_cancelled_during_its_call_stays_cancelled(database: TestDatabase) {
    let signal = Arc::new(Notify::new());
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".to_owned();
    let peer = Peer::with_replies([PeerReply::When(signal.clone(), answer)]).await;
    let env = TestEnv::with(database, open).await;
    env.register(definition(&peer)).await;
    let of = env.start("pay").await;
    let engine = env.engine.clone();
    let working = tokio::spawn(async move { engine.worker().drain().await.unwrap() });
    peer.wait_for_requests(1).await;
    env.engine.runs().cancel(&of, None, alice()).await.unwrap();
    signal.notify_one();
    working.await.unwrap();
    let log = env.log(&of).await;
    assert_eq!(env.status(&of).await, "cancelled");
    assert!(log.last().unwrap().contains("run.cancelled"), "{log:?}");
    assert!(!log.concat().contains("step.recorded"), "{log:?}");
    assert_eq!((env.drain().await, peer.requests().len()), (0, 1));
}
