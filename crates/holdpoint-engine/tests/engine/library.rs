//! The library API for embedders: handles, the background worker, and the close of an engine.

use std::time::Duration;

use holdpoint_engine::core::workflow::{Approval, Form};
use holdpoint_engine::core::{Refusal, RunId, RunRef};
use holdpoint_engine::{Engine, Error, Options, StoreError, Workflow};
use serde::Serialize;
use serde_json::json;

use crate::slow_node::Control;
use crate::test_env::tenant;

async fn open(folder: &std::path::Path) -> Engine {
    let engine = Engine::open(folder.join("holdpoint.db")).await.unwrap();
    let approval = Workflow::builder("approve").node("review", Approval::new("Good?")).build().unwrap();
    engine.workflows().put(approval).await.unwrap();
    let form =
        Workflow::builder("form").node("ask", Form::new().number("count", "How many?")).build().unwrap();
    engine.workflows().put(form).await.unwrap();
    engine
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_started_answered_and_awaited() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path()).await;
    let run = engine.runs().start("form").input("note", "n").by("ann").await.unwrap();
    let interrupt = run.wait_for_interrupt().await.unwrap();
    interrupt.answers(json!({"count": 3})).by("bob").await.unwrap();
    let done = run.wait().await.unwrap();
    assert!(done.is_completed() && done.error().is_none());
    assert_eq!(done.variable::<serde_json::Value>("answers").unwrap(), json!({"count": 3}));
    assert_eq!(done.variable::<String>("note").unwrap(), "n");
    assert!(matches!(done.variable::<u64>("note"), Err(Error::Refused(_))), "another type");
    assert!(matches!(done.variable::<u64>("missing"), Err(Error::NotFound(_))));
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_without_a_principal_and_bad_values_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path()).await;
    let run = engine.runs().start("approve").await.unwrap();
    let interrupt = run.wait_for_interrupt().await.unwrap();
    assert!(matches!(interrupt.accept().await, Err(Error::Refused(Refusal::InvalidRequest { .. }))));
    assert!(matches!(interrupt.answer(Unwritable).by("ann").await, Err(Error::Refused(_))));
    interrupt.reject("too expensive").by("ann").await.unwrap();
    let done = run.wait().await.unwrap();
    assert_eq!(done.error().unwrap().code, "approval_rejected");
    let late = run.wait_for_interrupt().await;
    assert!(matches!(late, Err(Error::Refused(Refusal::RunFinished(_)))));
    for bad in [engine.runs().start("approve").inputs(7).await, engine.runs().start("").await] {
        assert!(matches!(bad, Err(Error::Refused(_))), "{bad:?}");
    }
    assert!(matches!(engine.runs().start("unknown").await, Err(Error::NotFound(_))));
    engine.close().await;
}

/// A value that cannot be written as JSON.
struct Unwritable;

impl Serialize for Unwritable {
    fn serialize<S: serde::Serializer>(&self, _serializer: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("unwritable"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_found_again_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path()).await;
    let id = RunId::parse("order-1").unwrap();
    engine.runs().start("approve").id(id.clone()).await.unwrap();
    let repeated = engine.runs().start("approve").id(id.clone()).await;
    assert!(matches!(repeated, Err(Error::Refused(Refusal::AlreadyStarted))));
    engine.close().await;
    let engine = Engine::open(folder.path().join("holdpoint.db")).await.unwrap();
    let run = engine.runs().handle(RunRef { tenant: tenant(), run: id });
    run.wait_for_interrupt().await.unwrap().accept().by("ann").await.unwrap();
    assert!(run.wait().await.unwrap().is_completed());
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_when_the_engine_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path()).await;
    let run = engine.runs().start("approve").await.unwrap();
    let waiting = tokio::spawn(async move { run.wait().await });
    tokio::task::yield_now().await;
    engine.close().await;
    let ended = tokio::time::timeout(Duration::from_secs(30), waiting).await.unwrap().unwrap();
    assert!(matches!(ended, Err(Error::Store(StoreError::Closed))), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_close_waits_for_the_nodes_in_execution() {
    let folder = tempfile::tempdir().unwrap();
    let mut control = Control::new();
    let options = control.configure(Options::from(folder.path().join("holdpoint.db")));
    let engine = Engine::open(options).await.unwrap();
    engine.workflows().put(crate::slow_node::slow()).await.unwrap();
    let run = engine.runs().start("slow").await.unwrap();
    control.wait_for_start().await;
    let closes = [0, 1].map(|_| {
        let engine = engine.clone();
        tokio::spawn(async move { engine.close().await })
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(closes.iter().all(|close| !close.is_finished()), "the node is still executing");
    control.end_one();
    for close in closes {
        close.await.unwrap();
    }
    let engine =
        Engine::open(Options::from(folder.path().join("holdpoint.db")).manual_worker()).await.unwrap();
    let done = engine.runs().get(run.of()).await.unwrap();
    assert_eq!(done.status().as_str(), "completed", "the result of the node was recorded");
}

#[tokio::test]
async fn an_invalid_url_is_refused_without_its_password() {
    for url in ["mysql://u:secret@h/db", "postgress://u:secret@h/db", "host=h password=secret", "sqlite:"] {
        let error = Engine::open(url).await.unwrap_err().to_string();
        assert!(error.contains("sqlite:") && !error.contains("secret"), "{error}");
    }
}
