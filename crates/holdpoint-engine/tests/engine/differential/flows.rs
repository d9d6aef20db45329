//! The workflows of the test, and a node with effects.
//!
//! No run has two timers at a time: timers that are due fire concurrently, and their order in the log of the run is not
//! guaranteed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use holdpoint_engine::core::{InterruptRequest, Kind};
use holdpoint_engine::{EffectContext, Node, Outputs, Stop};
use serde_json::{Value, json};

/// The number of workflows.
pub(crate) const SHAPES: usize = 10;
pub(crate) const IDS: [&str; SHAPES] =
    ["gated", "clarification", "event", "custom", "delay", "parallel", "flaky", "fail", "a-b", "a_b"];

/// Returns the definition of a workflow. Another `title` makes another revision.
pub(crate) fn definition(tenant: usize, shape: usize, title: &str) -> Value {
    let gate =
        |id: &str| node(id, "core.approvalGate", json!({"title": title, "actions": ["accept", "reject"]}));
    let noop = |id: &str| node(id, "core.noop", json!({}));
    let flaky = |id: &str, mut config: Value| {
        config["text"] = json!(title);
        config["tenant"] = json!(tenant);
        node(id, "test.flaky", config)
    };
    let nodes = match shape {
        0 => vec![noop("before"), gate("gate"), noop("after")],
        1 => {
            let questions = json!([{"id": "q", "question": format!("which? {title}")}]);
            vec![node("ask", "core.clarificationGate", json!({"questions": questions})), noop("z")]
        }
        2 => {
            let data = json!({"eventType": "paid", "correlation": {"order": 1, "who": title}});
            vec![node("event", "core.interrupt", json!({"kind": "external-event", "data": data}))]
        }
        3 => {
            let schema = json!({"type": "object", "required": ["note"]});
            let data = json!({"customKind": "k", "title": title});
            let config = json!({"kind": "custom", "data": data, "resumeSchema": schema, "timeoutMs": 20_000});
            vec![node("custom", "core.interrupt", config), gate("gate")]
        }
        4 => vec![node("delay", "core.delay", json!({"ms": 7000})), gate("gate")],
        5 => {
            let branches = [gate("a"), gate("ä"), node("delay", "core.delay", json!({"ms": 3000}))];
            return parallel(&branches, &flaky("end", json!({"steps": 1, "panics": 9})));
        }
        6 => vec![noop("a"), flaky("x", json!({"steps": 2, "panics": 2}))],
        7 => vec![gate("gate"), node("bad", "core.fail", json!({"code": "nope", "message": title}))],
        8 => vec![flaky("x", json!({"steps": 3, "panics": 1, "ask": true, "sleep": 9000})), gate("gate")],
        _ => vec![gate("gate"), flaky("x", json!({"steps": 1, "panics": 3, "fails": true}))],
    };
    let ids: Vec<Value> = nodes.iter().map(|node| node["id"].clone()).collect();
    let edges = ids.windows(2).map(|pair| edge(&pair[0], &pair[1])).collect();
    graph(IDS[shape], nodes, edges)
}

fn parallel(branches: &[Value], join: &Value) -> Value {
    let edges = branches.iter().map(|branch| edge(&branch["id"], &join["id"])).collect();
    graph(IDS[5], branches.iter().cloned().chain([join.clone()]).collect(), edges)
}

fn graph(id: &str, nodes: Vec<Value>, edges: Vec<Value>) -> Value {
    json!({
        "id": id, "name": id, "version": "1", "nodes": nodes, "edges": edges, "triggers": [], "variables": [],
        "metadata": {}, "settings": {},
    })
}

fn node(id: &str, type_id: &str, config: Value) -> Value {
    json!({"id": id, "typeId": type_id, "name": id, "position": {"x": 0, "y": 0}, "config": config, "inputs": {}})
}

fn edge(from: &Value, to: &Value) -> Value {
    json!({"id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to})
}

/// A node that executes steps, panics as often as its config says, and then sleeps, opens an interrupt or fails. Its
/// counts of each run survive restarts of the engine.
#[derive(Clone, Default)]
pub(crate) struct FlakyNode(Arc<Mutex<HashMap<String, EffectCounts>>>);

#[derive(Clone, Debug, Default)]
struct EffectCounts {
    steps: u64,
    panics: u64,
}

impl FlakyNode {
    /// Returns the counts of all runs, sorted by run.
    pub(crate) fn counts(&self) -> String {
        let counts = self.0.lock().unwrap();
        let mut all: Vec<_> = counts.iter().collect();
        all.sort_by_key(|(run, _)| run.as_str());
        format!("{all:?}")
    }

    fn of<T>(&self, run: &str, act: impl FnOnce(&mut EffectCounts) -> T) -> T {
        act(self.0.lock().unwrap().entry(run.to_owned()).or_default())
    }
}

impl Node for FlakyNode {
    async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        let config = context.config().clone();
        let number = |field: &str| config.get(field).and_then(Value::as_u64).unwrap_or(0);
        let run = format!("{}/{}", config["tenant"], context.run_id());
        for step in 0..number("steps") {
            let (flaky, run, text) = (self.clone(), run.clone(), config["text"].clone());
            context
                .step(&format!("step {step}"), || async move {
                    flaky.of(&run, |counts| counts.steps += 1);
                    Ok(json!({"text": text, "large": (1_i64 << 53) + 1, "small": 0.1}))
                })
                .await?;
        }
        let panics = self.of(&run, |counts| {
            counts.panics += 1;
            counts.panics <= number("panics")
        });
        assert!(!panics, "flaky node");
        if number("sleep") > 0 {
            context.sleep(number("sleep"))?;
        }
        if config.contains_key("ask") {
            context.interrupt(InterruptRequest::new(
                Kind::Custom,
                json!({"customKind": "k", "title": config["text"]}),
            ))?;
        }
        if config.contains_key("fails") {
            return Err(Stop::failed("flaky", config["text"].to_string()));
        }
        Ok(Outputs::from_iter([("text".to_owned(), config["text"].clone())]))
    }
}
