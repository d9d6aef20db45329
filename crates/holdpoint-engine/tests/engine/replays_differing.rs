//! Replays that come to something else than their source: an answer counts for what it was given to, and for nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use holdpoint_engine::core::{Answer, Command, ForkMode, NodeId, Principal, RunRef};
use holdpoint_engine::{Context, Options, Outputs, PureNode, Stop};
use serde_json::{Value, json};

use crate::forks::fork;
use crate::house::{House, accept, graph, node};
use crate::place::{Place, on_both};

on_both! {
    an_answer_from_the_record_is_not_given_to_another_question,
    a_question_that_stays_open_keeps_no_other_one_open,
    who_spoke_for_whom_is_the_same_after_a_difference,
}

/// Says something else every time it is asked.
struct Fickle(Arc<AtomicU32>);

impl PureNode for Fickle {
    fn run(&self, _context: &mut Context) -> Result<Outputs, Stop> {
        let said = self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Outputs::from_iter([("sum".to_owned(), json!(said))]))
    }
}

fn fickle(options: Options) -> Options {
    options.pure_node("test.fickle", Fickle(Arc::default()))
}

fn edge(from: &str, to: &str) -> Value {
    json!({"id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to})
}

/// A sum that is worked out differently each time; a gate that shows it, beside one that does not.
async fn asked(house: &House) -> RunRef {
    let mut shows = node("shows", "core.approvalGate", json!({"title": "Pay?", "actions": ["accept"]}));
    shows["inputs"] = json!({"artifact": {"type": "variable", "variableName": "sum"}});
    let plain = node("plain", "core.approvalGate", json!({"title": "Tell?", "actions": ["accept"]}));
    let nodes = [node("say", "test.fickle", json!({})), shows, plain];
    house.register(graph("fickle", &nodes, &[edge("say", "shows"), edge("say", "plain")])).await;
    house.start("fickle").await
}

async fn an_answer_from_the_record_is_not_given_to_another_question(place: Place) {
    let house = House::with(place, fickle).await;
    let of = asked(&house).await;
    house.answer(&of, "shows", accept()).await.unwrap();
    house.answer(&of, "plain", accept()).await.unwrap();
    assert_eq!(house.status(&of).await, "completed");
    let copy = fork(&house, &of, ForkMode::Replay, 0).await;
    let log = house.log(&copy).await;
    assert_eq!(log.iter().filter(|line| line.contains("replay.diverged")).count(), 1, "{log:#?}");
    assert_eq!(house.status(&copy).await, "waiting-approval", "{log:#?}");
    let run = house.run(&copy).await;
    let open: Vec<&str> = run.open_interrupts().map(|one| one.node.as_str()).collect();
    assert_eq!((open, house.pending().await), (vec!["shows"], vec!["shows".to_owned()]));
    // Whoever sees what is shown now may say yes to it.
    house.answer(&copy, "shows", accept()).await.unwrap();
    assert_eq!(house.status(&copy).await, "completed");
}

async fn a_question_that_stays_open_keeps_no_other_one_open(place: Place) {
    let house = House::with(place, fickle).await;
    let of = asked(&house).await;
    house.answer(&of, "plain", accept()).await.unwrap();
    house.answer(&of, "shows", accept()).await.unwrap();
    let copy = house.run(&fork(&house, &of, ForkMode::Replay, 0).await).await;
    let answered: Vec<_> = copy.interrupts.iter().filter(|one| !one.is_open()).collect();
    assert_eq!(answered.len(), 1);
    assert_eq!(answered[0].node.as_str(), "plain");
}

async fn who_spoke_for_whom_is_the_same_after_a_difference(place: Place) {
    let house = House::with(place, fickle).await;
    let of = asked(&house).await;
    let value = json!({"action": "accept", "decidedBy": "ann"});
    let answer = Answer { acting_as: true, ..Answer::new(value, Principal::named("clerk")) };
    let command = Command::ResolveNode { node: NodeId::parse("plain").unwrap(), interrupt: None, answer };
    house.engine.execute(&of, &command).await.unwrap();
    let copy = fork(&house, &of, ForkMode::Replay, 0).await;
    let log = house.log(&copy).await;
    assert!(log.iter().any(|line| line.contains("replay.diverged")), "{log:#?}");
    let resolved = log.iter().find(|line| line.contains("interrupt.resolved")).expect("it is answered again");
    let resolved: Value = serde_json::from_str(resolved).unwrap();
    assert_eq!(
        (&resolved["value"]["decidedBy"], &resolved["value"]["actedBy"]),
        (&json!("ann"), &json!("clerk"))
    );
}
