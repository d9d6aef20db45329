//! Programs that misbehave: each trouble has a word of its own, and who was to answer still can, where that helps.

use std::time::{Duration, Instant};

use holdpoint_engine::Standing;
use serde_json::{Value, json};

use crate::world::{World, asks, said, troubled};

fn bash() -> Value {
    json!(["Bash", {"command": "publish"}])
}

async fn after_approval(trouble: Value, more: Value) -> (World, Standing) {
    let script = json!({"steps": [{"calls": [bash()]}, trouble, {"text": "final: {results}"}]});
    let mut world = World::playing(script, more).await;
    asks(&world.start().await);
    let standing = world.answer(json!({"decision": "approve"})).await;
    (world, standing)
}

#[tokio::test]
async fn failures_of_the_models_api_are_told_apart() {
    for (status, code, starts) in [
        (json!(401), "provider_auth", 1),
        (json!(400), "provider_rejected", 1),
        (json!(429), "provider_unreachable", 3),
        (json!(null), "provider_unreachable", 3),
    ] {
        let mut world = World::playing(json!({"steps": [{"api": status}]}), json!({})).await;
        let (found, message) = troubled(&world.start().await);
        assert_eq!(found, code, "{status}: {message}");
        assert_eq!(world.lines("starts.jsonl").len(), starts, "{status}");
    }
}

#[tokio::test]
async fn an_overloaded_api_after_the_call_does_not_make_the_call_again() {
    let (mut world, standing) = after_approval(json!({"api": 529}), json!({})).await;
    let (code, message) = troubled(&standing);
    assert_eq!(code, "provider_unreachable");
    assert!(message.contains("the decision was carried out"), "{message}");
    world.rewrite(json!({"steps": [{"calls": [bash()]}, {"text": "final: {results}"}]}));
    // Too late for a no: what was done is done.
    let standing = world.answer(json!({"decision": "reject"})).await;
    assert_eq!(said(&standing), "final: made {\"command\": \"publish\"}");
    assert_eq!(world.calls().len(), 1);
}

#[tokio::test]
async fn an_overload_that_passes_is_not_noticed() {
    let script = json!({"steps": [{"api": 529, "once": "start", "calls": [bash()]},
        {"api": 529, "once": "end", "text": "final: {results}"}]});
    let mut world = World::playing(script, json!({})).await;
    asks(&world.start().await);
    let standing = world.answer(json!({"decision": "approve"})).await;
    assert_eq!(said(&standing), "final: made {\"command\": \"publish\"}");
    assert_eq!(world.calls().len(), 1);
}

#[tokio::test]
async fn a_program_that_ends_without_a_result_is_tried_again_and_then_told_of() {
    let (mut world, standing) = after_approval(json!({"exit": 3}), json!({})).await;
    let (code, message) = troubled(&standing);
    assert_eq!(code, "provider_crashed");
    assert!(message.contains("broken at … in …"), "{message}");
    assert_eq!(world.calls().len(), 1);
    world.rewrite(json!({"steps": [{"calls": [bash()]}, {"text": "final: {results}"}]}));
    let standing = world.answer(json!({"decision": "approve"})).await;
    assert_eq!(said(&standing), "final: made {\"command\": \"publish\"}");
    assert_eq!(world.calls().len(), 1);
}

#[tokio::test]
async fn a_tool_that_is_gone_leaves_the_call_waiting() {
    let script = json!({"steps": [{"calls": [bash()]}, {"text": "final: {results}"}], "unavailable": true});
    let mut world = World::playing(script, json!({})).await;
    world.start().await;
    let standing = world.answer(json!({"decision": "approve"})).await;
    assert_eq!(troubled(&standing).0, "provider_misconfigured");
    let standing = world.answer(json!({"decision": "approve"})).await;
    assert_eq!(said(&standing), "final: made {\"command\": \"publish\"}");
}

#[tokio::test]
async fn another_version_than_the_pinned_one_is_not_used_until_it_is_there() {
    let script =
        |version: &str| json!({"version": version, "steps": [{"calls": [bash()]}, {"text": "done"}]});
    let mut world = World::playing(script("2.1.325"), json!({"version": "2.1.325"})).await;
    asks(&world.start().await);
    world.rewrite(script("2.2.0"));
    let (code, message) = troubled(&world.answer(json!({"decision": "approve"})).await);
    assert_eq!(code, "provider_version");
    assert!(message.contains("2.2.0") && message.contains("2.1.325"), "{message}");
    assert_eq!(world.lines("starts.jsonl").len(), 1);
    world.rewrite(script("2.1.325"));
    assert_eq!(said(&world.answer(json!({"decision": "approve"})).await), "done");
}

#[tokio::test]
async fn a_version_that_cannot_put_calls_off_is_not_used() {
    let mut world = World::playing(json!({"version": "2.1.88", "steps": [{"text": "x"}]}), json!({})).await;
    assert_eq!(troubled(&world.start().await).0, "provider_version");
}

#[tokio::test]
async fn a_program_that_is_not_there_is_the_operators_mistake() {
    let mut world = World::playing(json!({"steps": []}), json!({"binary": "nowhere/claude"})).await;
    let (code, message) = troubled(&world.start().await);
    assert_eq!(code, "provider_misconfigured");
    assert!(!message.contains("nowhere"), "{message}");
}

#[tokio::test]
async fn a_program_that_does_not_take_the_hook_is_stopped() {
    let mut world = World::playing(json!({"no_gate": true, "steps": [{"text": "x"}]}), json!({})).await;
    assert_eq!(troubled(&world.start().await).0, "provider_version");
}

#[tokio::test]
async fn what_nobody_knows_is_answered_with_an_error_and_noise_is_ignored() {
    let script = json!({"steps": [{"garbage": true, "ask": "dance", "text": "final"}]});
    let mut world = World::playing(script, json!({})).await;
    assert_eq!(said(&world.start().await), "final");
    assert_eq!(world.lines("asked.jsonl")[0]["subtype"], "error");
}

#[tokio::test]
async fn a_line_without_end_is_cut() {
    let mut world = World::playing(json!({"steps": [{"endless": "line"}]}), json!({})).await;
    let (code, message) = troubled(&world.start().await);
    assert_eq!(
        (code.as_str(), message.as_str()),
        ("provider_crashed", "the agent's program said more than is taken")
    );
}

#[tokio::test]
async fn lines_without_end_are_cut() {
    let mut world = World::playing(json!({"steps": [{"endless": "lines"}]}), json!({})).await;
    assert_eq!(troubled(&world.start().await).0, "provider_crashed");
}

#[tokio::test]
async fn a_program_that_waits_for_nothing_is_not_waited_for() {
    let script = json!({"deaf_on_resume": true, "steps": [{"calls": [bash()]}, {"text": "done"}]});
    let mut world = World::playing(script, json!({})).await;
    asks(&world.start().await);
    world.set(json!({"firstEventMs": 300}));
    world.move_to("sessions").await;
    let (code, message) = troubled(&world.answer(json!({"decision": "approve"})).await);
    assert_eq!(code, "provider_timeout");
    assert!(message.contains("said nothing"), "{message}");
    assert_eq!(world.calls(), [] as [Value; 0]);
    world.rewrite(json!({"steps": [{"calls": [bash()]}, {"text": "done"}]}));
    world.set(json!({"firstEventMs": 15_000}));
    world.move_to("sessions").await;
    assert_eq!(said(&world.answer(json!({"decision": "approve"})).await), "done");
}

#[tokio::test]
async fn a_program_that_does_not_end_in_time_is_asked_told_and_killed() {
    let script = json!({"stubborn": true, "steps": [{"hang": true}]});
    let mut world = World::playing(script, json!({"turnMs": 1000})).await;
    let began = Instant::now();
    let (code, _) = troubled(&world.start().await);
    assert_eq!(code, "provider_timeout");
    let took = began.elapsed();
    assert!(took > Duration::from_secs(10) && took < Duration::from_secs(40), "{took:?}");
    let pid = world.lines("starts.jsonl")[0]["pid"].to_string();
    assert!(!std::path::Path::new("/proc").join(pid).exists());
}
