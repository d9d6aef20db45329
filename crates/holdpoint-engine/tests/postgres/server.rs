//! Short words for opening an engine on PostgreSQL and for what is done with it.

use holdpoint_engine::core::{NodeId, RunRef, WorkflowId};
use holdpoint_engine::{Engine, Error, Location, Options, StoreError};
use serde_json::json;

use crate::house::{accept, gated, resolve, start, tenant};
use crate::place::Place;

pub(crate) async fn open(url: &str) -> Engine {
    let opened = Engine::open(Options::new(Location::Postgres(url.to_owned()))).await;
    opened.unwrap_or_else(|error| panic!("{url}: {error}"))
}

/// Why a database cannot be used.
pub(crate) async fn refused(url: &str) -> StoreError {
    match Engine::open(Options::new(Location::Postgres(url.to_owned()))).await {
        Err(Error::Store(error)) => error,
        Err(other) => panic!("{url}: {other}"),
        Ok(_) => panic!("{url}: it opened"),
    }
}

/// Somebody has to change something, and the message says what.
pub(crate) async fn needs_change(url: &str, words: &str) -> String {
    let error = refused(url).await;
    let StoreError::Connect { message, .. } = &error else { panic!("{url}: {error:?}") };
    assert!(message.contains(words), "{url}: {message}");
    format!("{error} {error:?}")
}

/// Trying again later can help, and the message says why it did not work now.
pub(crate) async fn unavailable(url: &str, words: &str) -> String {
    let error = refused(url).await;
    let StoreError::Unavailable(message) = &error else { panic!("{url}: {error:?}") };
    assert!(message.contains(words), "{url}: {message}");
    format!("{error} {error:?}")
}

/// The address of a place with more parameters.
pub(crate) fn address(place: &Place, parameters: &str) -> String {
    let Location::Postgres(url) = place.location() else { panic!("this place is a file") };
    format!("{url}&{parameters}")
}

/// A run that waits for somebody at its gate.
pub(crate) async fn begin(engine: &Engine) -> RunRef {
    let run = engine.start(&WorkflowId::parse("flow").unwrap(), start(json!({}))).await.unwrap();
    RunRef { tenant: tenant(), run: run.id.clone() }
}

pub(crate) async fn say_yes(engine: &Engine, of: &RunRef) -> Result<(), Error> {
    let asked = engine.run(of).await?.interrupt_of_node(&NodeId::parse("gate").unwrap()).expect("asked").id;
    engine.execute(of, &resolve(asked, accept())).await.map(|_| ())
}

pub(crate) async fn status(engine: &Engine, of: &RunRef) -> &'static str {
    engine.run(of).await.unwrap().status().as_str()
}

/// A run from its beginning to its end.
pub(crate) async fn whole_run(engine: &Engine) {
    engine.register(&tenant(), gated("flow")).await.unwrap();
    let of = begin(engine).await;
    say_yes(engine, &of).await.unwrap();
    assert_eq!(status(engine, &of).await, "completed");
}
