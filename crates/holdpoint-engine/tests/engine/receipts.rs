//! Requests with a key: carried out once, and answered the same for as long as the receipt is kept.

use std::sync::Arc;

use holdpoint_engine::core::mailbox::RunDispatch;
use holdpoint_engine::core::{ForkMode, Refusal, Run, RunRef, WorkflowId};
use holdpoint_engine::{
    Engine, Error, Fault, ForkRequest, Once, Overlay, Registration, RequestKey, RunFilter, StartOptions,
};
use serde_json::json;

use crate::house::{House, accept, alice, gated, resolve, start, stopping, tenant};
use crate::place::{Place, on_both};

on_both! {
    the_same_key_starts_one_run,
    the_receipt_of_a_run_is_not_written_with_the_registration_of_its_workflow,
    of_many_with_one_key_at_once_on_two_nodes_one_is_done,
    a_refusal_leaves_no_receipt_and_can_be_kept,
    what_was_done_before_leaves_a_receipt_too,
    a_receipt_that_is_out_of_date_is_replaced_and_purged,
    a_crash_leaves_a_receipt_exactly_with_its_run,
    a_commit_whose_answer_was_lost_is_no_duplicate_of_itself,
    a_change_that_meets_a_conflict_takes_its_receipt_along,
    a_dispatch_leaves_a_receipt_too,
    a_fork_leaves_a_receipt_too,
}

const DAY_MS: u64 = 86_400_000;

/// A request under a key, whose response has these words.
pub(crate) fn once<T: 'static>(key: &str, words: fn(&T) -> String) -> Once<T> {
    Once { request: request(key), respond: Arc::new(move |made| (201, words(made))) }
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

pub(crate) fn run_words(run: &Run) -> String {
    format!("{}: {}", run.id, run.status().as_str())
}

fn workflow_words(Registration { workflow, stored }: &Registration) -> String {
    format!("{} {} {stored}", workflow.id, workflow.revision)
}

async fn begin(engine: &Engine, key: &str) -> Result<Arc<Run>, Error> {
    let options = StartOptions { once: Some(once(key, run_words)), ..StartOptions::default() };
    engine.start_with(&WorkflowId::parse("flow").unwrap(), start(json!({})), options).await
}

fn response(error: Error) -> String {
    match error {
        Error::Duplicate(receipt) => receipt.response.clone(),
        other => panic!("{other}"),
    }
}

async fn runs(house: &House) -> usize {
    let filter = RunFilter { limit: 1000, ..RunFilter::default() };
    house.engine.runs(&tenant(), filter).await.unwrap().len()
}

async fn the_same_key_starts_one_run(house: House) {
    house.register(gated("flow")).await;
    let run = begin(&house.engine, "k").await.unwrap();
    let expected = format!("{}: waiting-approval", run.id);
    assert_eq!(response(begin(&house.engine, "k").await.unwrap_err()), expected);
    let receipt = house.engine.receipt(&request("k")).await.unwrap().unwrap();
    assert_eq!((receipt.status, receipt.response.as_str()), (201, expected.as_str()));
    assert_eq!(receipt.body_hash, "body");
    let other = RequestKey { operation: "runs.cancel".to_owned(), ..request("k") };
    assert_eq!(house.engine.receipt(&other).await.unwrap(), None);
    begin(&house.engine, "other").await.unwrap();
    assert_eq!(runs(&house).await, 2);
}

/// A workflow that comes with the engine is registered by the first start.
async fn the_receipt_of_a_run_is_not_written_with_the_registration_of_its_workflow(house: House) {
    let options = StartOptions { once: Some(once("k", run_words)), ..StartOptions::default() };
    let workflow = WorkflowId::parse("content-review").unwrap();
    let run = house.engine.start_with(&workflow, start(json!({})), options).await.unwrap();
    let receipt = house.engine.receipt(&request("k")).await.unwrap().unwrap();
    assert_eq!((receipt.response, runs(&house).await), (run_words(&run), 1));
}

async fn of_many_with_one_key_at_once_on_two_nodes_one_is_done(house: House) {
    house.register(gated("flow")).await;
    let other = house.second_engine(|options| options).await;
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..20 {
        let engine = if n % 2 == 0 { house.engine.clone() } else { other.clone() };
        calls.spawn(async move { begin(&engine, "k").await.map(|run| run.id.clone()) });
    }
    let (mut done, mut told) = (Vec::new(), Vec::new());
    while let Some(ended) = calls.join_next().await {
        match ended.unwrap() {
            Ok(run) => done.push(run),
            Err(error) => told.push(response(error)),
        }
    }
    assert_eq!((done.len(), told.len(), runs(&house).await), (1, 19, 1));
    assert!(told.iter().all(|text| *text == format!("{}: waiting-approval", done[0])));
    other.close().await;
}

async fn a_refusal_leaves_no_receipt_and_can_be_kept(house: House) {
    house.register(gated("flow")).await;
    let of = house.start("flow").await;
    let id = house.run(&of).await.waiting_on().unwrap().id;
    let (engine, once) = (&house.engine, once("k", run_words));
    let wrong = engine.execute_once(&of, &[resolve(id, json!({"action": "dance"}))], Some(&once)).await;
    assert!(matches!(wrong, Err(Error::Refused(Refusal::InvalidRequest { .. }))));
    assert_eq!(engine.receipt(&once.request).await.unwrap(), None);
    let keep = async |status, body: &str| engine.keep_receipt(&once.request, status, body.to_owned()).await;
    keep(409, "no").await.unwrap();
    let told = engine.execute_once(&of, &[resolve(id, accept())], Some(&once)).await.unwrap_err();
    assert_eq!(response(told), "no");
    assert_eq!(house.status(&of).await, "waiting-approval", "nothing was done");
    assert_eq!(response(keep(410, "again").await.unwrap_err()), "no");
}

async fn what_was_done_before_leaves_a_receipt_too(house: House) {
    for (key, stored) in [("r1", true), ("r2", false)] {
        let once = Some(once(key, workflow_words));
        let registered = house.engine.register_once(&tenant(), gated("flow"), once).await.unwrap();
        assert_eq!(registered.stored, stored);
    }
    let receipt = async |key: &str| {
        let found = house.engine.receipt(&request(key)).await.unwrap();
        found.map(|receipt| receipt.response)
    };
    assert_eq!(receipt("r1").await.as_deref(), Some("flow 1 true"));
    assert_eq!(receipt("r2").await.as_deref(), Some("flow 1 false"));
    let of = house.start("flow").await;
    house.engine.cancel(&of, None, alice()).await.unwrap();
    house.engine.cancel_once(&of, None, alice(), Some(&once("c", run_words))).await.unwrap();
    assert_eq!(receipt("c").await, Some(format!("{}: cancelled", of.run)));
    let once = once("x", |()| "revoked".to_owned());
    assert!(!house.engine.revoke_key(&tenant(), "nobody", Some(&once)).await.unwrap());
    assert_eq!(receipt("x").await, None, "nothing was revoked");
}

async fn a_receipt_that_is_out_of_date_is_replaced_and_purged(house: House) {
    house.register(gated("flow")).await;
    let first = begin(&house.engine, "k").await.unwrap();
    begin(&house.engine, "old").await.unwrap();
    house.clock.advance(i64::try_from(DAY_MS).unwrap());
    assert_eq!(house.engine.receipt(&request("k")).await.unwrap(), None);
    let second = begin(&house.engine, "k").await.unwrap();
    assert_ne!(first.id, second.id);
    house.engine.worker().tidy().await;
    let rows = house.place.read("SELECT key_hash FROM receipts").await;
    assert_eq!(rows, [[("key_hash".to_owned(), Some("k".to_owned()))]]);
}

async fn a_crash_leaves_a_receipt_exactly_with_its_run(place: Place) {
    for (stop, expected) in [(Fault::StopBefore(2), 0), (Fault::StopAfter(2), 1)] {
        let house = House::with(place.another().await, stopping(stop)).await;
        house.register(gated("flow")).await;
        assert!(begin(&house.engine, "k").await.is_err());
        let house = house.reopen(|options| options).await;
        let receipt = house.engine.receipt(&request("k")).await.unwrap();
        assert_eq!((runs(&house).await, usize::from(receipt.is_some())), (expected, expected), "{stop:?}");
        assert_eq!(begin(&house.engine, "k").await.is_ok(), expected == 0);
        assert_eq!(runs(&house).await, 1);
    }
}

async fn a_commit_whose_answer_was_lost_is_no_duplicate_of_itself(place: Place) {
    for fault in [Fault::LoseBefore(2), Fault::LoseAfter(2)] {
        let house = House::with(place.another().await, stopping(fault)).await;
        house.register(gated("flow")).await;
        let run = begin(&house.engine, "k").await.unwrap();
        assert_eq!(runs(&house).await, 1, "{fault:?}");
        let told = response(begin(&house.engine, "k").await.unwrap_err());
        assert_eq!(told, format!("{}: waiting-approval", run.id), "{fault:?}");
    }
}

/// Many answers under keys of their own: one counts, and only its key has a receipt.
async fn a_change_that_meets_a_conflict_takes_its_receipt_along(house: House) {
    house.register(gated("flow")).await;
    let of: RunRef = house.start("flow").await;
    let id = house.run(&of).await.waiting_on().unwrap().id;
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..20 {
        let (engine, of, once) = (house.engine.clone(), of.clone(), once(&format!("k{n}"), run_words));
        calls.spawn(
            async move { engine.execute_once(&of, &[resolve(id, accept())], Some(&once)).await.is_ok() },
        );
    }
    let done = calls.join_all().await.into_iter().filter(|done| *done).count();
    let rows = house.place.read("SELECT key_hash FROM receipts").await;
    assert_eq!((done, rows.len()), (1, 1));
}

async fn a_dispatch_leaves_a_receipt_too(place: Place) {
    let shop = crate::effects::Shop::default();
    let house = House::with(place, crate::effects::with_shop(&shop)).await;
    house.register(crate::effects::shopping()).await;
    house.start("shopping").await;
    let rows = house.place.read("SELECT dispatch_id FROM dispatches WHERE status = 'queued'").await;
    let dispatch = rows[0][0].1.clone().unwrap();
    let once = once("d", |row: &RunDispatch| format!("{} {}", row.dispatch_id, row.status.as_str()));
    house.engine.cancel_dispatch(&tenant(), &dispatch, alice(), Some(&once)).await.unwrap().unwrap();
    let receipt = house.engine.receipt(&request("d")).await.unwrap().unwrap();
    assert_eq!(receipt.response, format!("{dispatch} cancelled"));
}

async fn a_fork_leaves_a_receipt_too(house: House) {
    house.register(gated("flow")).await;
    let of = house.start("flow").await;
    let request = ForkRequest {
        by: "forker".to_owned(),
        credential: None,
        mode: ForkMode::Replay,
        from_seq: 0,
        overlay: Overlay::default(),
        once: Some(once("f", run_words)),
    };
    let copy = house.engine.fork(&of, request.clone()).await.unwrap();
    let told = response(house.engine.fork(&of, request).await.unwrap_err());
    assert_eq!((told, runs(&house).await), (format!("{}: waiting-approval", copy.id), 2));
}
