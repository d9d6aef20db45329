//! Helper functions that open an engine on PostgreSQL and execute runs.

use holdpoint_engine::core::{NodeId, RunRef, WorkflowId};
use holdpoint_engine::{Engine, Error, Location, Options, StoreError};
use serde_json::json;

use crate::test_database::TestDatabase;
use crate::test_env::{accept, gated, resolve, start, tenant};

pub(crate) async fn open(url: &str) -> Engine {
    let opened = Engine::open(Options::new(Location::Postgres(url.to_owned())).manual_worker()).await;
    opened.unwrap_or_else(|error| panic!("{url}: {error}"))
}

/// Opens an engine and returns the expected error.
pub(crate) async fn open_error(url: &str) -> StoreError {
    match Engine::open(Options::new(Location::Postgres(url.to_owned())).manual_worker()).await {
        Err(Error::Store(error)) => error,
        Err(other) => panic!("{url}: {other}"),
        Ok(_) => panic!("{url}: the engine opened"),
    }
}

/// Expects an error that the operator must fix. The message contains the given text.
pub(crate) async fn needs_change(url: &str, words: &str) -> String {
    let error = open_error(url).await;
    let StoreError::Connect { message, .. } = &error else { panic!("{url}: {error:?}") };
    assert!(message.contains(words), "{url}: {message}");
    format!("{error} {error:?}")
}

/// Expects an error that a later attempt can resolve. The message contains the given text.
pub(crate) async fn unavailable(url: &str, words: &str) -> String {
    let error = open_error(url).await;
    let StoreError::Unavailable(message) = &error else { panic!("{url}: {error:?}") };
    assert!(message.contains(words), "{url}: {message}");
    format!("{error} {error:?}")
}

/// Returns the address of a database with additional parameters.
pub(crate) fn address(database: &TestDatabase, parameters: &str) -> String {
    let Location::Postgres(url) = database.location() else { panic!("not a PostgreSQL database") };
    format!("{url}&{parameters}")
}

/// Starts a run that waits at its gate.
pub(crate) async fn begin(engine: &Engine) -> RunRef {
    let run = engine.runs().create(&WorkflowId::parse("flow").unwrap(), start(json!({}))).await.unwrap();
    RunRef { tenant: tenant(), run: run.id.clone() }
}

pub(crate) async fn approve(engine: &Engine, of: &RunRef) -> Result<(), Error> {
    let asked =
        engine.runs().get(of).await?.interrupt_of_node(&NodeId::parse("gate").unwrap()).expect("asked").id;
    engine.runs().execute(of, &resolve(asked, accept())).await.map(|_| ())
}

pub(crate) async fn status(engine: &Engine, of: &RunRef) -> &'static str {
    engine.runs().get(of).await.unwrap().status().as_str()
}

/// Registers the workflow, starts a run and approves it. The run completes.
pub(crate) async fn whole_run(engine: &Engine) {
    engine.workflows().register(&tenant(), gated("flow")).await.unwrap();
    let of = begin(engine).await;
    approve(engine, &of).await.unwrap();
    assert_eq!(status(engine, &of).await, "completed");
}
