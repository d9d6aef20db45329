//! Nodes that share a database: what one knows of a run may be behind what another has written, and that shows nowhere.

use holdpoint_engine::core::{Answer, Command, Drain, Refusal, RunRef};
use holdpoint_engine::{Engine, Error, Recorded};
use serde_json::json;

use crate::house::{House, accept, alice, gated, resolve};
use crate::place::Place;
use crate::receipts::{once, run_words};

/// Two nodes; the first has begun a run that waits, and knows it as it was then.
async fn two_nodes() -> (House, Engine, RunRef) {
    let house = House::with(Place::postgres().await, |options| options).await;
    let other = house.second_engine(|options| options).await;
    house.register(gated("gated")).await;
    let of = house.start("gated").await;
    (house, other, of)
}

async fn followed(engine: &Engine, of: &RunRef) -> Vec<Recorded> {
    let mut log: Vec<Recorded> = Vec::new();
    loop {
        let part = engine.follow(of, log.len() as u64).await.unwrap();
        if part.is_empty() {
            return log;
        }
        log.extend(part);
    }
}

#[tokio::test]
async fn an_answer_that_another_node_has_taken_counts_here_too() {
    let (house, other, of) = two_nodes().await;
    let asked = house.run(&of).await.waiting_on().unwrap().id;
    other.execute(&of, &resolve(asked, accept())).await.unwrap();
    let late = house.engine.execute(&of, &resolve(asked, json!({"action": "reject"}))).await;
    assert!(matches!(late, Err(Error::Refused(Refusal::AlreadyResolved))), "{late:?}");
    assert_eq!(house.status(&of).await, "completed");
}

#[tokio::test]
async fn a_log_that_two_nodes_have_written_is_read_whole_at_each() {
    let (house, other, of) = two_nodes().await;
    let asked = house.run(&of).await.waiting_on().unwrap().id;
    let pause = |drain| Command::Pause { reason: None, drain, by: alice() };
    other.execute(&of, &pause(Drain::DrainCurrentNode)).await.unwrap();
    // Which this node has not heard of, and would refuse for that.
    house.engine.execute(&of, &Command::Resume { by: alice() }).await.unwrap();
    other.execute(&of, &resolve(asked, accept())).await.unwrap();
    let stored = house.engine.events(&of, 0).await.unwrap();
    assert_eq!(followed(&house.engine, &of).await, stored);
    assert_eq!(followed(&other, &of).await, stored);
    assert_eq!(house.status(&of).await, "completed");
}

#[tokio::test]
async fn what_was_decided_before_is_done_once_under_each_key() {
    let (house, other, of) = two_nodes().await;
    let asked = house.run(&of).await.waiting_on().unwrap().id;
    let answer = Answer { decision: Some("d1".to_owned()), ..Answer::new(accept(), alice()) };
    let resolve = Command::Resolve { answers: [(asked, answer)].into() };
    other.execute(&of, &resolve).await.unwrap();
    // The same decision again, at a node that has not heard of it and then at one that has, by somebody who never got
    // the answer.
    for key in ["key-1", "key-2"] {
        let (once, resolve) = (once(key, run_words), std::slice::from_ref(&resolve));
        house.engine.execute_once(&of, resolve, Some(&once)).await.unwrap();
        let again = house.engine.execute_once(&of, resolve, Some(&once)).await;
        assert!(matches!(again, Err(Error::Duplicate(_))), "{again:?}");
    }
}
