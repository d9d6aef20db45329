//! Gates with all inputs open before effects start. Runs that were recorded in another order continue.

use holdpoint_engine::core::{ForkMode, InterruptRequest, Kind, RunRef};
use holdpoint_engine::{Context, EffectContext, Node, Options, Outputs, PureNode, Stop};
use serde_json::{Value, json};

use crate::effects::{Shop, with_shop};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::fork;
use crate::test_env::{TestEnv, accept, graph, node};

on_both! {
    a_gate_beside_an_effect_opens_before_any_worker_starts,
    an_answered_gate_completes_before_the_effect_starts,
    a_gate_with_missing_inputs_opens_in_its_turn,
    a_replay_follows_the_recorded_order_of_older_versions,
}

/// A gate that opens early or in its turn.
struct Gate {
    early: bool,
}

impl PureNode for Gate {
    fn is_gate(&self) -> bool {
        self.early
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        context.interrupt(InterruptRequest::new(Kind::Custom, json!({"customKind": "go"})))?;
        Ok(Outputs::new())
    }
}

fn with_gate(early: bool) -> impl FnOnce(Options) -> Options {
    move |options| with_shop(&Shop::default())(options).pure_node("test.gate", Gate { early })
}

/// An effect without an interrupt.
struct Quick;

impl Node for Quick {
    async fn run(&self, _context: &mut EffectContext) -> Result<Outputs, Stop> {
        Ok(Outputs::from_iter([("receipt".to_owned(), json!("r1"))]))
    }
}

/// Checks that a replay from any event has the same events.
async fn assert_replays(env: &TestEnv, of: &RunRef) {
    let log = env.log(of).await;
    for from_seq in 0..=log.len() as u64 {
        let copy = fork(env, of, ForkMode::Replay, from_seq).await;
        let events = env.log(&copy).await;
        let events: Vec<String> = events.iter().map(|event| event.replace(of.run.as_str(), "RUN")).collect();
        assert_eq!(events[1..], log[1..], "from {from_seq}");
    }
}

/// A workflow with an effect and a gate in parallel. The effect is declared first.
fn beside(gate: Value) -> Value {
    graph("beside", &[node("buy", "test.shop", json!({})), gate], &[])
}

async fn a_gate_beside_an_effect_opens_before_any_worker_starts(database: TestDatabase) {
    let env = TestEnv::with(database, with_shop(&Shop::default())).await;
    let gate = json!({"title": "Go on?", "actions": ["accept", "reject"]});
    env.register(beside(node("gate", "core.approvalGate", gate))).await;
    let of = env.start("beside").await;
    assert_eq!((env.pending().await, env.status(&of).await), (vec!["gate".to_owned()], "running"));
    env.drain().await;
    let mut pending = env.pending().await;
    pending.sort();
    assert_eq!(pending, ["buy", "gate"]);
    env.answer(&of, "gate", accept()).await.unwrap();
    env.answer(&of, "buy", json!("r1")).await.unwrap();
    env.drain().await;
    assert_eq!(env.status(&of).await, "completed");
    assert_replays(&env, &of).await;
}

async fn an_answered_gate_completes_before_the_effect_starts(database: TestDatabase) {
    let env = TestEnv::with(database, with_gate(true)).await;
    env.register(beside(node("gate", "test.gate", json!({})))).await;
    let of = env.start("beside").await;
    env.answer(&of, "gate", json!(true)).await.unwrap();
    env.drain().await;
    let log = env.log(&of).await;
    let position = |kind: &str, node: &str| {
        let found = log.iter().position(|event| event.contains(kind) && event.contains(node));
        found.unwrap_or_else(|| panic!("{kind} {node}: {log:?}"))
    };
    assert!(position("node.completed", "gate") < position("node.started", "buy"), "{log:?}");
}

async fn a_gate_with_missing_inputs_opens_in_its_turn(database: TestDatabase) {
    let configure = |options: Options| with_gate(true)(options).node("test.quick", Quick);
    let env = TestEnv::with(database, configure).await;
    let mut gate = node("gate", "test.gate", json!({}));
    gate["inputs"] = json!({"receipt": {"type": "variable", "variableName": "receipt"}});
    env.register(graph("beside", &[node("buy", "test.quick", json!({})), gate], &[])).await;
    let of = env.start("beside").await;
    assert_eq!(env.pending().await, Vec::<String>::new());
    env.drain().await;
    assert_eq!(env.pending().await, ["gate"], "{:?}", env.log(&of).await);
}

async fn a_replay_follows_the_recorded_order_of_older_versions(database: TestDatabase) {
    let env = TestEnv::with(database, with_gate(false)).await;
    env.register(beside(node("gate", "test.gate", json!({})))).await;
    let of = env.start("beside").await;
    assert_eq!(env.pending().await, Vec::<String>::new(), "the nodes are executed in declaration order");
    env.drain().await;
    let env = env.reopen(with_gate(true)).await;
    env.answer(&of, "gate", json!(true)).await.unwrap();
    env.answer(&of, "buy", json!("r1")).await.unwrap();
    env.drain().await;
    assert_eq!(env.status(&of).await, "completed");
    assert_replays(&env, &of).await;
}
