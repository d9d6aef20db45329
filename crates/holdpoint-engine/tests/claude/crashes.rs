//! Programs and nodes that die in the middle. A call that may have been made is not made again by itself.

use serde_json::{Value, json};

use crate::world::{Meeting, World, asks, said};

fn call(tool: &str) -> Value {
    json!([tool, {"command": "publish"}])
}

/// An agent in the middle of a call that was allowed.
async fn in_the_call(tool: &str, more: Value) -> (World, Meeting) {
    let meeting = Meeting::new().await;
    let steps = json!([{"calls": [call(tool)]}, {"text": "final: {results}"}]);
    let mut world = World::playing(json!({"meet_in_call": meeting.port(), "steps": steps}), more).await;
    world.start().await;
    world.begin_answer(json!({"decision": "edit", "input": {"command": "publish it"}})).await;
    (world, meeting)
}

#[tokio::test]
async fn a_call_that_was_cut_short_is_asked_about() {
    let (mut world, meeting) = in_the_call("Bash", json!({})).await;
    meeting.met().await.kill();
    let standing = world.settled().await;
    let (kind, data) = asks(&standing);
    assert_eq!(kind, "outcome_unknown");
    assert_eq!((&data["tool"], &data["input"]), (&json!("Bash"), &json!({"command": "publish it"})));
    assert_eq!(world.calls().len(), 1);
    let standing = world.answer(json!({"decision": "retry"})).await;
    assert_eq!(said(&standing), "final: made {\"command\": \"publish it\"}");
    assert_eq!(
        world.calls(),
        [json!(["Bash", {"command": "publish it"}]), json!(["Bash", {"command": "publish it"}])]
    );
}

#[tokio::test]
async fn whoever_does_not_repeat_it_tells_the_agent_that_nobody_knows() {
    let (mut world, meeting) = in_the_call("Bash", json!({})).await;
    meeting.met().await.kill();
    asks(&world.settled().await);
    let standing = world.answer(json!({"decision": "reject", "reason": "it is on the page"})).await;
    assert!(said(&standing).contains("whether it was made is unknown"), "{standing:?}");
    assert!(said(&standing).contains("it is on the page"), "{standing:?}");
    assert_eq!(world.calls().len(), 1);
}

#[tokio::test]
async fn a_retry_counts_once() {
    let meeting = Meeting::new().await;
    let steps = json!([{"calls": [call("Bash")]}, {"text": "final: {results}"}]);
    let script = json!({"meet_before": meeting.port(), "steps": steps});
    let mut world = World::playing(script, json!({})).await;
    world.start().await;
    world.begin_answer(json!({"decision": "approve"})).await;
    meeting.met().await.kill();
    assert_eq!(asks(&world.settled().await).0, "outcome_unknown");
    world.begin_answer(json!({"decision": "retry"})).await;
    meeting.met().await.kill();
    assert_eq!(asks(&world.settled().await).0, "outcome_unknown");
    world.begin_answer(json!({"decision": "retry"})).await;
    meeting.met().await.go_on().await;
    assert_eq!(said(&world.settled().await), "final: made {\"command\": \"publish\"}");
    assert_eq!(world.calls().len(), 1);
}

#[tokio::test]
async fn a_call_that_may_be_repeated_is() {
    let (world, meeting) = in_the_call("mcp__pub__publish", json!({"idempotent": ["mcp__pub__*"]})).await;
    meeting.met().await.kill();
    assert_eq!(said(&world.settled().await), "final: made {\"command\": \"publish it\"}");
    assert_eq!(world.calls().len(), 2);
}

#[tokio::test]
async fn a_node_that_dies_in_a_call_takes_its_program_along_and_the_next_one_asks() {
    let (mut world, meeting) = in_the_call("Bash", json!({"lockMs": 1000})).await;
    let met = meeting.met().await;
    world.die_and_go_on_in("sessions").await;
    met.hangs_up().await;
    assert_eq!(asks(&world.settled().await).0, "outcome_unknown");
    assert_eq!(world.calls().len(), 1);
}

#[tokio::test]
async fn a_node_that_dies_in_a_call_is_followed_by_one_elsewhere_that_asks() {
    let (mut world, meeting) = in_the_call("Bash", json!({"lockMs": 1000})).await;
    let met = meeting.met().await;
    world.die_and_go_on_in("elsewhere").await;
    met.hangs_up().await;
    assert_eq!(asks(&world.settled().await).0, "outcome_unknown");
    assert_eq!(world.calls().len(), 1);
}

#[tokio::test]
async fn whoever_has_lost_the_handle_allows_nothing() {
    let meeting = Meeting::new().await;
    let steps = json!([{"calls": [call("Bash")]}, {"text": "final: {results}"}]);
    let mut world =
        World::playing(json!({"meet_on_resume": meeting.port(), "steps": steps}), json!({})).await;
    world.start().await;
    world.begin_answer(json!({"decision": "approve"})).await;
    let met = meeting.met().await;
    world.take_lock(Some("another node"));
    // It asks whether it may, and is killed instead of being told.
    met.go_on_to_the_end().await;
    assert_eq!(world.calls(), [] as [Value; 0]);
    world.take_lock(None);
    meeting.met().await.go_on().await;
    assert_eq!(said(&world.settled().await), "final: made {\"command\": \"publish\"}");
    assert_eq!(world.calls().len(), 1);
}

#[tokio::test]
async fn whoever_loses_the_handle_in_a_call_kills_the_program() {
    let (world, meeting) = in_the_call("Bash", json!({"lockMs": 1000})).await;
    let met = meeting.met().await;
    world.take_lock(Some("another node"));
    met.hangs_up().await;
    world.take_lock(None);
    assert_eq!(asks(&world.settled().await).0, "outcome_unknown");
    assert_eq!(world.calls().len(), 1);
}

#[tokio::test]
async fn a_start_that_was_cut_short_goes_on_or_begins_anew() {
    for calls in [json!([]), json!([["mcp__files__read", {}]])] {
        let meeting = Meeting::new().await;
        let mut steps = vec![json!({"meet": meeting.port(), "once": "meet", "text": "hello"})];
        if calls != json!([]) {
            steps.insert(0, json!({"calls": calls}));
        }
        let mut world = World::playing(json!({"steps": steps}), json!({"ungated": ["mcp__files__*"]})).await;
        world.begin("key").await;
        meeting.met().await.kill();
        assert_eq!(said(&world.settled().await), "hello");
        // What was done in front of the crash is not done again.
        assert_eq!(world.calls().len(), calls.as_array().unwrap().len());
    }
}

#[tokio::test]
async fn a_conversation_that_is_gone_is_said_to_be() {
    let steps = json!([{"calls": [call("Bash")]}, {"text": "final"}]);
    let mut world = World::playing(json!({"steps": steps}), json!({})).await;
    world.start().await;
    let folder = world.folders("sessions").pop().unwrap();
    std::fs::remove_dir_all(folder.join("config/projects")).unwrap();
    let (code, _) = crate::world::troubled(&world.answer(json!({"decision": "approve"})).await);
    assert_eq!(code, "state_lost");
    assert_eq!(world.calls(), [] as [Value; 0]);
}
