//! The times of forks: open gates and time limits start again, regardless of the age of the source.

use holdpoint_engine::core::{Event, ForkMode, NodeId, Refusal, RunRef, Timestamp};
use holdpoint_engine::{Error, PendingCursor, RunFilter};
use serde_json::{Value, json};

use crate::test_database::on_both;
use crate::test_env::fork;
use crate::test_env::{NOON, TestEnv, accept, line, node, tenant};

on_both! {
    a_branch_of_an_old_run_gets_the_full_timeout_of_its_gate,
    a_replay_of_a_waiting_run_gets_the_full_timeout_of_its_gate,
    a_branch_of_an_old_run_gets_the_full_time_limit,
    a_sleeping_branch_wakes_at_the_time_of_its_source_or_at_once,
    a_fork_is_listed_by_its_creation_time,
    artifacts_of_a_branch_carry_the_id_of_the_branch,
}

const DAY_MS: i64 = 86_400_000;

/// A gate with a timeout of 2 seconds in a run with a time limit of 5 seconds.
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

/// A completed run that is a day old, and the sequence of its answer.
async fn answered_run(env: &TestEnv, workflow: &str) -> (RunRef, u64) {
    let of = env.start(workflow).await;
    env.clock.advance(1000);
    env.answer(&of, "gate", accept()).await.unwrap();
    env.drain().await;
    assert_eq!(env.status(&of).await, "completed");
    env.clock.advance(DAY_MS);
    let at = env.log(&of).await.iter().position(|line| line.contains("interrupt.resolved")).unwrap();
    (of, at as u64)
}

async fn timers(env: &TestEnv) -> usize {
    env.database.read("SELECT run_id FROM timers").await.len()
}

async fn a_branch_of_an_old_run_gets_the_full_timeout_of_its_gate(env: TestEnv) {
    env.register(hurried()).await;
    let (of, answer) = answered_run(&env, "hurried").await;
    for from_seq in 0..=answer {
        let unanswered = fork(&env, &of, ForkMode::Branch, from_seq).await;
        let answered = fork(&env, &of, ForkMode::Branch, from_seq).await;
        let late = fork(&env, &of, ForkMode::Branch, from_seq).await;
        let due = env.engine.now().plus_ms(2000);
        env.drain().await;
        assert_eq!(env.status(&unanswered).await, "waiting-approval", "from {from_seq}");
        let gate = NodeId::parse("gate").unwrap();
        assert_eq!(env.run(&unanswered).await.interrupt_of_node(&gate).unwrap().expires_at(), Some(due));
        let pending = env.engine.interrupts().open(&tenant(), PendingCursor::default(), 10).await.unwrap();
        assert_eq!(pending.iter().map(|row| row.expires_at).collect::<Vec<_>>(), [Some(due); 3]);
        env.clock.advance(1999);
        assert_eq!(env.drain().await, 0, "the timeout has not passed");
        env.answer(&answered, "gate", accept()).await.unwrap();
        env.clock.advance(1);
        let refused = env.answer(&late, "gate", accept()).await;
        assert!(matches!(refused, Err(Error::Refused(Refusal::Expired))));
        env.drain().await;
        for (copy, status) in [(&unanswered, "failed"), (&late, "failed"), (&answered, "completed")] {
            assert_eq!(env.status(copy).await, status, "from {from_seq}");
        }
        assert!(env.log(&unanswered).await.join("\n").contains("interrupt.timed_out"));
        assert_eq!(timers(&env).await, 0);
    }
}

async fn a_replay_of_a_waiting_run_gets_the_full_timeout_of_its_gate(env: TestEnv) {
    env.register(hurried()).await;
    let of = env.start("hurried").await;
    env.clock.advance(1500);
    let copy = fork(&env, &of, ForkMode::Replay, 0).await;
    env.clock.advance(500);
    assert_eq!(env.drain().await, 1);
    assert_eq!((env.status(&of).await, env.status(&copy).await), ("failed", "waiting-approval"));
    env.clock.advance(1499);
    assert_eq!(env.drain().await, 0);
    env.clock.advance(1);
    assert_eq!(env.drain().await, 1);
    assert_eq!(env.status(&copy).await, "failed");
    // A replay repeats the timeout.
    for source in [&of, &copy] {
        let again = fork(&env, source, ForkMode::Replay, 0).await;
        assert_eq!(env.status(&again).await, "failed");
        assert_eq!(env.run(&again).await.updated_at, env.run(source).await.updated_at);
    }
    assert_eq!(timers(&env).await, 0);
}

async fn a_branch_of_an_old_run_gets_the_full_time_limit(env: TestEnv) {
    env.register(patient()).await;
    let (of, answer) = answered_run(&env, "patient").await;
    let copy = fork(&env, &of, ForkMode::Branch, answer).await;
    env.clock.advance(4999);
    assert_eq!(env.drain().await, 0);
    assert_eq!(env.status(&copy).await, "waiting-approval");
    env.clock.advance(1);
    assert_eq!(env.drain().await, 1);
    let log = env.log(&copy).await.join("\n");
    assert!(log.contains("run_timeout") && log.contains("\"observed\":5001"), "{log}");
    let quick = fork(&env, &of, ForkMode::Branch, answer).await;
    env.clock.advance(4999);
    env.answer(&quick, "gate", accept()).await.unwrap();
    assert_eq!(env.status(&quick).await, "completed");
    assert_eq!(timers(&env).await, 0);
}

async fn a_sleeping_branch_wakes_at_the_time_of_its_source_or_at_once(env: TestEnv) {
    env.register(line("sleepy", &[("nap", "core.delay", json!({"ms": 60_000}))])).await;
    let of = env.start("sleepy").await;
    let asleep = env.run(&of).await.seq;
    env.clock.advance(20_000);
    let early = fork(&env, &of, ForkMode::Branch, asleep).await;
    env.clock.advance(39_999);
    assert_eq!(env.drain().await, 0);
    env.clock.advance(1);
    assert_eq!(env.drain().await, 2, "both runs");
    assert_eq!(env.status(&early).await, "completed");
    env.clock.advance(DAY_MS);
    let overdue = fork(&env, &of, ForkMode::Branch, asleep).await;
    assert_eq!(env.status(&overdue).await, "running");
    assert_eq!(env.drain().await, 1);
    assert_eq!(env.status(&overdue).await, "completed");
    assert_eq!(timers(&env).await, 0);
}

async fn a_fork_is_listed_by_its_creation_time(env: TestEnv) {
    env.register(hurried()).await;
    let (of, answer) = answered_run(&env, "hurried").await;
    let made = env.engine.now();
    let branch = fork(&env, &of, ForkMode::Branch, answer).await;
    let replay = fork(&env, &of, ForkMode::Replay, 0).await;
    let since = RunFilter { created_from: Some(made), limit: 10, ..RunFilter::default() };
    let found = env.engine.runs().list(&tenant(), since).await.unwrap();
    let mut names: Vec<_> = found.iter().map(|one| &one.run).collect();
    names.sort();
    let mut expected = [&branch.run, &replay.run];
    expected.sort();
    assert_eq!(names, expected);
    assert!(found.iter().all(|one| one.created_at == made && one.updated_at >= made));
    let before = RunFilter { created_to: Some(made), limit: 10, ..RunFilter::default() };
    let found = env.engine.runs().list(&tenant(), before).await.unwrap();
    assert_eq!(found.iter().map(|one| &one.run).collect::<Vec<_>>(), [&of.run]);
    assert_eq!(env.run(&branch).await.begun_at(), made);
    assert_eq!(env.run(&replay).await.begun_at(), Timestamp(NOON));
}

/// The ids of artifacts in all events.
async fn artifacts(env: &TestEnv, of: &RunRef) -> Vec<String> {
    let events = env.engine.events().list(of, 0).await.unwrap();
    let name = |event: &Event| match event {
        Event::ArtifactCreated { artifact, .. } => Some(artifact.clone()),
        Event::InterruptRequested { data, .. } => data["artifactId"].as_str().map(str::to_owned),
        _ => None,
    };
    events.iter().filter_map(|one| name(&one.event)).collect()
}

async fn artifacts_of_a_branch_carry_the_id_of_the_branch(env: TestEnv) {
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
    env.register(flow).await;
    let of = env.start("making").await;
    env.answer(&of, "gate", accept()).await.unwrap();
    let source_ids = artifacts(&env, &of).await;
    let own = |run: &RunRef| -> Vec<String> {
        source_ids.iter().map(|name| name.replace(of.run.as_str(), run.run.as_str())).collect()
    };
    assert!(source_ids.len() >= 2, "{source_ids:?}");
    assert!(source_ids.iter().all(|name| name.starts_with(of.run.as_str())), "{source_ids:?}");
    for from_seq in 0..=env.run(&of).await.seq {
        let branch = fork(&env, &of, ForkMode::Branch, from_seq).await;
        if env.status(&branch).await == "waiting-approval" {
            env.answer(&branch, "gate", accept()).await.unwrap();
        }
        env.drain().await;
        assert_eq!(artifacts(&env, &branch).await, own(&branch), "from {from_seq}");
        // Replays keep the ids that the branch assigned.
        let replay = fork(&env, &branch, ForkMode::Replay, from_seq).await;
        let again = fork(&env, &replay, ForkMode::Replay, 0).await;
        for copy in [&replay, &again] {
            assert_eq!(artifacts(&env, copy).await, own(&branch), "from {from_seq}");
            assert!(!env.run(copy).await.diverged);
        }
        let all = env.run(&again).await.seq;
        let apart = fork(&env, &again, ForkMode::Branch, all).await;
        assert_eq!(artifacts(&env, &apart).await, own(&apart));
    }
}
