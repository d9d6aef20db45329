//! Nodes with outdated caches: a node accepts and reads changes that another node has committed.

use holdpoint_engine::core::{Answer, Command, Drain, Refusal, RunRef};
use holdpoint_engine::{Engine, Error, RecordedEvent};
use serde_json::json;

use crate::receipts::{once, run_response};
use crate::test_database::TestDatabase;
use crate::test_env::{TestEnv, accept, alice, gated, resolve};

/// Two nodes and a waiting run that the first node has started and cached.
async fn two_nodes() -> (TestEnv, Engine, RunRef) {
    let env = TestEnv::with(TestDatabase::postgres().await, |options| options).await;
    let other = env.second_engine(|options| options).await;
    env.register(gated("gated")).await;
    let of = env.start("gated").await;
    (env, other, of)
}

async fn follow_all(engine: &Engine, of: &RunRef) -> Vec<RecordedEvent> {
    let mut log: Vec<RecordedEvent> = Vec::new();
    loop {
        let part = engine.events().follow(of, log.len() as u64).await.unwrap();
        if part.is_empty() {
            return log;
        }
        log.extend(part);
    }
}

#[tokio::test]
async fn an_answer_accepted_by_another_node_is_final() {
    let (env, other, of) = two_nodes().await;
    let interrupt = env.run(&of).await.waiting_on().unwrap().id;
    other.runs().execute(&of, &resolve(interrupt, accept())).await.unwrap();
    let late = env.engine.runs().execute(&of, &resolve(interrupt, json!({"action": "reject"}))).await;
    assert!(matches!(late, Err(Error::Refused(Refusal::AlreadyResolved))), "{late:?}");
    assert_eq!(env.status(&of).await, "completed");
}

#[tokio::test]
async fn a_log_written_by_two_nodes_is_complete_at_each() {
    let (env, other, of) = two_nodes().await;
    let interrupt = env.run(&of).await.waiting_on().unwrap().id;
    let pause = |drain| Command::Pause { reason: None, drain, by: alice() };
    other.runs().execute(&of, &pause(Drain::DrainCurrentNode)).await.unwrap();
    // The cache of this node does not contain the pause.
    env.engine.runs().execute(&of, &Command::Resume { by: alice() }).await.unwrap();
    other.runs().execute(&of, &resolve(interrupt, accept())).await.unwrap();
    let stored = env.engine.events().list(&of, 0).await.unwrap();
    assert_eq!(follow_all(&env.engine, &of).await, stored);
    assert_eq!(follow_all(&other, &of).await, stored);
    assert_eq!(env.status(&of).await, "completed");
}

#[tokio::test]
async fn a_repeated_decision_leaves_a_receipt_under_each_key() {
    let (env, other, of) = two_nodes().await;
    let interrupt = env.run(&of).await.waiting_on().unwrap().id;
    let answer = Answer { decision: Some("d1".to_owned()), ..Answer::new(accept(), alice()) };
    let resolve = Command::Resolve { answers: [(interrupt, answer)].into() };
    other.runs().execute(&of, &resolve).await.unwrap();
    // A caller without a response repeats the decision: first at a node with an outdated cache, then at an updated one.
    for key in ["key-1", "key-2"] {
        let (once, resolve) = (once(key, run_response), std::slice::from_ref(&resolve));
        env.engine.runs().execute_once(&of, resolve, Some(&once)).await.unwrap();
        let again = env.engine.runs().execute_once(&of, resolve, Some(&once)).await;
        assert!(matches!(again, Err(Error::Duplicate(_))), "{again:?}");
    }
}
