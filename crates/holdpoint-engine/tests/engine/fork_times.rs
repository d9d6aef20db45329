//! When forks happen: what they take over has its whole time again, however old their source is.

use holdpoint_engine::core::{Event, ForkMode, NodeId, Refusal, RunRef, Timestamp};
use holdpoint_engine::{Error, PendingCursor, RunFilter};
use serde_json::{Value, json};

use crate::forks::fork;
use crate::house::{House, NOON, accept, line, node, tenant};
use crate::place::on_both;

on_both! {
    a_branch_of_an_old_run_has_the_whole_time_of_its_gate,
    a_replay_of_a_run_that_waits_has_the_whole_time_of_its_gate,
    a_branch_of_an_old_run_has_the_whole_time_of_its_limit,
    a_branch_wakes_when_its_source_would_have_or_at_once,
    a_fork_is_listed_by_when_it_was_made,
    what_a_branch_makes_and_takes_over_carries_its_own_name,
}

const DAY_MS: i64 = 86_400_000;

/// A gate that waits for 2 seconds, in a run that may take 5.
fn hurried() -> Value {
    let gate = json!({"title": "Quick?", "actions": ["accept"], "timeoutMs": 2000});
    let mut flow = line("hurried", &[("gate", "core.approvalGate", gate), ("after", "core.noop", json!({}))]);
    flow["settings"] = json!({"timeout": 5000});
    flow
}

fn patient() -> Value {
    let gate = json!({"title": "ok?", "actions": ["accept"]});
    let mut flow = line("patient", &[("gate", "core.approvalGate", gate), ("after", "core.noop", json!({}))]);
    flow["settings"] = json!({"timeout": 5000});
    flow
}

/// A run whose gate was answered after a second, a day later; and the number of the answer.
async fn answered(house: &House, workflow: &str) -> (RunRef, u64) {
    let of = house.start(workflow).await;
    house.clock.advance(1000);
    house.answer(&of, "gate", accept()).await.unwrap();
    house.drain().await;
    assert_eq!(house.status(&of).await, "completed");
    house.clock.advance(DAY_MS);
    let at = house.log(&of).await.iter().position(|line| line.contains("interrupt.resolved")).unwrap();
    (of, at as u64)
}

async fn timers(house: &House) -> usize {
    house.place.read("SELECT run_id FROM timers").await.len()
}

async fn a_branch_of_an_old_run_has_the_whole_time_of_its_gate(house: House) {
    house.register(hurried()).await;
    let (of, answer) = answered(&house, "hurried").await;
    for from_seq in 0..=answer {
        let silent = fork(&house, &of, ForkMode::Branch, from_seq).await;
        let heard = fork(&house, &of, ForkMode::Branch, from_seq).await;
        let late = fork(&house, &of, ForkMode::Branch, from_seq).await;
        let due = house.engine.now().plus_ms(2000);
        house.drain().await;
        assert_eq!(house.status(&silent).await, "waiting-approval", "from {from_seq}");
        let gate = NodeId::parse("gate").unwrap();
        assert_eq!(house.run(&silent).await.interrupt_of_node(&gate).unwrap().expires_at(), Some(due));
        let pending = house.engine.pending(&tenant(), PendingCursor::default(), 10).await.unwrap();
        assert_eq!(pending.iter().map(|row| row.expires_at).collect::<Vec<_>>(), [Some(due); 3]);
        house.clock.advance(1999);
        assert_eq!(house.drain().await, 0, "not yet");
        house.answer(&heard, "gate", accept()).await.unwrap();
        house.clock.advance(1);
        let refused = house.answer(&late, "gate", accept()).await;
        assert!(matches!(refused, Err(Error::Refused(Refusal::Expired))));
        house.drain().await;
        for (copy, status) in [(&silent, "failed"), (&late, "failed"), (&heard, "completed")] {
            assert_eq!(house.status(copy).await, status, "from {from_seq}");
        }
        assert!(house.log(&silent).await.join("\n").contains("interrupt.timed_out"));
        assert_eq!(timers(&house).await, 0);
    }
}

async fn a_replay_of_a_run_that_waits_has_the_whole_time_of_its_gate(house: House) {
    house.register(hurried()).await;
    let of = house.start("hurried").await;
    house.clock.advance(1500);
    let copy = fork(&house, &of, ForkMode::Replay, 0).await;
    house.clock.advance(500);
    assert_eq!(house.drain().await, 1);
    assert_eq!((house.status(&of).await, house.status(&copy).await), ("failed", "waiting-approval"));
    house.clock.advance(1499);
    assert_eq!(house.drain().await, 0);
    house.clock.advance(1);
    assert_eq!(house.drain().await, 1);
    assert_eq!(house.status(&copy).await, "failed");
    // Told again, silence is what it was: a fact.
    for source in [&of, &copy] {
        let again = fork(&house, source, ForkMode::Replay, 0).await;
        assert_eq!(house.status(&again).await, "failed");
        assert_eq!(house.run(&again).await.updated_at, house.run(source).await.updated_at);
    }
    assert_eq!(timers(&house).await, 0);
}

async fn a_branch_of_an_old_run_has_the_whole_time_of_its_limit(house: House) {
    house.register(patient()).await;
    let (of, answer) = answered(&house, "patient").await;
    let copy = fork(&house, &of, ForkMode::Branch, answer).await;
    house.clock.advance(4999);
    assert_eq!(house.drain().await, 0);
    assert_eq!(house.status(&copy).await, "waiting-approval");
    house.clock.advance(1);
    assert_eq!(house.drain().await, 1);
    let log = house.log(&copy).await.join("\n");
    assert!(log.contains("run_timeout") && log.contains("\"observed\":5001"), "{log}");
    let quick = fork(&house, &of, ForkMode::Branch, answer).await;
    house.clock.advance(4999);
    house.answer(&quick, "gate", accept()).await.unwrap();
    assert_eq!(house.status(&quick).await, "completed");
    assert_eq!(timers(&house).await, 0);
}

async fn a_branch_wakes_when_its_source_would_have_or_at_once(house: House) {
    house.register(line("sleepy", &[("nap", "core.delay", json!({"ms": 60_000}))])).await;
    let of = house.start("sleepy").await;
    let asleep = house.run(&of).await.seq;
    house.clock.advance(20_000);
    let early = fork(&house, &of, ForkMode::Branch, asleep).await;
    house.clock.advance(39_999);
    assert_eq!(house.drain().await, 0);
    house.clock.advance(1);
    assert_eq!(house.drain().await, 2, "both");
    assert_eq!(house.status(&early).await, "completed");
    house.clock.advance(DAY_MS);
    let overdue = fork(&house, &of, ForkMode::Branch, asleep).await;
    assert_eq!(house.status(&overdue).await, "running");
    assert_eq!(house.drain().await, 1);
    assert_eq!(house.status(&overdue).await, "completed");
    assert_eq!(timers(&house).await, 0);
}

async fn a_fork_is_listed_by_when_it_was_made(house: House) {
    house.register(hurried()).await;
    let (of, answer) = answered(&house, "hurried").await;
    let made = house.engine.now();
    let branch = fork(&house, &of, ForkMode::Branch, answer).await;
    let replay = fork(&house, &of, ForkMode::Replay, 0).await;
    let since = RunFilter { created_from: Some(made), limit: 10, ..RunFilter::default() };
    let found = house.engine.runs(&tenant(), since).await.unwrap();
    let mut names: Vec<_> = found.iter().map(|one| &one.run).collect();
    names.sort();
    let mut expected = [&branch.run, &replay.run];
    expected.sort();
    assert_eq!(names, expected);
    assert!(found.iter().all(|one| one.created_at == made && one.updated_at >= made));
    let before = RunFilter { created_to: Some(made), limit: 10, ..RunFilter::default() };
    let found = house.engine.runs(&tenant(), before).await.unwrap();
    assert_eq!(found.iter().map(|one| &one.run).collect::<Vec<_>>(), [&of.run]);
    assert_eq!(house.run(&branch).await.begun_at(), made);
    assert_eq!(house.run(&replay).await.begun_at(), Timestamp(NOON));
}

/// The names of artifacts, wherever they are told.
async fn artifacts(house: &House, of: &RunRef) -> Vec<String> {
    let events = house.engine.events(of, 0).await.unwrap();
    let name = |event: &Event| match event {
        Event::ArtifactCreated { artifact, .. } => Some(artifact.clone()),
        Event::InterruptRequested { data, .. } => data["artifactId"].as_str().map(str::to_owned),
        _ => None,
    };
    events.iter().filter_map(|one| name(&one.event)).collect()
}

async fn what_a_branch_makes_and_takes_over_carries_its_own_name(house: House) {
    let mut flow = line(
        "making",
        &[
            ("draft", "core.noop", json!({})),
            ("gate", "core.approvalGate", json!({"title": "ok?", "actions": ["accept"]})),
            ("final", "core.noop", json!({})),
        ],
    );
    for place in [0, 2] {
        flow["nodes"][place] = node(["draft", "", "final"][place], "core.noop", json!({}));
        flow["nodes"][place]["artifactType"] = json!("text");
    }
    house.register(flow).await;
    let of = house.start("making").await;
    house.answer(&of, "gate", accept()).await.unwrap();
    let told = artifacts(&house, &of).await;
    let own = |run: &RunRef| -> Vec<String> {
        told.iter().map(|name| name.replace(of.run.as_str(), run.run.as_str())).collect()
    };
    assert!(told.len() >= 2 && told.iter().all(|name| name.starts_with(of.run.as_str())), "{told:?}");
    for from_seq in 0..=house.run(&of).await.seq {
        let branch = fork(&house, &of, ForkMode::Branch, from_seq).await;
        if house.status(&branch).await == "waiting-approval" {
            house.answer(&branch, "gate", accept()).await.unwrap();
        }
        house.drain().await;
        assert_eq!(artifacts(&house, &branch).await, own(&branch), "from {from_seq}");
        // Told again, and again, they have the name that the branch gave them.
        let replay = fork(&house, &branch, ForkMode::Replay, from_seq).await;
        let again = fork(&house, &replay, ForkMode::Replay, 0).await;
        for copy in [&replay, &again] {
            assert_eq!(artifacts(&house, copy).await, own(&branch), "from {from_seq}");
            assert!(!house.run(copy).await.diverged);
        }
        let all = house.run(&again).await.seq;
        let apart = fork(&house, &again, ForkMode::Branch, all).await;
        assert_eq!(artifacts(&house, &apart).await, own(&apart));
    }
}
