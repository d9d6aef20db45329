//! How many programs there are at a time, and that none is left.

use serde_json::json;

use crate::world::{Meeting, World, said, tenant, troubled};

#[tokio::test]
async fn programs_wait_for_a_place_as_long_as_their_turn_lasts() {
    let meeting = Meeting::new().await;
    let script = json!({"steps": [{"meet": meeting.port(), "text": "done"}]});
    let mut world = World::playing(script, json!({"processesMax": 1, "turnMs": 1500})).await;
    let first = world.begin("first").await;
    let met = meeting.met().await;
    world.begin("second").await;
    let (code, message) = troubled(&world.settled().await);
    assert_eq!(code, "provider_timeout");
    assert!(message.contains("processesMax"), "{message}");
    assert_eq!(world.lines("starts.jsonl").len(), 1);
    drop(met);
    world.of = Some(first);
    world.settled().await;
}

#[tokio::test]
async fn the_next_program_begins_when_a_place_is_free() {
    let meeting = Meeting::new().await;
    let script = json!({"steps": [{"meet": meeting.port(), "text": "done"}]});
    let mut world = World::playing(script, json!({"processesMax": 1})).await;
    let first = world.begin("first").await;
    let met = meeting.met().await;
    world.begin("second").await;
    met.go_on().await;
    meeting.met().await.go_on().await;
    assert_eq!(said(&world.settled().await), "done");
    world.of = Some(first);
    assert_eq!(said(&world.settled().await), "done");
}

#[tokio::test]
async fn a_cancelled_run_leaves_no_program_and_then_no_folder() {
    let meeting = Meeting::new().await;
    let script = json!({"stubborn": true, "steps": [{"meet": meeting.port(), "text": "done"}]});
    let mut world = World::playing(script, json!({})).await;
    world.begin("key").await;
    let met = meeting.met().await;
    assert_eq!(world.folders("sessions").len(), 1);
    world.cancel().await;
    met.hangs_up().await;
    // Whoever looks at what is over sees to its end.
    while !world.folders("sessions").is_empty() {
        world.engine().handle(&tenant(), "key").await.unwrap();
        tokio::task::yield_now().await;
    }
}
