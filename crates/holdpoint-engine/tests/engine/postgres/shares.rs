//! A process opens no more connections than `connections` in its address allows.

use holdpoint_engine::{Engine, PendingCursor};

use crate::postgres::server::{address, approve, begin, open};
use crate::test_database::TestDatabase;
use crate::test_env::{gated, tenant};

const CALLERS: usize = 24;
const RUNS_EACH: usize = 15;

#[tokio::test(flavor = "multi_thread")]
async fn the_connection_limit_holds_under_load() {
    let database = TestDatabase::postgres().await;
    let name = uuid::Uuid::now_v7().simple().to_string();
    let engine =
        open(&address(&database, &format!("connections=6&committers=3&application_name={name}"))).await;
    engine.workflows().register(&tenant(), gated("flow")).await.unwrap();
    wait_for_three_connections(&database, &name).await;
    let callers: Vec<_> = (0..CALLERS).map(|_| tokio::spawn(call(engine.clone()))).collect();
    let count = format!("SELECT count(*) FROM pg_stat_activity WHERE application_name = '{name}'");
    let (mut most, mut samples) = (0, 0);
    while !callers.iter().all(tokio::task::JoinHandle::is_finished) {
        let found = database.read(&count).await;
        most = most.max(found[0][0].1.as_deref().unwrap().parse().unwrap());
        samples += 1;
    }
    for caller in callers {
        caller.await.unwrap();
    }
    assert!((4..=6).contains(&most), "{most} connections at most, in {samples} samples");
}

/// Waits until the connection that opened the engine is closed. Three connections remain: one writes, one reads and one
/// listens.
async fn wait_for_three_connections(database: &TestDatabase, name: &str) {
    let count = format!(
        "SELECT count(*), count(*) FILTER (WHERE query LIKE '%LISTEN%' OR query LIKE '%pg_notify%') \
         FROM pg_stat_activity WHERE application_name = '{name}'"
    );
    loop {
        let found = database.read(&count).await;
        if found[0][0].1.as_deref() == Some("3") && found[0][1].1.as_deref() == Some("1") {
            return;
        }
    }
}

async fn call(engine: Engine) {
    for _ in 0..RUNS_EACH {
        let of = begin(&engine).await;
        engine.interrupts().open(&tenant(), PendingCursor::default(), 10).await.unwrap();
        approve(&engine, &of).await.unwrap();
    }
}
