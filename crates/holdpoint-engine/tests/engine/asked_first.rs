//! Gates that can be asked are asked before effects begin, and runs that were recorded in another order go on.

use holdpoint_engine::core::{ForkMode, Kind, Request, RunRef};
use holdpoint_engine::{Context, EffectContext, Node, Options, Outputs, PureNode, Stop};
use serde_json::{Value, json};

use crate::effects::{Shop, with_shop};
use crate::forks::fork;
use crate::house::{House, accept, graph, node};
use crate::place::{Place, on_both};

on_both! {
    a_gate_beside_an_effect_is_asked_before_any_worker_begins,
    a_gate_that_was_answered_is_passed_before_the_effect_begins,
    a_gate_without_its_inputs_waits_for_its_turn,
    a_replay_follows_the_recorded_order_of_older_versions,
}

/// A gate that is asked early or in its turn.
struct Gate {
    early: bool,
}

impl PureNode for Gate {
    fn asks(&self) -> bool {
        self.early
    }

    fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
        context.interrupt(Request::new(Kind::Custom, json!({"customKind": "go"})))?;
        Ok(Outputs::new())
    }
}

fn with_gate(early: bool) -> impl FnOnce(Options) -> Options {
    move |options| with_shop(&Shop::default())(options).pure_node("test.gate", Gate { early })
}

/// An effect that asks nobody.
struct Quick;

impl Node for Quick {
    async fn run(&self, _context: &mut EffectContext) -> Result<Outputs, Stop> {
        Ok(Outputs::from_iter([("receipt".to_owned(), json!("r1"))]))
    }
}

/// A replay from any place comes to the same list.
async fn assert_replays(house: &House, of: &RunRef) {
    let log = house.log(of).await;
    for from_seq in 0..=log.len() as u64 {
        let copy = fork(house, of, ForkMode::Replay, from_seq).await;
        let found = house.log(&copy).await;
        let found: Vec<String> = found.iter().map(|event| event.replace(of.run.as_str(), "RUN")).collect();
        assert_eq!(found[1..], log[1..], "from {from_seq}");
    }
}

/// An effect, declared first, and a gate beside it.
fn beside(gate: Value) -> Value {
    graph("beside", &[node("buy", "test.shop", json!({})), gate], &[])
}

async fn a_gate_beside_an_effect_is_asked_before_any_worker_begins(place: Place) {
    let house = House::with(place, with_shop(&Shop::default())).await;
    let gate = json!({"title": "Go on?", "actions": ["accept", "reject"]});
    house.register(beside(node("gate", "core.approvalGate", gate))).await;
    let of = house.start("beside").await;
    assert_eq!((house.pending().await, house.status(&of).await), (vec!["gate".to_owned()], "running"));
    house.drain().await;
    let mut pending = house.pending().await;
    pending.sort();
    assert_eq!(pending, ["buy", "gate"]);
    house.answer(&of, "gate", accept()).await.unwrap();
    house.answer(&of, "buy", json!("r1")).await.unwrap();
    house.drain().await;
    assert_eq!(house.status(&of).await, "completed");
    assert_replays(&house, &of).await;
}

async fn a_gate_that_was_answered_is_passed_before_the_effect_begins(place: Place) {
    let house = House::with(place, with_gate(true)).await;
    house.register(beside(node("gate", "test.gate", json!({})))).await;
    let of = house.start("beside").await;
    house.answer(&of, "gate", json!(true)).await.unwrap();
    house.drain().await;
    let log = house.log(&of).await;
    let place = |kind: &str, node: &str| {
        let found = log.iter().position(|event| event.contains(kind) && event.contains(node));
        found.unwrap_or_else(|| panic!("{kind} {node}: {log:?}"))
    };
    assert!(place("node.completed", "gate") < place("node.started", "buy"), "{log:?}");
}

async fn a_gate_without_its_inputs_waits_for_its_turn(place: Place) {
    let furnish = |options: Options| with_gate(true)(options).node("test.quick", Quick);
    let house = House::with(place, furnish).await;
    let mut gate = node("gate", "test.gate", json!({}));
    gate["inputs"] = json!({"receipt": {"type": "variable", "variableName": "receipt"}});
    house.register(graph("beside", &[node("buy", "test.quick", json!({})), gate], &[])).await;
    let of = house.start("beside").await;
    assert_eq!(house.pending().await, Vec::<String>::new());
    house.drain().await;
    assert_eq!(house.pending().await, ["gate"], "{:?}", house.log(&of).await);
}

async fn a_replay_follows_the_recorded_order_of_older_versions(place: Place) {
    let house = House::with(place, with_gate(false)).await;
    house.register(beside(node("gate", "test.gate", json!({})))).await;
    let of = house.start("beside").await;
    assert_eq!(house.pending().await, Vec::<String>::new(), "recorded in the order of the file");
    house.drain().await;
    let house = house.reopen(with_gate(true)).await;
    house.answer(&of, "gate", json!(true)).await.unwrap();
    house.answer(&of, "buy", json!("r1")).await.unwrap();
    house.drain().await;
    assert_eq!(house.status(&of).await, "completed");
    assert_replays(&house, &of).await;
}
