//! What limits and requirements mean for nodes that a worker runs, and what such nodes leave.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use holdpoint_engine::core::{End, RunRef, Start, WorkflowId};
use holdpoint_engine::{
    Answerer, ChannelOptions, EffectContext, Node, Outputs, Question, Stop, Unanswerable,
};
use serde_json::{Map, json};

use crate::house::{House, line, start, tenant};
use crate::place::{Place, on_both};

on_both! {
    a_worker_does_not_begin_the_node_that_is_one_too_many,
    a_worker_does_not_enter_a_node_that_requires_what_nobody_provides,
    a_node_with_effects_leaves_variables_channels_chunks_and_a_way,
    a_row_that_nobody_can_read_keeps_no_other_work_from_being_done,
}

/// Counts how often it is entered, and leaves something of each kind.
#[derive(Clone, Default)]
struct Busy {
    entries: Arc<AtomicU32>,
    requires: &'static [&'static str],
}

impl Node for Busy {
    fn requires(&self) -> &'static [&'static str] {
        self.requires
    }

    async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        self.entries.fetch_add(1, Ordering::SeqCst);
        context.set_variable("x", json!(1));
        context.write_channel("log", json!("entry"), ChannelOptions::default());
        context.chunk("said", Map::new());
        context.choose("left");
        Ok(Outputs::new())
    }
}

async fn run_of_two(place: Place, busy: Busy, limit: u64) -> (House, RunRef) {
    let house = House::with(place, |options| options.node("test.busy", busy)).await;
    let nodes = [("a", "test.busy", json!({})), ("b", "test.busy", json!({}))];
    house.register(line("busy", &nodes)).await;
    let configurable = Map::from_iter([("recursionLimit".to_owned(), json!(limit))]);
    let id = WorkflowId::parse("busy").unwrap();
    let run = house.engine.start(&id, Start { configurable, ..start(json!({})) }).await.unwrap();
    house.drain().await;
    (house, RunRef { tenant: tenant(), run: run.id.clone() })
}

async fn code(house: &House, of: &RunRef) -> String {
    match &house.run(of).await.end {
        Some(End::Failed { error, .. }) => error.code.clone(),
        other => panic!("not failed: {other:?}"),
    }
}

async fn a_worker_does_not_begin_the_node_that_is_one_too_many(place: Place) {
    let busy = Busy::default();
    let (house, of) = run_of_two(place, busy.clone(), 1).await;
    assert_eq!(code(&house, &of).await, "recursion_limit_exceeded");
    assert_eq!(busy.entries.load(Ordering::SeqCst), 1);
}

async fn a_worker_does_not_enter_a_node_that_requires_what_nobody_provides(place: Place) {
    let busy = Busy { requires: &["steps", "a-printer"], ..Busy::default() };
    let (house, of) = run_of_two(place, busy.clone(), 9).await;
    assert_eq!(code(&house, &of).await, "capability_not_provided");
    assert_eq!(busy.entries.load(Ordering::SeqCst), 0);
}

async fn a_node_with_effects_leaves_variables_channels_chunks_and_a_way(place: Place) {
    let (house, of) = run_of_two(place, Busy::default(), 9).await;
    assert_eq!(house.status(&of).await, "completed");
    let log = house.log(&of).await;
    let of_a: Vec<&String> = log.iter().filter(|line| line.contains(r#""node":"a""#)).collect();
    let expected = [
        r#"{"type":"node.started","node":"a"}"#,
        r#"{"type":"variable.changed","node":"a","name":"x","next":1}"#,
        r#"{"type":"channel.written","node":"a","channel":"log","value":"entry","reducer":"append"}"#,
        r#"{"type":"ai.message.chunk","node":"a","chunk":"said","last":true}"#,
        r#"{"type":"node.completed","node":"a","branch":"left"}"#,
    ];
    assert_eq!(of_a, expected);
    assert_eq!(house.run(&of).await.variables["log"].as_array().map(Vec::len), Some(2));
}

struct Silent;

impl Answerer for Silent {
    async fn answer(&self, _: &Question) -> Result<Option<String>, Unanswerable> {
        Ok(None)
    }
}

async fn a_row_that_nobody_can_read_keeps_no_other_work_from_being_done(place: Place) {
    // No run has such an id.
    let rows = [
        "INSERT INTO awaited (tenant_id, topic, run_id, interrupt_id, topics, look_ms)
            VALUES ('default', 'ffff', '', 1, 'ffff', 0)",
        "INSERT INTO pending (tenant_id, requested_ms, run_id, interrupt_id, workflow_id, node_id, kind, key, title,
            required, restricted, open_asks, ask_due_ms, kind_lane, workflow_lane)
            VALUES ('default', 1, '', 1, 'flow', 'gate', 'approval', 'gate', '', 1, 0, 1, 0, '', '')",
        "INSERT INTO timers (due_ms, tenant_id, run_id, timer) VALUES (0, 'default', '', 'run')",
    ];
    for row in rows {
        let busy = Busy::default();
        let counting = busy.clone();
        let place = place.another().await;
        let house = House::with(place, |options| options.node("test.busy", counting).answerer(Silent)).await;
        house.register(line("busy", &[("a", "test.busy", json!({}))])).await;
        house.place.execute(row).await.unwrap();
        let of = house.start("busy").await;
        let drained = house.engine.worker().drain().await;
        assert_eq!(house.status(&of).await, "completed", "{row}");
        assert_eq!(busy.entries.load(Ordering::SeqCst), 1, "{row}");
        assert!(drained.is_err(), "it is told that something could not be done: {row}");
    }
}
