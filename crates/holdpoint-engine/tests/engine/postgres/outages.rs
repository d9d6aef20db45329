//! Requests during PostgreSQL outages: slow statements, locked rows, lost connections and a restart of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use holdpoint_engine::core::{RunRef, WorkflowId};
use holdpoint_engine::{Engine, Error, PendingCursor, StoreError};
use serde_json::json;

use crate::postgres::cluster::Cluster;
use crate::postgres::server::{address, approve, begin, open, status, whole_run};
use crate::test_database::{self, TestDatabase};
use crate::test_env::{gated, start, tenant};

#[tokio::test(flavor = "multi_thread")]
async fn a_command_on_a_locked_row_fails_as_busy() {
    let database = TestDatabase::postgres().await;
    let engine = open(&address(&database, "statement_timeout=1000")).await;
    engine.workflows().register(&tenant(), gated("flow")).await.unwrap();
    let of = begin(&engine).await;
    let TestDatabase::Postgres(schema) = &database else { panic!("not a PostgreSQL database") };
    let session = schema.session().await;
    let lock = format!("BEGIN; SELECT 1 FROM runs WHERE run_id = '{}' FOR UPDATE", of.run);
    session.batch_execute(&lock).await.unwrap();

    let error = approve(&engine, &of).await.unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::Busy)), "{error:?}");
    assert!(engine.is_alive());
    // Other runs are not blocked, and the locked run can be read.
    whole_run(&engine).await;
    assert_eq!(status(&engine, &of).await, "waiting-approval");

    session.batch_execute("ROLLBACK").await.unwrap();
    approve(&engine, &of).await.unwrap();
    assert_eq!(status(&engine, &of).await, "completed");
}

/// The advisory lock of migrations. It lets one process migrate at a time.
const MIGRATION_LOCK: i64 = 0x_686f_6c64_706f_696e;

#[tokio::test(flavor = "multi_thread")]
async fn opening_waits_for_a_migration_longer_than_the_statement_timeout() {
    let database = TestDatabase::postgres().await;
    let name = uuid::Uuid::now_v7().simple().to_string();
    let url = address(&database, &format!("statement_timeout=100&application_name={name}"));
    let TestDatabase::Postgres(schema) = &database else { panic!("not a PostgreSQL database") };
    let other = schema.session().await;
    other.batch_execute(&format!("SELECT pg_advisory_lock({MIGRATION_LOCK})")).await.unwrap();
    let opening = tokio::spawn(async move { open(&url).await });
    let waits = format!(
        "SELECT 1 FROM pg_stat_activity WHERE application_name = '{name}' AND wait_event = 'advisory' \
         AND clock_timestamp() - query_start > interval '300 ms'"
    );
    while database.read(&waits).await.is_empty() {
        assert!(!opening.is_finished(), "the engine opened without waiting for the lock");
    }
    other.batch_execute(&format!("SELECT pg_advisory_unlock({MIGRATION_LOCK})")).await.unwrap();
    opening.await.unwrap().close().await;
}

/// A trigger that makes each insert into the event log take half an hour.
const SLOW: &str = "CREATE FUNCTION slow_insert() RETURNS trigger LANGUAGE plpgsql AS \
                    $$ BEGIN PERFORM pg_sleep(1800); RETURN NEW; END $$; \
                    CREATE TRIGGER slow_insert BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION slow_insert()";

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_times_out_writes_nothing() {
    let database = TestDatabase::postgres().await;
    let engine = open(&address(&database, "statement_timeout=1000")).await;
    engine.workflows().register(&tenant(), gated("flow")).await.unwrap();
    let of = begin(&engine).await;
    database.execute(SLOW).await.unwrap();

    let error = approve(&engine, &of).await.unwrap_err();
    let Error::Store(StoreError::Failed(why)) = &error else { panic!("{error:?}") };
    assert!(why.contains("statement timeout") && why.contains("57014"), "{why}");
    assert_eq!(status(&engine, &of).await, "waiting-approval");

    database.execute("DROP TRIGGER slow_insert ON events").await.unwrap();
    approve(&engine, &of).await.unwrap();
    assert_eq!(status(&engine, &of).await, "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_connections_are_reopened_for_the_next_request() {
    let database = TestDatabase::postgres().await;
    let name = uuid::Uuid::now_v7().simple().to_string();
    let engine = open(&address(&database, &format!("application_name={name}"))).await;
    whole_run(&engine).await;
    let of = begin(&engine).await;
    let kill = format!(
        "SELECT pid, pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = '{name}'"
    );
    for _ in 0..5 {
        let killed = database.read(&kill).await;
        assert!(!killed.is_empty(), "the engine has no connection");
        begin(&engine).await;
        engine.interrupts().open(&tenant(), PendingCursor::default(), 10).await.unwrap();
        assert!(!database.read(&kill).await.is_empty(), "the engine has no connection");
        engine.interrupts().open(&tenant(), PendingCursor::default(), 10).await.unwrap();
        begin(&engine).await;
    }
    approve(&engine, &of).await.unwrap();
    assert_eq!(engine.interrupts().open(&tenant(), PendingCursor::default(), 100).await.unwrap().len(), 10);
}

const CALLERS: usize = 16;
const RUNS_EACH: usize = 20;

/// Connections break before, during and after transactions. The engine finds out if the commit succeeded and retries,
/// so callers see no error.
#[tokio::test(flavor = "multi_thread")]
async fn killed_connections_cause_no_errors_for_callers() {
    let database = TestDatabase::postgres().await;
    let name = uuid::Uuid::now_v7().simple().to_string();
    let engine = open(&address(&database, &format!("application_name={name}"))).await;
    engine.workflows().register(&tenant(), gated("flow")).await.unwrap();
    let ended = Arc::new(AtomicUsize::new(0));
    let caller = |_| {
        let (engine, ended) = (engine.clone(), ended.clone());
        tokio::spawn(async move {
            for _ in 0..RUNS_EACH {
                let of = begin(&engine).await;
                approve(&engine, &of).await.unwrap();
                ended.fetch_add(1, Ordering::SeqCst);
            }
        })
    };
    let callers: Vec<_> = (0..CALLERS).map(caller).collect();
    let kill =
        format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{name}'");
    for round in 0..RUNS_EACH {
        while ended.load(Ordering::SeqCst) < round * CALLERS {
            tokio::task::yield_now().await;
        }
        database.read(&kill).await;
    }
    for caller in callers {
        caller.await.unwrap();
    }
    let stored = "SELECT count(*), count(*) FILTER (WHERE status = 'completed') FROM runs";
    let all = Some((CALLERS * RUNS_EACH).to_string());
    let found = database.read(stored).await;
    assert_eq!((&found[0][0].1, &found[0][1].1), (&all, &all));
}

/// The results of the starts of one caller.
#[derive(Default)]
struct StartResults {
    started: Vec<RunRef>,
    unknown: usize,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_restart_loses_no_acknowledged_run() {
    let cluster = Arc::new(Cluster::start());
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", cluster.port);
    let engine = open(&url).await;
    engine.workflows().register(&tenant(), gated("flow")).await.unwrap();
    let (begun, restarted) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let caller = |_| tokio::spawn(call(engine.clone(), begun.clone(), restarted.clone()));
    let callers: Vec<_> = (0..CALLERS).map(caller).collect();
    while begun.load(Ordering::SeqCst) < CALLERS {
        tokio::task::yield_now().await;
    }
    let server = cluster.clone();
    tokio::task::spawn_blocking(move || server.restart()).await.unwrap();
    restarted.store(true, Ordering::SeqCst);
    let mut results = StartResults::default();
    for caller in callers {
        let StartResults { started, unknown } = caller.await.unwrap();
        results.started.extend(started);
        results.unknown += unknown;
    }

    let other = open(&url).await;
    for of in &results.started {
        assert_eq!(status(&other, of).await, "waiting-approval", "{}", of.run);
    }
    let stored = test_database::read(&cluster.socket("postgres"), "SELECT count(*) FROM runs").await;
    let stored: usize = stored[0][0].1.as_deref().unwrap().parse().unwrap();
    let (least, most) = (results.started.len(), results.started.len() + results.unknown);
    assert!((least..=most).contains(&stored), "{stored} runs are stored, {least} to {most} were started");
    approve(&engine, &results.started[0]).await.unwrap();
    assert_eq!(status(&other, &results.started[0]).await, "completed");
}

/// Starts runs until one start succeeds after the restart of the server.
async fn call(engine: Engine, begun: Arc<AtomicUsize>, restarted: Arc<AtomicBool>) -> StartResults {
    let mut results = StartResults::default();
    let flow = WorkflowId::parse("flow").unwrap();
    loop {
        let back = restarted.load(Ordering::SeqCst);
        match engine.runs().create(&flow, start(json!({}))).await {
            Ok(run) => {
                results.started.push(RunRef { tenant: tenant(), run: run.id.clone() });
                if results.started.len() == 1 {
                    begun.fetch_add(1, Ordering::SeqCst);
                }
                if back {
                    return results;
                }
            }
            Err(Error::Store(StoreError::Unavailable(_) | StoreError::Unknown(_))) => results.unknown += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
}
