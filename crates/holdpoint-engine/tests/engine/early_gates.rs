//! Gates with all inputs open before effects start. Runs that were recorded in another order continue.

use holdpoint_engine::core::{InterruptRequest, Kind};
use holdpoint_engine::{Context, EffectContext, Node, Options, Outputs, PureNode, Stop};
use serde_json::{Value, json};

use crate::effects::{Shop, with_shop};
use crate::held_node::Holds;
use crate::parallel_nodes::{assert_replays, beside_worker, held};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, accept, graph, node};

on_both! {
    a_gate_beside_an_effect_opens_before_any_worker_starts,
    an_answered_gate_completes_before_the_effect_starts,
    a_gate_with_missing_inputs_opens_in_its_turn,
    a_replay_follows_the_recorded_order_of_older_versions,
    a_replay_sees_the_variables_that_older_versions_saw,
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

/// Returns a workflow that executes one node at a time, like runs of older versions.
fn one_at_a_time(nodes: &[Value]) -> Value {
    let mut flow = graph("beside", nodes, &[]);
    flow["settings"] = json!({"maxParallelNodes": 1});
    flow
}

/// Lets the workflow execute nodes side by side, as if the run had been recorded by an older version.
async fn allow_parallel_nodes(env: &TestEnv) {
    let sql = r#"UPDATE workflows SET definition = REPLACE(definition, '"maxParallelNodes":1', '"maxParallelNodes":8')"#;
    env.database.execute(sql).await.unwrap();
}

async fn a_replay_follows_the_recorded_order_of_older_versions(database: TestDatabase) {
    let env = TestEnv::with(database, with_gate(false)).await;
    env.register(one_at_a_time(&[node("buy", "test.shop", json!({})), node("gate", "test.gate", json!({}))]))
        .await;
    let of = env.start("beside").await;
    assert_eq!(env.pending().await, Vec::<String>::new(), "the nodes are executed in declaration order");
    env.drain().await;
    allow_parallel_nodes(&env).await;
    let env = env.reopen(with_gate(true)).await;
    env.answer(&of, "gate", json!(true)).await.unwrap();
    env.answer(&of, "buy", json!("r1")).await.unwrap();
    env.drain().await;
    assert_eq!(env.status(&of).await, "completed");
    assert_replays(&env, &of).await;
}

/// A node that waits for an answer and outputs the variable `x` that it sees then.
struct Reader;

impl Node for Reader {
    async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        context.interrupt(InterruptRequest::new(Kind::Custom, json!({"customKind": "go"})))?;
        Ok(Outputs::from_iter([("seen".to_owned(), json!(context.variables().get("x")))]))
    }
}

async fn a_replay_sees_the_variables_that_older_versions_saw(database: TestDatabase) {
    let mut holds = Holds::new();
    let configure = || {
        let held = holds.configure();
        |options: Options| held(options).node("test.reader", Reader)
    };
    let env = TestEnv::with(database, configure()).await;
    env.register(one_at_a_time(&[node("reader", "test.reader", json!({})), held("a")])).await;
    let of = env.start("beside").await;
    let reopened = configure();
    beside_worker(&env, async {
        holds.wait_for_begin(["a"]).await;
        env.answer(&of, "reader", json!(true)).await.unwrap();
        holds.release(["a"]);
    })
    .await;
    assert_eq!(env.run(&of).await.variables["seen"], json!(null), "the node was resumed before `a` ended");
    assert_replays(&env, &of).await;
    // An older version entered the node after the end of `a` and saw its variable.
    let sql = r#"UPDATE events SET events = REPLACE(events, '"seen":null', '"seen":"a"')"#;
    env.database.execute(sql).await.unwrap();
    allow_parallel_nodes(&env).await;
    let env = env.reopen(reopened).await;
    assert_eq!(env.run(&of).await.variables["seen"], json!("a"));
    assert_replays(&env, &of).await;
}
