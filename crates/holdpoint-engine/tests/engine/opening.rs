//! Opening a store: what is refused, and that nothing is harmed by it.

use holdpoint_engine::core::RunRef;
use holdpoint_engine::core::mailbox::RunDispatchStatus;
use holdpoint_engine::{Engine, Error, Location, StoreError};
use serde_json::json;

use crate::effects::{Shop, shopping, with_shop};
use crate::house::{House, NOON, gated, line, sealed_at, tenant};
use crate::place::{Place, Subject, Texts, on_both};

on_both! {
    a_newer_schema_is_refused,
    a_closed_engine_says_so,
    opening_again_changes_nothing,
}

async fn refused(location: Location) -> StoreError {
    match Engine::open(sealed_at(location)).await {
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
    let error = house.engine.start(&id, crate::house::start(json!({}))).await.unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::Closed)), "{error}");
}

fn path(house: &House) -> std::path::PathBuf {
    match house.place.location() {
        Location::Sqlite(path) => path,
        Location::Postgres(_) => panic!("this house has no file"),
    }
}

async fn opening_again_changes_nothing(place: Place) {
    let house = House::with(place, with_shop(&Shop::default())).await;
    house.register(shopping()).await;
    house.start("shopping").await;
    let before = tables(&house.place).await;
    let version = |number: usize| vec![("version".to_owned(), Some(number.to_string()))];
    let versions: Vec<_> = (1..=before[0].len()).map(version).collect();
    assert_eq!(before[0], versions, "each migration ran once, in order");
    let house = house.reopen(with_shop(&Shop::default())).await;
    let house = house.reopen(with_shop(&Shop::default())).await;
    assert_eq!(tables(&house.place).await, before);
}

async fn tables(place: &Place) -> Vec<Vec<Texts>> {
    let mut tables = Vec::new();
    for (table, order) in [
        ("schema_versions", "version"),
        ("tenants", "tenant_id"),
        ("workflows", "workflow_id"),
        ("runs", "run_id"),
        ("events", "run_id, seq"),
        ("threads", "thread_id"),
        ("dispatches", "seq"),
    ] {
        tables.push(place.read(&format!("SELECT * FROM {table} ORDER BY {order}")).await);
    }
    tables
}

/// What the first version kept, by table. Its dispatches were others.
const FIRST_TABLES: [(&str, &str); 6] = [
    ("tenants", "tenant_id, created_ms"),
    ("workflows", "tenant_id, workflow_id, revision, definition, created_ms"),
    ("runs", "tenant_id, run_id, seq, status, workflow_id, created_ms, updated_ms"),
    ("events", "tenant_id, run_id, seq, at_ms, events"),
    ("timers", "due_ms, tenant_id, run_id, timer"),
    (
        "pending",
        "tenant_id, requested_ms, run_id, interrupt_id, workflow_id, node_id, kind, key, title, expires_ms",
    ),
];

/// Dispatches of the first version: id and status, then attempts, token, holder, lease and error.
const FIRST_DISPATCHES: [(&str, &str); 4] = [
    ("queued", "0, NULL, NULL, NULL, NULL"),
    ("claimed", "1, 'token', 'worker', 1800000030000, 'once'"),
    ("acked", "0, NULL, NULL, NULL, NULL"),
    ("dead_letter", "5, NULL, NULL, NULL, 'too often'"),
];

/// A file as the first version left it, with the runs of `today`; the first four of them have a dispatch each.
async fn first_version_of(today: &House, runs: &[RunRef]) -> Place {
    let place = Place::sqlite();
    let schema = include_str!("../../src/store/migrations/0001_foundation.sql");
    place.execute(&schema.replace("{clustered}", "WITHOUT ROWID")).await.unwrap();
    let version = "CREATE TABLE schema_versions (version BIGINT NOT NULL PRIMARY KEY);
        INSERT INTO schema_versions VALUES (1)";
    place.execute(version).await.unwrap();
    let Location::Sqlite(path) = place.location() else { unreachable!("it is a file") };
    let db = rusqlite::Connection::open(path).unwrap();
    for (table, columns) in FIRST_TABLES {
        let rows = today.place.read(&format!("SELECT {columns} FROM {table}")).await;
        assert!(!rows.is_empty(), "there is something in {table}");
        for row in rows {
            let places = vec!["?"; row.len()].join(", ");
            let insert = format!("INSERT INTO {table} ({columns}) VALUES ({places})");
            let values = row.into_iter().map(|(_, value)| value);
            db.execute(&insert, rusqlite::params_from_iter(values)).unwrap();
        }
    }
    for (of, (status, rest)) in std::iter::zip(runs, FIRST_DISPATCHES) {
        let row = format!(
            "INSERT INTO dispatches (tenant_id, dispatch_id, status, run_id, available_ms, created_ms, updated_ms, \
             attempt_count, claim_token, claimed_by, lease_until_ms, last_error) \
             VALUES ('default', '{status}', '{status}', '{}', {NOON}, {NOON}, {NOON}, {rest})",
            of.run
        );
        place.execute(&row).await.unwrap();
    }
    place
}

#[tokio::test]
async fn a_file_of_the_first_version_goes_on_where_it_was() {
    let today = House::with(Place::sqlite(), with_shop(&Shop::default())).await;
    let mut runs = Vec::new();
    for definition in [
        shopping(),
        shopping(),
        gated("gated"),
        line("failing", &[("f", "core.fail", json!({}))]),
        line("sleeping", &[("nap", "core.delay", json!({"ms": 60_000}))]),
    ] {
        today.register(definition.clone()).await;
        runs.push(today.start(definition["id"].as_str().unwrap()).await);
    }
    let shop = Shop::default();
    let house = House::with(first_version_of(&today, &runs).await, with_shop(&shop)).await;
    for of in &runs {
        assert_eq!(
            (house.log(of).await, house.status(of).await),
            (today.log(of).await, today.status(of).await)
        );
    }
    assert_eq!(house.pending().await, ["gate"]);
    assert_eq!(tables(&house.place).await[0], tables(&today.place).await[0], "it is of today's version");
    all_dispatches_are_there(&house, &runs).await;

    assert_eq!(house.drain().await, 2, "what was queued and what was claimed");
    assert_eq!(shop.quotes.load(std::sync::atomic::Ordering::SeqCst), 2);
    let mail = house.engine.mailbox(&tenant());
    for (of, id) in [(&runs[0], "queued"), (&runs[1], "claimed")] {
        let row = mail.load_dispatch(id).await.unwrap().unwrap();
        assert_eq!((house.status(of).await, row.status), ("waiting-input", RunDispatchStatus::Acked));
    }
    house.clock.advance(60_000);
    assert_eq!(house.drain().await, 1, "the timer");
    assert_eq!(house.status(&runs[4]).await, "completed");
}

/// The claim is taken back, because whoever held it is gone; all else is as it was.
async fn all_dispatches_are_there(house: &House, runs: &[RunRef]) {
    let gone = Some("the process that held it has ended");
    let expected = [
        (RunDispatchStatus::Queued, 0, None),
        (RunDispatchStatus::Queued, 2, gone),
        (RunDispatchStatus::Acked, 0, None),
        (RunDispatchStatus::DeadLetter, 5, Some("too often")),
    ];
    for ((of, (id, _)), expected) in std::iter::zip(std::iter::zip(runs, FIRST_DISPATCHES), expected) {
        let row = house.engine.mailbox(&tenant()).load_dispatch(id).await.unwrap().unwrap();
        assert_eq!((row.status, row.attempt_count, row.last_error.as_deref()), expected, "{id}");
        assert_eq!((row.thread_id.as_str(), row.run_id.as_str()), (of.run.as_str(), of.run.as_str()));
        assert_eq!((row.priority, row.max_attempts, row.dispatch_epoch), (128, 5, 0));
        assert_eq!(row.completed_at.is_some(), row.status.is_terminal());
    }
}
