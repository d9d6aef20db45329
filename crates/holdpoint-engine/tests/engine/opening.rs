//! Opening a store: invalid stores are refused and left unchanged, and stores of older versions are migrated.

use holdpoint_engine::core::RunRef;
use holdpoint_engine::core::mailbox::RunDispatchStatus;
use holdpoint_engine::{Engine, Error, Location, StoreError};
use serde_json::json;

use crate::effects::{Shop, shopping, with_shop};
use crate::test_database::{Subject, TestDatabase, Texts, on_both};
use crate::test_env::{NOON, TestEnv, gated, line, sealed_at, tenant};

on_both! {
    a_newer_schema_is_refused,
    a_closed_engine_returns_an_error,
    opening_again_changes_nothing,
}

async fn open_error(location: Location) -> StoreError {
    match Engine::open(sealed_at(location)).await {
        Err(Error::Store(error)) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("the store was opened"),
    }
}

#[tokio::test]
async fn a_file_is_open_in_one_process_at_a_time() {
    let env = TestEnv::at(TestDatabase::sqlite()).await;
    env.register(gated("flow")).await;
    let error = open_error(env.database.location()).await;
    assert!(matches!(error, StoreError::InUse { .. }), "{error}");
    assert!(error.to_string().contains("another process"), "{error}");
    env.start("flow").await;
}

#[tokio::test]
async fn a_file_that_another_program_is_writing_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("holdpoint.db");
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE theirs (x); BEGIN IMMEDIATE; INSERT INTO theirs VALUES (1)").unwrap();
    let error = open_error(Location::Sqlite(path)).await;
    assert!(matches!(error, StoreError::InUse { .. }), "{error}");
    other.execute_batch("COMMIT").unwrap();
}

async fn a_newer_schema_is_refused(env: TestEnv) {
    env.engine.close().await;
    env.database.execute("INSERT INTO schema_versions VALUES (999)").await.unwrap();
    let error = open_error(env.database.location()).await;
    assert!(matches!(error, StoreError::NewerSchema { found: 999, .. }), "{error}");
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_as_it_was() {
    let env = TestEnv::at(TestDatabase::sqlite()).await;
    env.engine.close().await;
    env.database.execute("INSERT INTO schema_versions VALUES (999)").await.unwrap();
    let before = std::fs::read(path(&env)).unwrap();
    open_error(env.database.location()).await;
    assert_eq!(std::fs::read(path(&env)).unwrap(), before);
}

#[tokio::test]
async fn a_file_that_is_not_a_database_is_refused_and_left_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("holdpoint.db");
    let text = "my shopping list\n".repeat(100);
    std::fs::write(&path, &text).unwrap();
    let error = open_error(Location::Sqlite(path.clone())).await;
    assert!(error.to_string().contains("not a database"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[tokio::test]
async fn a_sqlite_file_has_a_write_ahead_log() {
    let env = TestEnv::at(TestDatabase::sqlite()).await;
    let db = rusqlite::Connection::open(path(&env)).unwrap();
    let mode: String = db.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
    assert!(rusqlite::version_number() >= 3_051_003);
}

async fn a_closed_engine_returns_an_error(env: TestEnv) {
    env.register(gated("flow")).await;
    env.engine.close().await;
    let id = holdpoint_engine::core::WorkflowId::parse("flow").unwrap();
    let error = env.engine.runs().create(&id, crate::test_env::start(json!({}))).await.unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::Closed)), "{error}");
}

fn path(env: &TestEnv) -> std::path::PathBuf {
    match env.database.location() {
        Location::Sqlite(path) => path,
        Location::Postgres(_) => panic!("the store is not a file"),
    }
}

async fn opening_again_changes_nothing(database: TestDatabase) {
    let env = TestEnv::with(database, with_shop(&Shop::default())).await;
    env.register(shopping()).await;
    env.start("shopping").await;
    let before = tables(&env.database).await;
    let version = |number: usize| vec![("version".to_owned(), Some(number.to_string()))];
    let versions: Vec<_> = (1..=before[0].len()).map(version).collect();
    assert_eq!(before[0], versions, "each migration ran once, in order");
    let env = env.reopen(with_shop(&Shop::default())).await;
    let env = env.reopen(with_shop(&Shop::default())).await;
    assert_eq!(tables(&env.database).await, before);
}

async fn tables(database: &TestDatabase) -> Vec<Vec<Texts>> {
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
        tables.push(database.read(&format!("SELECT * FROM {table} ORDER BY {order}")).await);
    }
    tables
}

/// The tables and columns of the first version. Its dispatches had another form.
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

/// Dispatches of the first version: id and status, then attempts, token, worker, lease and error.
const FIRST_DISPATCHES: [(&str, &str); 4] = [
    ("queued", "0, NULL, NULL, NULL, NULL"),
    ("claimed", "1, 'token', 'worker', 1800000030000, 'once'"),
    ("acked", "0, NULL, NULL, NULL, NULL"),
    ("dead_letter", "5, NULL, NULL, NULL, 'too often'"),
];

/// A file of the first version with the runs of `current`. The first four runs have a dispatch each.
async fn first_version_of(current: &TestEnv, runs: &[RunRef]) -> TestDatabase {
    let database = TestDatabase::sqlite();
    let schema = include_str!("../../src/store/migrations/0001_foundation.sql");
    database.execute(&schema.replace("{clustered}", "WITHOUT ROWID")).await.unwrap();
    let version = "CREATE TABLE schema_versions (version BIGINT NOT NULL PRIMARY KEY);
        INSERT INTO schema_versions VALUES (1)";
    database.execute(version).await.unwrap();
    let Location::Sqlite(path) = database.location() else { unreachable!("the database is SQLite") };
    let db = rusqlite::Connection::open(path).unwrap();
    for (table, columns) in FIRST_TABLES {
        let rows = current.database.read(&format!("SELECT {columns} FROM {table}")).await;
        assert!(!rows.is_empty(), "{table} has no rows");
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
        database.execute(&row).await.unwrap();
    }
    database
}

#[tokio::test]
async fn the_runs_of_a_file_of_the_first_version_continue() {
    let current = TestEnv::with(TestDatabase::sqlite(), with_shop(&Shop::default())).await;
    let mut runs = Vec::new();
    for definition in [
        shopping(),
        shopping(),
        gated("gated"),
        line("failing", &[("f", "core.fail", json!({}))]),
        line("sleeping", &[("nap", "core.delay", json!({"ms": 60_000}))]),
    ] {
        current.register(definition.clone()).await;
        runs.push(current.start(definition["id"].as_str().unwrap()).await);
    }
    let shop = Shop::default();
    let env = TestEnv::with(first_version_of(&current, &runs).await, with_shop(&shop)).await;
    for of in &runs {
        assert_eq!(
            (env.log(of).await, env.status(of).await),
            (current.log(of).await, current.status(of).await)
        );
    }
    assert_eq!(env.pending().await, ["gate"]);
    assert_eq!(
        tables(&env.database).await[0],
        tables(&current.database).await[0],
        "the file has the current version"
    );
    assert_dispatches_migrated(&env, &runs).await;

    assert_eq!(env.drain().await, 2, "the queued and the claimed dispatch");
    assert_eq!(shop.quotes.load(std::sync::atomic::Ordering::SeqCst), 2);
    let mail = env.engine.mailbox(&tenant());
    for (of, id) in [(&runs[0], "queued"), (&runs[1], "claimed")] {
        let row = mail.load_dispatch(id).await.unwrap().unwrap();
        assert_eq!((env.status(of).await, row.status), ("waiting-input", RunDispatchStatus::Acked));
    }
    env.clock.advance(60_000);
    assert_eq!(env.drain().await, 1, "the timer");
    assert_eq!(env.status(&runs[4]).await, "completed");
}

/// Checks that the claim is released, because its process has ended, and that all other dispatches are unchanged.
async fn assert_dispatches_migrated(env: &TestEnv, runs: &[RunRef]) {
    let gone = Some("the process that held it has ended");
    let expected = [
        (RunDispatchStatus::Queued, 0, None),
        (RunDispatchStatus::Queued, 2, gone),
        (RunDispatchStatus::Acked, 0, None),
        (RunDispatchStatus::DeadLetter, 5, Some("too often")),
    ];
    for ((of, (id, _)), expected) in std::iter::zip(std::iter::zip(runs, FIRST_DISPATCHES), expected) {
        let row = env.engine.mailbox(&tenant()).load_dispatch(id).await.unwrap().unwrap();
        assert_eq!((row.status, row.attempt_count, row.last_error.as_deref()), expected, "{id}");
        assert_eq!((row.thread_id.as_str(), row.run_id.as_str()), (of.run.as_str(), of.run.as_str()));
        assert_eq!((row.priority, row.max_attempts, row.dispatch_epoch), (128, 5, 0));
        assert_eq!(row.completed_at.is_some(), row.status.is_terminal());
    }
}
