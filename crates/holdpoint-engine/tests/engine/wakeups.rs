//! Wake-ups: every change that makes a dispatch ready wakes the worker. The worker of these tests has no backstop.

use holdpoint_engine::core::RunRef;
use holdpoint_engine::core::mailbox::{RunDispatch, RunDispatchStatus};
use holdpoint_engine::{Clock, Engine, Location};

use crate::slow_node::{Control, slow, start_slow, start_worker, wait_for_status, wait_until_idle};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{NOON, TestEnv, sealed_at, tenant};

on_both! {
    a_dispatch_of_a_busy_thread_starts_when_the_previous_one_ends,
    a_dispatch_starts_when_a_mailbox_client_acknowledges_the_previous_one,
    a_dispatch_starts_again_when_a_mailbox_client_returns_it,
    a_run_ends_when_a_mailbox_client_dead_letters_its_dispatch,
    a_queued_run_ends_when_its_thread_is_interrupted,
    a_dispatch_starts_when_the_last_lease_of_the_previous_one_expires,
}

/// The lease of mailbox clients. Long, because the end of a lease also wakes the worker.
const LEASE_MS: u64 = 24 * 3_600_000;

/// An engine without notifications of other nodes. The start of the listener would also wake the worker.
async fn prepare(database: TestDatabase) -> (TestEnv, Control) {
    let (control, clock) = (Control::new(), Clock::manual(NOON));
    let location = match database.location() {
        Location::Postgres(url) => Location::Postgres(format!("{url}&notify=off")),
        file @ Location::Sqlite(_) => file,
    };
    let options = control.configure(sealed_at(location).clock(clock.clone()));
    let env = TestEnv { engine: Engine::open(options).await.unwrap(), clock, database };
    env.register(slow()).await;
    (env, control)
}

/// Starts a run in the thread and claims its dispatch as a mailbox client. Returns the run, the dispatch and the token.
async fn start_and_claim(env: &TestEnv) -> (RunRef, RunDispatch, String) {
    let of = start_slow(&env.engine, "t").await;
    let mail = env.engine.mailbox(&tenant());
    let claimed = mail.claims().claim("t", "client", LEASE_MS, env.clock.now(), 1).await.unwrap();
    let row = claimed.into_iter().next().expect("the dispatch is queued");
    let token = row.claim_token.clone().unwrap();
    (of, row, token)
}

async fn a_dispatch_of_a_busy_thread_starts_when_the_previous_one_ends(database: TestDatabase) {
    let (env, mut control) = prepare(database).await;
    let (stop, worker) = start_worker(&env.engine);
    start_slow(&env.engine, "t").await;
    control.wait_for_start().await;
    let second = start_slow(&env.engine, "t").await;
    wait_until_idle(&env.engine).await;
    control.assert_none_started();
    control.end_one();
    control.wait_for_start().await;
    control.end_one();
    wait_for_status(&env.engine, &second, "completed").await;
    stop.send(true).unwrap();
    worker.await.unwrap();
}

async fn a_dispatch_starts_when_a_mailbox_client_acknowledges_the_previous_one(database: TestDatabase) {
    let (env, mut control) = prepare(database).await;
    let (_, row, token) = start_and_claim(&env).await;
    let (_stop, _worker) = start_worker(&env.engine);
    start_slow(&env.engine, "t").await;
    wait_until_idle(&env.engine).await;
    control.assert_none_started();
    let mail = env.engine.mailbox(&tenant());
    mail.claims().ack(&row.dispatch_id, &token, env.clock.now()).await.unwrap();
    control.wait_for_start().await;
    control.end_one();
}

async fn a_dispatch_starts_again_when_a_mailbox_client_returns_it(database: TestDatabase) {
    let (env, mut control) = prepare(database).await;
    let (of, row, token) = start_and_claim(&env).await;
    let (_stop, _worker) = start_worker(&env.engine);
    wait_until_idle(&env.engine).await;
    let (mail, now) = (env.engine.mailbox(&tenant()), env.clock.now());
    mail.claims().nack(&row.dispatch_id, &token, now, "not now", now).await.unwrap();
    control.wait_for_start().await;
    control.end_one();
    wait_for_status(&env.engine, &of, "completed").await;
}

async fn a_run_ends_when_a_mailbox_client_dead_letters_its_dispatch(database: TestDatabase) {
    let (env, _control) = prepare(database).await;
    let (of, row, token) = start_and_claim(&env).await;
    let (_stop, _worker) = start_worker(&env.engine);
    wait_until_idle(&env.engine).await;
    let mail = env.engine.mailbox(&tenant());
    mail.claims().dead_letter(&row.dispatch_id, &token, "never", env.clock.now()).await.unwrap();
    wait_for_status(&env.engine, &of, "failed").await;
}

async fn a_queued_run_ends_when_its_thread_is_interrupted(database: TestDatabase) {
    let (env, mut control) = prepare(database).await;
    start_and_claim(&env).await;
    let (_stop, _worker) = start_worker(&env.engine);
    let queued = start_slow(&env.engine, "t").await;
    wait_until_idle(&env.engine).await;
    let interrupted = env.engine.mailbox(&tenant()).interrupt("t", env.clock.now()).await.unwrap();
    assert_eq!(interrupted.superseded_count, 1);
    wait_for_status(&env.engine, &queued, "cancelled").await;
    control.assert_none_started();
}

/// The worker is idle while the clock advances. An invalid lease extension wakes it: a dispatch would be work, and the
/// worker reads the queue again after work.
async fn a_dispatch_starts_when_the_last_lease_of_the_previous_one_expires(database: TestDatabase) {
    let (env, mut control) = prepare(database).await;
    let (first, row, _) = start_and_claim(&env).await;
    env.database.execute("UPDATE dispatches SET attempt_count = max_attempts - 1").await.unwrap();
    let (_stop, _worker) = start_worker(&env.engine);
    start_slow(&env.engine, "t").await;
    wait_until_idle(&env.engine).await;
    env.clock.advance(i64::try_from(LEASE_MS).unwrap() + 1);
    let now = env.clock.now();
    let mail = env.engine.mailbox(&tenant());
    assert!(!mail.claims().extend_lease("unknown", "no token", LEASE_MS, now).await.unwrap());
    control.wait_for_start().await;
    control.end_one();
    wait_for_status(&env.engine, &first, "failed").await;
    let row = mail.load_dispatch(&row.dispatch_id).await.unwrap().unwrap();
    assert_eq!(row.status, RunDispatchStatus::DeadLetter);
}
