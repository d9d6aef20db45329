//! What callers notice of a server that is slow, loses its connections, or goes away for a moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use holdpoint_engine::core::{RunRef, WorkflowId};
use holdpoint_engine::{Engine, Error, PendingCursor, StoreError};
use serde_json::json;

use crate::cluster::Cluster;
use crate::house::{gated, start, tenant};
use crate::place::{self, Place};
use crate::server::{address, begin, open, say_yes, status, whole_run};

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_somebody_else_keeps_locked_is_not_waited_for_for_ever() {
    let place = Place::postgres().await;
    let engine = open(&address(&place, "statement_timeout=1000")).await;
    engine.register(&tenant(), gated("flow")).await.unwrap();
    let of = begin(&engine).await;
    let Place::Postgres(schema) = &place else { panic!("this place is a file") };
    let somebody = schema.session().await;
    let lock = format!("BEGIN; SELECT 1 FROM runs WHERE run_id = '{}' FOR UPDATE", of.run);
    somebody.batch_execute(&lock).await.unwrap();

    let error = say_yes(&engine, &of).await.unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::Busy)), "{error:?}");
    assert!(engine.is_alive());
    // Others are not held up, and what is locked can be read.
    whole_run(&engine).await;
    assert_eq!(status(&engine, &of).await, "waiting-approval");

    somebody.batch_execute("ROLLBACK").await.unwrap();
    say_yes(&engine, &of).await.unwrap();
    assert_eq!(status(&engine, &of).await, "completed");
}

/// The number that nodes agree on so that one of them migrates at a time.
const MIGRATION_LOCK: i64 = 0x_686f_6c64_706f_696e;

#[tokio::test(flavor = "multi_thread")]
async fn a_node_waits_for_another_that_migrates_longer_than_a_statement_may_take() {
    let place = Place::postgres().await;
    let name = uuid::Uuid::now_v7().simple().to_string();
    let url = address(&place, &format!("statement_timeout=100&application_name={name}"));
    let Place::Postgres(schema) = &place else { panic!("this place is a file") };
    let other = schema.session().await;
    other.batch_execute(&format!("SELECT pg_advisory_lock({MIGRATION_LOCK})")).await.unwrap();
    let opening = tokio::spawn(async move { open(&url).await });
    let waits = format!(
        "SELECT 1 FROM pg_stat_activity WHERE application_name = '{name}' AND wait_event = 'advisory' \
         AND clock_timestamp() - query_start > interval '300 ms'"
    );
    while place.read(&waits).await.is_empty() {
        assert!(!opening.is_finished(), "it did not wait");
    }
    other.batch_execute(&format!("SELECT pg_advisory_unlock({MIGRATION_LOCK})")).await.unwrap();
    opening.await.unwrap().close().await;
}

/// Appending to the log takes half an hour.
const SLOW: &str = "CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS \
                    $$ BEGIN PERFORM pg_sleep(1800); RETURN NEW; END $$; \
                    CREATE TRIGGER dawdle BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION dawdle()";

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_takes_too_long_is_ended_and_leaves_nothing_behind() {
    let place = Place::postgres().await;
    let engine = open(&address(&place, "statement_timeout=1000")).await;
    engine.register(&tenant(), gated("flow")).await.unwrap();
    let of = begin(&engine).await;
    place.execute(SLOW).await.unwrap();

    let error = say_yes(&engine, &of).await.unwrap_err();
    let Error::Store(StoreError::Failed(why)) = &error else { panic!("{error:?}") };
    assert!(why.contains("statement timeout") && why.contains("57014"), "{why}");
    assert_eq!(status(&engine, &of).await, "waiting-approval");

    place.execute("DROP TRIGGER dawdle ON events").await.unwrap();
    say_yes(&engine, &of).await.unwrap();
    assert_eq!(status(&engine, &of).await, "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_is_made_anew_by_whoever_needs_it() {
    let place = Place::postgres().await;
    let name = uuid::Uuid::now_v7().simple().to_string();
    let engine = open(&address(&place, &format!("application_name={name}"))).await;
    whole_run(&engine).await;
    let of = begin(&engine).await;
    let kill = format!(
        "SELECT pid, pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = '{name}'"
    );
    for _ in 0..5 {
        let killed = place.read(&kill).await;
        assert!(!killed.is_empty(), "nobody was there");
        begin(&engine).await;
        engine.pending(&tenant(), PendingCursor::default(), 10).await.unwrap();
        assert!(!place.read(&kill).await.is_empty(), "nobody was there");
        engine.pending(&tenant(), PendingCursor::default(), 10).await.unwrap();
        begin(&engine).await;
    }
    say_yes(&engine, &of).await.unwrap();
    assert_eq!(engine.pending(&tenant(), PendingCursor::default(), 100).await.unwrap().len(), 10);
}

const CALLERS: usize = 16;
const RUNS_EACH: usize = 20;

/// Connections break before, in and after transactions; what happened then is found out, and no caller sees it.
#[tokio::test(flavor = "multi_thread")]
async fn callers_do_not_notice_connections_that_are_killed_under_them() {
    let place = Place::postgres().await;
    let name = uuid::Uuid::now_v7().simple().to_string();
    let engine = open(&address(&place, &format!("application_name={name}"))).await;
    engine.register(&tenant(), gated("flow")).await.unwrap();
    let ended = Arc::new(AtomicUsize::new(0));
    let caller = |_| {
        let (engine, ended) = (engine.clone(), ended.clone());
        tokio::spawn(async move {
            for _ in 0..RUNS_EACH {
                let of = begin(&engine).await;
                say_yes(&engine, &of).await.unwrap();
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
        place.read(&kill).await;
    }
    for caller in callers {
        caller.await.unwrap();
    }
    let stored = "SELECT count(*), count(*) FILTER (WHERE status = 'completed') FROM runs";
    let all = Some((CALLERS * RUNS_EACH).to_string());
    let found = place.read(stored).await;
    assert_eq!((&found[0][0].1, &found[0][1].1), (&all, &all));
}

/// What callers were told.
#[derive(Default)]
struct Told {
    started: Vec<RunRef>,
    unsure: usize,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_restarts_loses_no_run_that_was_acknowledged() {
    let cluster = Arc::new(Cluster::start());
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", cluster.port);
    let engine = open(&url).await;
    engine.register(&tenant(), gated("flow")).await.unwrap();
    let (begun, restarted) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let caller = |_| tokio::spawn(call(engine.clone(), begun.clone(), restarted.clone()));
    let callers: Vec<_> = (0..CALLERS).map(caller).collect();
    while begun.load(Ordering::SeqCst) < CALLERS {
        tokio::task::yield_now().await;
    }
    let server = cluster.clone();
    tokio::task::spawn_blocking(move || server.restart()).await.unwrap();
    restarted.store(true, Ordering::SeqCst);
    let mut told = Told::default();
    for caller in callers {
        let Told { started, unsure } = caller.await.unwrap();
        told.started.extend(started);
        told.unsure += unsure;
    }

    let other = open(&url).await;
    for of in &told.started {
        assert_eq!(status(&other, of).await, "waiting-approval", "{}", of.run);
    }
    let stored = place::read(&cluster.socket("postgres"), "SELECT count(*) FROM runs").await;
    let stored: usize = stored[0][0].1.as_deref().unwrap().parse().unwrap();
    let (least, most) = (told.started.len(), told.started.len() + told.unsure);
    assert!((least..=most).contains(&stored), "{stored} runs are stored, {least} to {most} were started");
    say_yes(&engine, &told.started[0]).await.unwrap();
    assert_eq!(status(&other, &told.started[0]).await, "completed");
}

/// Starts runs, and at least one after the server is back.
async fn call(engine: Engine, begun: Arc<AtomicUsize>, restarted: Arc<AtomicBool>) -> Told {
    let mut told = Told::default();
    let flow = WorkflowId::parse("flow").unwrap();
    loop {
        let back = restarted.load(Ordering::SeqCst);
        match engine.start(&flow, start(json!({}))).await {
            Ok(run) => {
                told.started.push(RunRef { tenant: tenant(), run: run.id.clone() });
                if told.started.len() == 1 {
                    begun.fetch_add(1, Ordering::SeqCst);
                }
                if back {
                    return told;
                }
            }
            Err(Error::Store(StoreError::Unavailable(_) | StoreError::Unknown(_))) => told.unsure += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
}
