//! Opening a store: what is refused, and that nothing is harmed by it.

use holdpoint_engine::{Engine, Error, Location, Options, StoreError};

use crate::house::{House, gated};
use crate::place::{Place, Subject, on_both};

on_both! {
    a_newer_schema_is_refused,
    a_closed_engine_says_so,
}

async fn refused(location: Location) -> StoreError {
    match Engine::open(Options::new(location)).await {
        Err(Error::Store(error)) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it opened"),
    }
}

#[tokio::test]
async fn a_file_is_open_in_one_place_at_a_time() {
    let house = House::at(Place::sqlite()).await;
    house.register(gated("flow")).await;
    let error = refused(house.place.location()).await;
    assert!(matches!(error, StoreError::InUse { .. }), "{error}");
    assert!(error.to_string().contains("another process"), "{error}");
    house.start("flow").await;
}

#[tokio::test]
async fn a_file_that_another_program_is_writing_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("holdpoint.db");
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE theirs (x); BEGIN IMMEDIATE; INSERT INTO theirs VALUES (1)").unwrap();
    let error = refused(Location::Sqlite(path)).await;
    assert!(matches!(error, StoreError::InUse { .. }), "{error}");
    other.execute_batch("COMMIT").unwrap();
}

async fn a_newer_schema_is_refused(house: House) {
    house.engine.close().await;
    house.place.execute("INSERT INTO schema_versions VALUES (999)").await.unwrap();
    let error = refused(house.place.location()).await;
    assert!(matches!(error, StoreError::NewerSchema { found: 999, .. }), "{error}");
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_as_it_was() {
    let house = House::at(Place::sqlite()).await;
    house.engine.close().await;
    house.place.execute("INSERT INTO schema_versions VALUES (999)").await.unwrap();
    let before = std::fs::read(path(&house)).unwrap();
    refused(house.place.location()).await;
    assert_eq!(std::fs::read(path(&house)).unwrap(), before);
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_and_left_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("holdpoint.db");
    let text = "my shopping list\n".repeat(100);
    std::fs::write(&path, &text).unwrap();
    let error = refused(Location::Sqlite(path.clone())).await;
    assert!(error.to_string().contains("not a database"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[tokio::test]
async fn the_log_is_written_ahead() {
    let house = House::at(Place::sqlite()).await;
    let db = rusqlite::Connection::open(path(&house)).unwrap();
    let mode: String = db.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
    assert!(rusqlite::version_number() >= 3_051_003);
}

async fn a_closed_engine_says_so(house: House) {
    house.register(gated("flow")).await;
    house.engine.close().await;
    let id = holdpoint_engine::core::WorkflowId::parse("flow").unwrap();
    let error = house.engine.start(&id, crate::house::start(serde_json::json!({}))).await.unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::Closed)), "{error}");
}

fn path(house: &House) -> std::path::PathBuf {
    match house.place.location() {
        Location::Sqlite(path) => path,
        Location::Postgres(_) => panic!("this house has no file"),
    }
}
