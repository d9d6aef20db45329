//! Runs stored by a version in which `audience` was a restriction: they, their copies and their child runs keep it.

use holdpoint_engine::core::{ForkMode, Refusal, RunRef};
use holdpoint_engine::{Engine, Error};
use serde_json::json;

use crate::test_database::on_both;
use crate::test_env::child_of;
use crate::test_env::fork;
use crate::test_env::{TestEnv, accept, line};

on_both! {
    copies_of_older_runs_keep_the_restriction_by_audience,
    child_runs_of_older_runs_keep_the_restriction_by_audience,
    copies_and_child_runs_of_newer_runs_have_no_restriction,
}

/// Registers a gate whose audience does not contain alice, and a workflow that calls it after a gate of its own.
async fn register(env: &TestEnv) {
    let gate = json!({"title": "Go on?", "actions": ["accept"], "audience": {"subjects": ["bob"]}});
    let open = json!({"title": "Begin?", "actions": ["accept"]});
    let call = json!({"workflowId": "gated"});
    env.register(line("gated", &[("gate", "core.approvalGate", gate)])).await;
    let nodes = [("begin", "core.approvalGate", open), ("call", "core.subWorkflow", call)];
    env.register(line("calls", &nodes)).await;
}

/// Starts a run and removes its engine version, like a run of an older version.
async fn start_as_older_version(env: TestEnv, workflow: &str) -> (TestEnv, RunRef) {
    register(&env).await;
    let of = env.start(workflow).await;
    env.drain().await;
    let version = format!(",\"engine_version\":{}", Engine::VERSION);
    let sql = format!("UPDATE events SET events = REPLACE(events, '{version}', '')");
    env.database.execute(&sql).await.unwrap();
    let env = env.reopen(|options| options).await;
    let started = env.run(&of).await.started.clone().unwrap();
    assert_eq!(started.engine_version, None);
    (env, of)
}

/// Answers as Alice, who is not in the audience.
async fn answer_as_alice(env: &TestEnv, of: &RunRef) -> Result<(), Error> {
    env.answer(of, "gate", accept()).await.map(drop)
}

async fn assert_restricted(env: &TestEnv, of: &RunRef) {
    let answered = answer_as_alice(env, of).await;
    assert!(matches!(answered, Err(Error::Refused(Refusal::NotAnApprover(_)))), "{answered:?}");
}

async fn copies_of_older_runs_keep_the_restriction_by_audience(env: TestEnv) {
    let (env, of) = start_as_older_version(env, "gated").await;
    assert_restricted(&env, &of).await;
    let replay = fork(&env, &of, ForkMode::Replay, 0).await;
    let branch = fork(&env, &of, ForkMode::Branch, 1).await;
    let copy_of_copy = fork(&env, &branch, ForkMode::Branch, 1).await;
    env.drain().await;
    for copy in [replay, branch, copy_of_copy] {
        assert_restricted(&env, &copy).await;
    }
}

async fn child_runs_of_older_runs_keep_the_restriction_by_audience(env: TestEnv) {
    let (env, of) = start_as_older_version(env, "calls").await;
    env.answer(&of, "begin", accept()).await.unwrap();
    env.drain().await;
    assert_restricted(&env, &child_of(&of, 1)).await;
}

async fn copies_and_child_runs_of_newer_runs_have_no_restriction(env: TestEnv) {
    register(&env).await;
    let of = env.start("gated").await;
    env.drain().await;
    let copy = fork(&env, &of, ForkMode::Branch, 1).await;
    let parent = env.start("calls").await;
    env.answer(&parent, "begin", accept()).await.unwrap();
    env.drain().await;
    for free in [of, copy, child_of(&parent, 1)] {
        answer_as_alice(&env, &free).await.unwrap();
    }
}
