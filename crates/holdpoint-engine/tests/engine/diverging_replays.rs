//! Replays that diverge from their source: a recorded answer applies only to the payload that it was given for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use holdpoint_engine::core::{Answer, Command, ForkMode, NodeId, Principal, RunRef};
use holdpoint_engine::{Context, Options, Outputs, PureNode, Stop};
use serde_json::{Value, json};

use crate::test_database::{TestDatabase, on_both};
use crate::test_env::fork;
use crate::test_env::{TestEnv, accept, graph, node};

on_both! {
    a_recorded_answer_does_not_resolve_a_changed_interrupt,
    a_changed_interrupt_does_not_keep_another_one_open,
    the_acting_principal_is_preserved_after_a_divergence,
}

/// A node with another output at every execution.
struct ChangingNode(Arc<AtomicU32>);

impl PureNode for ChangingNode {
    fn run(&self, _context: &mut Context) -> Result<Outputs, Stop> {
        let count = self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Outputs::from_iter([("sum".to_owned(), json!(count))]))
    }
}

fn with_changing_node(options: Options) -> Options {
    options.pure_node("test.changing", ChangingNode(Arc::default()))
}

fn edge(from: &str, to: &str) -> Value {
    json!({"id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to})
}

/// Starts a run with two gates after a changing node. Only one gate shows the output of the node.
async fn start_run(env: &TestEnv) -> RunRef {
    let mut shows = node("shows", "core.approvalGate", json!({"title": "Pay?", "actions": ["accept"]}));
    shows["inputs"] = json!({"artifact": {"type": "variable", "variableName": "sum"}});
    let plain = node("plain", "core.approvalGate", json!({"title": "Tell?", "actions": ["accept"]}));
    let nodes = [node("compute", "test.changing", json!({})), shows, plain];
    env.register(graph("changing", &nodes, &[edge("compute", "shows"), edge("compute", "plain")])).await;
    env.start("changing").await
}

async fn a_recorded_answer_does_not_resolve_a_changed_interrupt(database: TestDatabase) {
    let env = TestEnv::with(database, with_changing_node).await;
    let of = start_run(&env).await;
    env.answer(&of, "shows", accept()).await.unwrap();
    env.answer(&of, "plain", accept()).await.unwrap();
    assert_eq!(env.status(&of).await, "completed");
    let copy = fork(&env, &of, ForkMode::Replay, 0).await;
    let log = env.log(&copy).await;
    assert_eq!(log.iter().filter(|line| line.contains("replay.diverged")).count(), 1, "{log:#?}");
    assert_eq!(env.status(&copy).await, "waiting-approval", "{log:#?}");
    let run = env.run(&copy).await;
    let open: Vec<&str> = run.open_interrupts().map(|one| one.node.as_str()).collect();
    assert_eq!((open, env.pending().await), (vec!["shows"], vec!["shows".to_owned()]));
    // An approver can accept the new payload.
    env.answer(&copy, "shows", accept()).await.unwrap();
    assert_eq!(env.status(&copy).await, "completed");
}

async fn a_changed_interrupt_does_not_keep_another_one_open(database: TestDatabase) {
    let env = TestEnv::with(database, with_changing_node).await;
    let of = start_run(&env).await;
    env.answer(&of, "plain", accept()).await.unwrap();
    env.answer(&of, "shows", accept()).await.unwrap();
    let copy = env.run(&fork(&env, &of, ForkMode::Replay, 0).await).await;
    let answered: Vec<_> = copy.interrupts.iter().filter(|one| !one.is_open()).collect();
    assert_eq!(answered.len(), 1);
    assert_eq!(answered[0].node.as_str(), "plain");
}

async fn the_acting_principal_is_preserved_after_a_divergence(database: TestDatabase) {
    let env = TestEnv::with(database, with_changing_node).await;
    let of = start_run(&env).await;
    let value = json!({"action": "accept", "decidedBy": "ann"});
    let answer = Answer { acting_as: true, ..Answer::new(value, Principal::named("clerk")) };
    let command = Command::ResolveNode { node: NodeId::parse("plain").unwrap(), interrupt: None, answer };
    env.engine.runs().execute(&of, &command).await.unwrap();
    let copy = fork(&env, &of, ForkMode::Replay, 0).await;
    let log = env.log(&copy).await;
    assert!(log.iter().any(|line| line.contains("replay.diverged")), "{log:#?}");
    let resolved =
        log.iter().find(|line| line.contains("interrupt.resolved")).expect("the replay repeats the answer");
    let resolved: Value = serde_json::from_str(resolved).unwrap();
    assert_eq!(
        (&resolved["value"]["decidedBy"], &resolved["value"]["actedBy"]),
        (&json!("ann"), &json!("clerk"))
    );
}
