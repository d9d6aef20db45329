//! Requests with an idempotency key: they are executed once, and repetitions get the stored response.

use std::sync::Arc;

use holdpoint_engine::core::mailbox::RunDispatch;
use holdpoint_engine::core::{ForkMode, Refusal, Run, RunRef, WorkflowId};
use holdpoint_engine::{
    CommitFault, Engine, Error, ForkRequest, Once, Overlay, Registration, RequestKey, RunFilter, StartOptions,
};
use serde_json::json;

use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, accept, alice, gated, resolve, start, tenant, with_fault};

on_both! {
    a_repeated_key_starts_one_run,
    the_receipt_of_a_run_is_not_written_with_the_registration_of_its_workflow,
    of_concurrent_requests_with_one_key_on_two_nodes_one_is_executed,
    a_refusal_leaves_no_receipt_and_can_be_stored_as_one,
    a_request_that_changes_nothing_can_leave_a_receipt,
    an_expired_receipt_is_replaced_and_purged,
    a_crash_leaves_run_and_receipt_together_or_neither,
    a_commit_whose_acknowledgement_was_lost_is_not_its_own_duplicate,
    a_change_with_a_conflict_leaves_no_receipt,
    a_cancelled_dispatch_leaves_a_receipt,
    a_fork_leaves_a_receipt,
}

const DAY_MS: u64 = 86_400_000;

/// A request with this key. `respond` writes its response.
pub(crate) fn once<T: 'static>(key: &str, respond: fn(&T) -> String) -> Once<T> {
    Once { request: request(key), respond: Arc::new(move |made| (201, respond(made))) }
}

fn request(key: &str) -> RequestKey {
    RequestKey {
        tenant: tenant(),
        operation: "runs.create".to_owned(),
        key_hash: key.to_owned(),
        body_hash: "body".to_owned(),
        ttl_ms: DAY_MS,
    }
}

pub(crate) fn run_response(run: &Run) -> String {
    format!("{}: {}", run.id, run.status().as_str())
}

fn workflow_response(Registration { workflow, stored }: &Registration) -> String {
    format!("{} {} {stored}", workflow.id, workflow.revision)
}

async fn begin(engine: &Engine, key: &str) -> Result<Arc<Run>, Error> {
    let options = StartOptions { once: Some(once(key, run_response)), ..StartOptions::default() };
    engine.runs().create_with(&WorkflowId::parse("flow").unwrap(), start(json!({})), options).await
}

fn response(error: Error) -> String {
    match error {
        Error::Duplicate(receipt) => receipt.response.clone(),
        other => panic!("{other}"),
    }
}

async fn runs(env: &TestEnv) -> usize {
    let filter = RunFilter { limit: 1000, ..RunFilter::default() };
    env.engine.runs().list(&tenant(), filter).await.unwrap().len()
}

async fn a_repeated_key_starts_one_run(env: TestEnv) {
    env.register(gated("flow")).await;
    let run = begin(&env.engine, "k").await.unwrap();
    let expected = format!("{}: waiting-approval", run.id);
    assert_eq!(response(begin(&env.engine, "k").await.unwrap_err()), expected);
    let receipt = env.engine.receipts().get(&request("k")).await.unwrap().unwrap();
    assert_eq!((receipt.status, receipt.response.as_str()), (201, expected.as_str()));
    assert_eq!(receipt.body_hash, "body");
    let other = RequestKey { operation: "runs.cancel".to_owned(), ..request("k") };
    assert_eq!(env.engine.receipts().get(&other).await.unwrap(), None);
    begin(&env.engine, "other").await.unwrap();
    assert_eq!(runs(&env).await, 2);
}

/// The first start of a built-in workflow registers it.
async fn the_receipt_of_a_run_is_not_written_with_the_registration_of_its_workflow(env: TestEnv) {
    let options = StartOptions { once: Some(once("k", run_response)), ..StartOptions::default() };
    let workflow = WorkflowId::parse("content-review").unwrap();
    let run = env.engine.runs().create_with(&workflow, start(json!({})), options).await.unwrap();
    let receipt = env.engine.receipts().get(&request("k")).await.unwrap().unwrap();
    assert_eq!((receipt.response, runs(&env).await), (run_response(&run), 1));
}

async fn of_concurrent_requests_with_one_key_on_two_nodes_one_is_executed(env: TestEnv) {
    env.register(gated("flow")).await;
    let other = env.second_engine(|options| options).await;
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..20 {
        let engine = if n % 2 == 0 { env.engine.clone() } else { other.clone() };
        calls.spawn(async move { begin(&engine, "k").await.map(|run| run.id.clone()) });
    }
    let (mut executed, mut repeated) = (Vec::new(), Vec::new());
    while let Some(ended) = calls.join_next().await {
        match ended.unwrap() {
            Ok(run) => executed.push(run),
            Err(error) => repeated.push(response(error)),
        }
    }
    assert_eq!((executed.len(), repeated.len(), runs(&env).await), (1, 19, 1));
    assert!(repeated.iter().all(|text| *text == format!("{}: waiting-approval", executed[0])));
    other.close().await;
}

async fn a_refusal_leaves_no_receipt_and_can_be_stored_as_one(env: TestEnv) {
    env.register(gated("flow")).await;
    let of = env.start("flow").await;
    let id = env.run(&of).await.waiting_on().unwrap().id;
    let (engine, once) = (&env.engine, once("k", run_response));
    let wrong =
        engine.runs().execute_once(&of, &[resolve(id, json!({"action": "dance"}))], Some(&once)).await;
    assert!(matches!(wrong, Err(Error::Refused(Refusal::InvalidRequest { .. }))));
    assert_eq!(engine.receipts().get(&once.request).await.unwrap(), None);
    let keep =
        async |status, body: &str| engine.receipts().keep(&once.request, status, body.to_owned()).await;
    keep(409, "no").await.unwrap();
    let repeated = engine.runs().execute_once(&of, &[resolve(id, accept())], Some(&once)).await.unwrap_err();
    assert_eq!(response(repeated), "no");
    assert_eq!(env.status(&of).await, "waiting-approval", "the answer is not recorded");
    assert_eq!(response(keep(410, "again").await.unwrap_err()), "no");
}

async fn a_request_that_changes_nothing_can_leave_a_receipt(env: TestEnv) {
    for (key, stored) in [("r1", true), ("r2", false)] {
        let once = Some(once(key, workflow_response));
        let registered = env.engine.workflows().register_once(&tenant(), gated("flow"), once).await.unwrap();
        assert_eq!(registered.stored, stored);
    }
    let receipt = async |key: &str| {
        let found = env.engine.receipts().get(&request(key)).await.unwrap();
        found.map(|receipt| receipt.response)
    };
    assert_eq!(receipt("r1").await.as_deref(), Some("flow 1 true"));
    assert_eq!(receipt("r2").await.as_deref(), Some("flow 1 false"));
    let of = env.start("flow").await;
    env.engine.runs().cancel(&of, None, alice()).await.unwrap();
    env.engine.runs().cancel_once(&of, None, alice(), Some(&once("c", run_response))).await.unwrap();
    assert_eq!(receipt("c").await, Some(format!("{}: cancelled", of.run)));
    let once = once("x", |()| "revoked".to_owned());
    assert!(!env.engine.keys().revoke(&tenant(), "unknown", Some(&once)).await.unwrap());
    assert_eq!(receipt("x").await, None, "no key was revoked");
}

async fn an_expired_receipt_is_replaced_and_purged(env: TestEnv) {
    env.register(gated("flow")).await;
    let first = begin(&env.engine, "k").await.unwrap();
    begin(&env.engine, "old").await.unwrap();
    env.clock.advance(i64::try_from(DAY_MS).unwrap());
    assert_eq!(env.engine.receipts().get(&request("k")).await.unwrap(), None);
    let second = begin(&env.engine, "k").await.unwrap();
    assert_ne!(first.id, second.id);
    env.engine.worker().tidy().await;
    let rows = env.database.read("SELECT key_hash FROM receipts").await;
    assert_eq!(rows, [[("key_hash".to_owned(), Some("k".to_owned()))]]);
}

async fn a_crash_leaves_run_and_receipt_together_or_neither(database: TestDatabase) {
    for (stop, expected) in [(CommitFault::StopBefore(2), 0), (CommitFault::StopAfter(2), 1)] {
        let env = TestEnv::with(database.another().await, with_fault(stop)).await;
        env.register(gated("flow")).await;
        assert!(begin(&env.engine, "k").await.is_err());
        let env = env.reopen(|options| options).await;
        let receipt = env.engine.receipts().get(&request("k")).await.unwrap();
        assert_eq!((runs(&env).await, usize::from(receipt.is_some())), (expected, expected), "{stop:?}");
        assert_eq!(begin(&env.engine, "k").await.is_ok(), expected == 0);
        assert_eq!(runs(&env).await, 1);
    }
}

async fn a_commit_whose_acknowledgement_was_lost_is_not_its_own_duplicate(database: TestDatabase) {
    for fault in [CommitFault::LoseConnectionBefore(2), CommitFault::LoseConnectionAfter(2)] {
        let env = TestEnv::with(database.another().await, with_fault(fault)).await;
        env.register(gated("flow")).await;
        let run = begin(&env.engine, "k").await.unwrap();
        assert_eq!(runs(&env).await, 1, "{fault:?}");
        let repeated = response(begin(&env.engine, "k").await.unwrap_err());
        assert_eq!(repeated, format!("{}: waiting-approval", run.id), "{fault:?}");
    }
}

/// Of many answers with different keys one counts, and only its key has a receipt.
async fn a_change_with_a_conflict_leaves_no_receipt(env: TestEnv) {
    env.register(gated("flow")).await;
    let of: RunRef = env.start("flow").await;
    let id = env.run(&of).await.waiting_on().unwrap().id;
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..20 {
        let (engine, of, once) = (env.engine.clone(), of.clone(), once(&format!("k{n}"), run_response));
        calls.spawn(async move {
            engine.runs().execute_once(&of, &[resolve(id, accept())], Some(&once)).await.is_ok()
        });
    }
    let done = calls.join_all().await.into_iter().filter(|done| *done).count();
    let rows = env.database.read("SELECT key_hash FROM receipts").await;
    assert_eq!((done, rows.len()), (1, 1));
}

async fn a_cancelled_dispatch_leaves_a_receipt(database: TestDatabase) {
    let shop = crate::effects::Shop::default();
    let env = TestEnv::with(database, crate::effects::with_shop(&shop)).await;
    env.register(crate::effects::shopping()).await;
    env.start("shopping").await;
    let rows = env.database.read("SELECT dispatch_id FROM dispatches WHERE status = 'queued'").await;
    let dispatch = rows[0][0].1.clone().unwrap();
    let once = once("d", |row: &RunDispatch| format!("{} {}", row.dispatch_id, row.status.as_str()));
    env.engine.dispatches().cancel(&tenant(), &dispatch, alice(), Some(&once)).await.unwrap().unwrap();
    let receipt = env.engine.receipts().get(&request("d")).await.unwrap().unwrap();
    assert_eq!(receipt.response, format!("{dispatch} cancelled"));
}

async fn a_fork_leaves_a_receipt(env: TestEnv) {
    env.register(gated("flow")).await;
    let of = env.start("flow").await;
    let request = ForkRequest {
        by: "forker".to_owned(),
        credential: None,
        mode: ForkMode::Replay,
        from_seq: 0,
        overlay: Overlay::default(),
        once: Some(once("f", run_response)),
    };
    let copy = env.engine.runs().fork(&of, request.clone()).await.unwrap();
    let repeated = response(env.engine.runs().fork(&of, request).await.unwrap_err());
    assert_eq!((repeated, runs(&env).await), (format!("{}: waiting-approval", copy.id), 2));
}
