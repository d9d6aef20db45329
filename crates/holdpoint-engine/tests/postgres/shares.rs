//! A node takes no more of the server than its address says.

use holdpoint_engine::{Engine, PendingCursor};

use crate::house::{gated, tenant};
use crate::place::Place;
use crate::server::{address, begin, open, say_yes};

const CALLERS: usize = 24;
const RUNS_EACH: usize = 15;

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_connections_is_a_limit_under_any_load() {
    let place = Place::postgres().await;
    let name = uuid::Uuid::now_v7().simple().to_string();
    let engine = open(&address(&place, &format!("connections=6&committers=3&application_name={name}"))).await;
    engine.register(&tenant(), gated("flow")).await.unwrap();
    settled(&place, &name).await;
    let callers: Vec<_> = (0..CALLERS).map(|_| tokio::spawn(call(engine.clone()))).collect();
    let count = format!("SELECT count(*) FROM pg_stat_activity WHERE application_name = '{name}'");
    let (mut most, mut looks) = (0, 0);
    while !callers.iter().all(tokio::task::JoinHandle::is_finished) {
        let found = place.read(&count).await;
        most = most.max(found[0][0].1.as_deref().unwrap().parse().unwrap());
        looks += 1;
    }
    for caller in callers {
        caller.await.unwrap();
    }
    assert!((4..=6).contains(&most), "{most} connections at most, in {looks} looks");
}

/// Waits until the connection that opened the engine is gone: then there is one that writes, one that reads and one
/// that listens.
async fn settled(place: &Place, name: &str) {
    let count = format!(
        "SELECT count(*), count(*) FILTER (WHERE query LIKE '%LISTEN%' OR query LIKE '%pg_notify%') \
         FROM pg_stat_activity WHERE application_name = '{name}'"
    );
    loop {
        let found = place.read(&count).await;
        if found[0][0].1.as_deref() == Some("3") && found[0][1].1.as_deref() == Some("1") {
            return;
        }
    }
}

async fn call(engine: Engine) {
    for _ in 0..RUNS_EACH {
        let of = begin(&engine).await;
        engine.pending(&tenant(), PendingCursor::default(), 10).await.unwrap();
        say_yes(&engine, &of).await.unwrap();
    }
}
