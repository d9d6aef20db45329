//! Servers that break, lose what they had or take long.

use serde_json::json;

use crate::fake::{Fake, Fault};
use crate::fake_world::{Step, World, ask, hang};
use crate::house::{House, asked, completed, failed, trouble};
use crate::place::Place;

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_arrived_although_nobody_heard_so_is_not_sent_again() {
    for fault in [Fault::Cut, Fault::Broken(500), Fault::Broken(502)] {
        let fake = Fake::playing([ask(1)]).await;
        let place = Place::sqlite();
        let house = House::open(&place, fake.settings()).await;
        fake.fail("POST /threads/X/runs", fault);
        assert_eq!(asked(house.start("g", "k", json!({})).await).1, json!({"round": 1}), "{fault:?}");
        assert_eq!(fake.heard("POST /threads/X/runs"), 1, "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_of_a_turn_may_break_once() {
    let calls =
        ["/info", "POST /threads", "/state", "POST /threads/X/runs", "/join", "GET /threads/X/runs/X"];
    for call in calls {
        for fault in [Fault::Refused(503), Fault::Broken(500), Fault::Cut] {
            let fake = Fake::playing([ask(1), Step::Finish(json!({}))]).await;
            let place = Place::sqlite();
            let house = House::open(&place, fake.settings_with("outageMs", json!(5_000))).await;
            fake.fail(call, fault);
            assert_eq!(
                asked(house.start("g", "k", json!({})).await).1,
                json!({"round": 1}),
                "{call} {fault:?}"
            );
            fake.fail(call, fault);
            completed(house.resume("k", "r1", json!(1)).await);
            assert_eq!(
                fake.look(|world| (world.inputs.len(), world.answers.len())),
                (1, 1),
                "{call} {fault:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stays_broken_leaves_the_question_open() {
    let fake = Fake::playing([ask(1), Step::Finish(json!({}))]).await;
    let place = Place::sqlite();
    let house = House::open(&place, fake.settings()).await;
    asked(house.start("g", "k", json!({})).await);
    (0..3).for_each(|_| fake.fail("/state", Fault::Refused(500)));
    assert_eq!(trouble(house.resume("k", "r1", json!(1)).await), "provider_unreachable");
    completed(house.resume("k", "r2", json!(1)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_that_is_lost_is_made_again_when_its_checkpoints_are_there() {
    let fake = Fake::playing([ask(1), Step::Finish(json!({"ok": 1}))]).await;
    let place = Place::sqlite();
    let house = House::open(&place, fake.settings()).await;
    asked(house.start("g", "k", json!({})).await);
    fake.change(World::lose_threads);
    assert_eq!(completed(house.resume("k", "r1", json!(1)).await), json!({"ok": 1}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_is_lost_ends_the_graph() {
    let fake = Fake::playing([ask(1)]).await;
    let place = Place::sqlite();
    let house = House::open(&place, fake.settings()).await;
    asked(house.start("g", "k", json!({})).await);
    fake.change(World::lose_everything);
    assert_eq!(failed(house.resume("k", "r1", json!(1)).await).0, "state_lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_lost_in_the_middle_of_its_work_is_begun_again() {
    let fake = Fake::playing([hang(ask(1)), ask(1)]).await;
    let place = Place::sqlite();
    let house = House::open(&place, fake.settings()).await;
    house.begin("g", "k", json!({})).await;
    fake.heard_times("/join", 1).await;
    fake.change(World::lose_everything);
    asked(house.settled("k").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_may_take_longer_than_any_call() {
    let fake = Fake::playing([hang(ask(1))]).await;
    let place = Place::sqlite();
    let house = House::open(&place, fake.settings_with("waitMs", json!(30))).await;
    house.begin("g", "k", json!({})).await;
    fake.heard_times("/join", 4).await;
    fake.release();
    asked(house.settled("k").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_takes_too_long_is_stopped_and_can_be_answered_again() {
    let fake = Fake::playing([ask(1), hang(ask(2)), Step::Finish(json!({}))]).await;
    let place = Place::sqlite();
    let house = House::open(&place, fake.settings_with("maxRunMs", json!(300))).await;
    asked(house.start("g", "k", json!({})).await);
    assert_eq!(trouble(house.resume("k", "r1", json!(1)).await), "provider_timeout");
    assert_eq!(fake.heard("/cancel"), 1);
    completed(house.resume("k", "r2", json!(1)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_the_server_stopped_for_its_time_is_told_as_such() {
    let fake = Fake::playing([Step::End("timeout")]).await;
    let place = Place::sqlite();
    let house = House::open(&place, fake.settings()).await;
    assert_eq!(failed(house.start("g", "k", json!({})).await).0, "provider_timeout");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_cancelled_over_there_is_cancelled_although_the_wait_does_not_say_so() {
    let fake = Fake::playing([hang(ask(1))]).await;
    let place = Place::sqlite();
    let house = House::open(&place, fake.settings()).await;
    house.begin("g", "k", json!({})).await;
    fake.heard_times("/join", 1).await;
    fake.change(World::stop_all);
    assert_eq!(failed(house.settled("k").await).0, "provider_cancelled");
}
