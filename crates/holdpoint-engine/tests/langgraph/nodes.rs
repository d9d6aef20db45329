//! What is kept here between calls, on both databases: a graph goes on wherever it is taken up again, and nothing is
//! sent twice.

use holdpoint_engine::Standing;
use serde_json::json;

use crate::fake::Fake;
use crate::fake_world::{Step, World, ask, hang};
use crate::house::{House, asked, completed};
use crate::place::{Place, on_both};

on_both!(
    a_graph_is_revised_and_then_approved,
    another_node_waits_for_the_start_that_is_under_way,
    a_start_that_came_to_its_pause_while_nobody_was_here_is_not_made_again,
    another_node_waits_for_the_answer_that_is_under_way,
    a_node_that_died_before_it_could_tell_is_told_again,
    a_graph_whose_run_is_cancelled_is_stopped_and_deleted,
    only_approvers_of_the_server_may_answer,
);

/// Another node takes over from one that died, without waiting until that is beyond doubt.
async fn take_over(dead: House, place: &Place, fake: &Fake) -> House {
    dead.die().await;
    lapse(place).await;
    House::open(place, fake.settings()).await
}

/// Lets run out what a dead node holds.
async fn lapse(place: &Place) {
    let lapse = "UPDATE dispatches SET lease_until_ms = 0 WHERE status = 'claimed'; \
                 UPDATE execution_state_handles SET locked_until = 0 WHERE locked_until IS NOT NULL";
    place.execute(lapse).await.unwrap();
}

async fn a_graph_is_revised_and_then_approved(place: Place) {
    let fake = Fake::playing([ask(1), ask(2), Step::Finish(json!({"sent": true}))]).await;
    let house = House::open(&place, fake.settings()).await;
    assert_eq!(asked(house.start("g", "k", json!({"topic": "tea"})).await).1, json!({"round": 1}));
    assert_eq!(asked(house.resume("k", "r1", json!("revise")).await).1, json!({"round": 2}));
    assert_eq!(asked(house.resume("k", "r1", json!("revise")).await).1, json!({"round": 2}));
    assert_eq!(completed(house.resume("k", "r2", json!("approve")).await), json!({"sent": true}));
    fake.look(|world| {
        assert_eq!(world.inputs, [json!({"topic": "tea"})]);
        assert_eq!(world.answers, [json!("revise"), json!("approve")]);
    });
    // Few calls: who it is, a thread and its state, and for each turn a run, its end, and the state.
    let calls = fake.look(|world| world.heard.clone());
    assert_eq!(calls.len(), 1 + 2 + 3 * 4 + 2, "{calls:#?}");
    let told = house.told("k").await;
    for name in fake.look(|world| world.names().to_vec()) {
        assert!(!told.contains(&name), "{name} is in {told}");
    }
    assert!(!told.contains(&fake.url), "{told}");
    let kept = place.read("SELECT * FROM execution_state_handles").await;
    let kept = format!("{kept:?}");
    assert!(fake.look(|world| !world.names().iter().any(|name| kept.contains(name))), "{kept}");
}

async fn another_node_waits_for_the_start_that_is_under_way(place: Place) {
    let fake = Fake::playing([hang(ask(1))]).await;
    let house = House::open(&place, fake.settings()).await;
    house.begin("g", "k", json!({})).await;
    fake.heard_times("/join", 1).await;
    let house = take_over(house, &place, &fake).await;
    fake.heard_times("/join", 2).await;
    fake.release();
    assert_eq!(asked(house.settled("k").await).1, json!({"round": 1}));
    assert_eq!(fake.look(|world| world.inputs.len()), 1);
    assert_eq!(fake.heard("POST /threads/X/runs"), 1);
}

async fn a_start_that_came_to_its_pause_while_nobody_was_here_is_not_made_again(place: Place) {
    let fake = Fake::playing([hang(ask(1)), Step::Finish(json!({}))]).await;
    let house = House::open(&place, fake.settings()).await;
    house.begin("g", "k", json!({})).await;
    fake.heard_times("/join", 1).await;
    house.die().await;
    fake.release();
    fake.change(World::lose_threads);
    lapse(&place).await;
    let house = House::open(&place, fake.settings()).await;
    assert_eq!(asked(house.settled("k").await).1, json!({"round": 1}));
    completed(house.resume("k", "r1", json!("yes")).await);
    fake.look(|world| assert_eq!((world.inputs.len(), world.answers.len()), (1, 1)));
}

async fn another_node_waits_for_the_answer_that_is_under_way(place: Place) {
    let fake = Fake::playing([ask(1), hang(Step::Finish(json!({"ok": 1})))]).await;
    let house = House::open(&place, fake.settings()).await;
    asked(house.start("g", "k", json!({})).await);
    house.answer("k", "r1", json!("yes")).await.unwrap();
    fake.heard_times("/join", 2).await;
    let house = take_over(house, &place, &fake).await;
    fake.heard_times("/join", 3).await;
    fake.release();
    assert_eq!(completed(house.settled("k").await), json!({"ok": 1}));
    assert_eq!(fake.look(|world| world.answers.clone()), [json!("yes")]);
}

async fn a_node_that_died_before_it_could_tell_is_told_again(place: Place) {
    let fake = Fake::playing([ask(1), hang(ask(2)), Step::Finish(json!({}))]).await;
    let house = House::open(&place, fake.settings()).await;
    asked(house.start("g", "k", json!({})).await);
    house.answer("k", "r1", json!("first")).await.unwrap();
    fake.heard_times("/join", 2).await;
    house.die().await;
    // It goes on over there while nobody is here, and the server forgets all but the checkpoints.
    fake.release();
    fake.change(World::lose_threads);
    lapse(&place).await;
    let house = House::open(&place, fake.settings()).await;
    assert_eq!(asked(house.settled("k").await).1, json!({"round": 2}));
    assert_eq!(fake.look(|world| world.answers.clone()), [json!("first")]);
    completed(house.resume("k", "r2", json!("second")).await);
    assert_eq!(fake.look(|world| world.answers.clone()), [json!("first"), json!("second")]);
}

async fn a_graph_whose_run_is_cancelled_is_stopped_and_deleted(place: Place) {
    let fake = Fake::playing([hang(ask(1))]).await;
    let house = House::open(&place, fake.settings()).await;
    let of = house.begin("g", "k", json!({})).await;
    fake.heard_times("/join", 1).await;
    let by = holdpoint_engine::core::Principal::named("alice");
    house.engine.cancel(&of, None, by).await.unwrap();
    assert!(matches!(house.settled("k").await, Standing::Cancelled { .. }));
    fake.heard_times("/cancel", 1).await;
    // Upkeep deletes it as soon as nobody holds the handle.
    while fake.heard("DELETE /threads/X") == 0 {
        house.engine.worker().tidy().await;
    }
}

async fn only_approvers_of_the_server_may_answer(place: Place) {
    let fake = Fake::playing([ask(1), Step::Finish(json!({}))]).await;
    let mut settings = fake.settings();
    settings["approval"] = json!({"approversList": ["bob"]});
    let house = House::open(&place, settings).await;
    asked(house.start("g", "k", json!({})).await);
    let refused = house.answer("k", "r1", json!("yes")).await.unwrap_err();
    assert!(refused.to_string().contains("alice"), "{refused}");
    assert_eq!(fake.look(|world| world.answers.len()), 0);
    assert_eq!(asked(house.settled("k").await).1, json!({"round": 1}), "it still waits");
}
