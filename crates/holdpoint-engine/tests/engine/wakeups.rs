//! Every event that makes a row ready wakes the worker: here it never looks by itself.

use holdpoint_engine::core::RunRef;
use holdpoint_engine::core::mailbox::{RunDispatch, RunDispatchStatus};
use holdpoint_engine::{Clock, Engine, Location};

use crate::house::{House, NOON, sealed_at, tenant};
use crate::place::{Place, on_both};
use crate::slow_node::{Control, reaches, sleeps, slow, start_slow, work};

on_both! {
    what_is_queued_in_a_busy_thread_begins_when_its_holder_ends,
    what_is_queued_behind_a_raw_holder_begins_when_it_acks,
    what_a_raw_holder_gives_back_begins_again,
    a_run_ends_when_a_raw_holder_gives_its_dispatch_up,
    a_run_whose_thread_is_interrupted_in_the_queue_ends,
    what_is_queued_behind_a_silent_holder_begins_when_its_last_lease_is_over,
}

/// Of raw holders. Long, because a worker also looks when a lease is over.
const LEASE_MS: u64 = 24 * 3_600_000;

/// A node that hears of no other: the worker also looks when its node begins to listen.
async fn given(place: Place) -> (House, Control) {
    let (control, clock) = (Control::new(), Clock::manual(NOON));
    let location = match place.location() {
        Location::Postgres(url) => Location::Postgres(format!("{url}&notify=off")),
        file @ Location::Sqlite(_) => file,
    };
    let options = control.furnish(sealed_at(location).clock(clock.clone()));
    let house = House { engine: Engine::open(options).await.unwrap(), clock, place };
    house.register(slow()).await;
    (house, control)
}

/// A run in the thread, its dispatch, and the token of a raw holder that has claimed it.
async fn claimed_by_hand(house: &House) -> (RunRef, RunDispatch, String) {
    let of = start_slow(&house.engine, "t").await;
    let mail = house.engine.mailbox(&tenant());
    let claimed = mail.claim("t", "raw", LEASE_MS, house.clock.now(), 1).await.unwrap();
    let row = claimed.into_iter().next().expect("it is queued");
    let token = row.claim_token.clone().unwrap();
    (of, row, token)
}

async fn what_is_queued_in_a_busy_thread_begins_when_its_holder_ends(place: Place) {
    let (house, mut control) = given(place).await;
    let (stop, worker) = work(&house.engine);
    start_slow(&house.engine, "t").await;
    control.one_begins().await;
    let second = start_slow(&house.engine, "t").await;
    sleeps(&house.engine).await;
    control.none_has_begun();
    control.end_one();
    control.one_begins().await;
    control.end_one();
    reaches(&house.engine, &second, "completed").await;
    stop.send(true).unwrap();
    worker.await.unwrap();
}

async fn what_is_queued_behind_a_raw_holder_begins_when_it_acks(place: Place) {
    let (house, mut control) = given(place).await;
    let (_, row, token) = claimed_by_hand(&house).await;
    let (_stop, _worker) = work(&house.engine);
    start_slow(&house.engine, "t").await;
    sleeps(&house.engine).await;
    control.none_has_begun();
    let mail = house.engine.mailbox(&tenant());
    mail.ack(&row.dispatch_id, &token, house.clock.now()).await.unwrap();
    control.one_begins().await;
    control.end_one();
}

async fn what_a_raw_holder_gives_back_begins_again(place: Place) {
    let (house, mut control) = given(place).await;
    let (of, row, token) = claimed_by_hand(&house).await;
    let (_stop, _worker) = work(&house.engine);
    sleeps(&house.engine).await;
    let (mail, now) = (house.engine.mailbox(&tenant()), house.clock.now());
    mail.nack(&row.dispatch_id, &token, now, "not now", now).await.unwrap();
    control.one_begins().await;
    control.end_one();
    reaches(&house.engine, &of, "completed").await;
}

async fn a_run_ends_when_a_raw_holder_gives_its_dispatch_up(place: Place) {
    let (house, _control) = given(place).await;
    let (of, row, token) = claimed_by_hand(&house).await;
    let (_stop, _worker) = work(&house.engine);
    sleeps(&house.engine).await;
    let mail = house.engine.mailbox(&tenant());
    mail.dead_letter(&row.dispatch_id, &token, "never", house.clock.now()).await.unwrap();
    reaches(&house.engine, &of, "failed").await;
}

async fn a_run_whose_thread_is_interrupted_in_the_queue_ends(place: Place) {
    let (house, mut control) = given(place).await;
    claimed_by_hand(&house).await;
    let (_stop, _worker) = work(&house.engine);
    let queued = start_slow(&house.engine, "t").await;
    sleeps(&house.engine).await;
    let interrupted = house.engine.mailbox(&tenant()).interrupt("t", house.clock.now()).await.unwrap();
    assert_eq!(interrupted.superseded_count, 1);
    reaches(&house.engine, &queued, "cancelled").await;
    control.none_has_begun();
}

/// The worker is asleep while the manual clock moves. A holder of nothing wakes it: a dispatch would be work, and the worker
/// looks again after work.
async fn what_is_queued_behind_a_silent_holder_begins_when_its_last_lease_is_over(place: Place) {
    let (house, mut control) = given(place).await;
    let (silent, row, _) = claimed_by_hand(&house).await;
    house.place.execute("UPDATE dispatches SET attempt_count = max_attempts - 1").await.unwrap();
    let (_stop, _worker) = work(&house.engine);
    start_slow(&house.engine, "t").await;
    sleeps(&house.engine).await;
    house.clock.advance(i64::try_from(LEASE_MS).unwrap() + 1);
    let now = house.clock.now();
    let mail = house.engine.mailbox(&tenant());
    assert!(!mail.extend_lease("nothing", "no token", LEASE_MS, now).await.unwrap());
    control.one_begins().await;
    control.end_one();
    reaches(&house.engine, &silent, "failed").await;
    let row = mail.load_dispatch(&row.dispatch_id).await.unwrap().unwrap();
    assert_eq!(row.status, RunDispatchStatus::DeadLetter);
}
