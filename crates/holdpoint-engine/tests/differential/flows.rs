//! The workflows that are started, and the node with outside effects in some of them.
//!
//! No run ever has two timers at once: several that are due fire side by side, and in which order they get into the
//! log of one run is not promised.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use holdpoint_engine::core::{Kind, Request};
use holdpoint_engine::{EffectContext, Node, Outputs, Stop};
use serde_json::{Value, json};

/// How many kinds of workflows there are.
pub(crate) const SHAPES: usize = 10;
pub(crate) const IDS: [&str; SHAPES] =
    ["gated", "asking", "event", "custom", "nap", "parallel", "shaky", "fail", "a-b", "a_b"];

/// The definition of a shape; `title` is what people read, and another one makes another revision.
pub(crate) fn definition(tenant: usize, shape: usize, title: &str) -> Value {
    let gate =
        |id: &str| node(id, "core.approvalGate", json!({"title": title, "actions": ["accept", "reject"]}));
    let noop = |id: &str| node(id, "core.noop", json!({}));
    let shaky = |id: &str, mut config: Value| {
        config["text"] = json!(title);
        config["tenant"] = json!(tenant);
        node(id, "test.shaky", config)
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
        4 => vec![node("nap", "core.delay", json!({"ms": 7000})), gate("gate")],
        5 => {
            let branches = [gate("a"), gate("ä"), node("nap", "core.delay", json!({"ms": 3000}))];
            return parallel(&branches, &shaky("end", json!({"steps": 1, "panics": 9})));
        }
        6 => vec![noop("a"), shaky("x", json!({"steps": 2, "panics": 2}))],
        7 => vec![gate("gate"), node("bad", "core.fail", json!({"code": "nope", "message": title}))],
        8 => vec![shaky("x", json!({"steps": 3, "panics": 1, "ask": true, "sleep": 9000})), gate("gate")],
        _ => vec![gate("gate"), shaky("x", json!({"steps": 1, "panics": 3, "fails": true}))],
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

/// Does some steps, panics as often as it is told to, then sleeps, asks or fails. Remembers over restarts what it
/// did, run by run.
#[derive(Clone, Default)]
pub(crate) struct Shaky(Arc<Mutex<HashMap<String, Deeds>>>);

#[derive(Clone, Debug, Default)]
struct Deeds {
    steps: u64,
    panics: u64,
}

impl Shaky {
    /// What was done outside, in a fixed order.
    pub(crate) fn deeds(&self) -> String {
        let deeds = self.0.lock().unwrap();
        let mut all: Vec<_> = deeds.iter().collect();
        all.sort_by_key(|(run, _)| run.as_str());
        format!("{all:?}")
    }

    fn of<T>(&self, run: &str, act: impl FnOnce(&mut Deeds) -> T) -> T {
        act(self.0.lock().unwrap().entry(run.to_owned()).or_default())
    }
}

impl Node for Shaky {
    async fn run(&self, context: &mut EffectContext) -> Result<Outputs, Stop> {
        let config = context.config().clone();
        let number = |field: &str| config.get(field).and_then(Value::as_u64).unwrap_or(0);
        let run = format!("{}/{}", config["tenant"], context.run_id());
        for step in 0..number("steps") {
            let (shaky, run, text) = (self.clone(), run.clone(), config["text"].clone());
            context
                .step(&format!("step {step}"), || async move {
                    shaky.of(&run, |deeds| deeds.steps += 1);
                    Ok(json!({"text": text, "large": (1_i64 << 53) + 1, "small": 0.1}))
                })
                .await?;
        }
        let shakes = self.of(&run, |deeds| {
            deeds.panics += 1;
            deeds.panics <= number("panics")
        });
        assert!(!shakes, "shaking");
        if number("sleep") > 0 {
            context.sleep(number("sleep"))?;
        }
        if config.contains_key("ask") {
            context
                .interrupt(Request::new(Kind::Custom, json!({"customKind": "k", "title": config["text"]})))?;
        }
        if config.contains_key("fails") {
            return Err(Stop::failed("shaky", config["text"].to_string()));
        }
        Ok(Outputs::from_iter([("text".to_owned(), config["text"].clone())]))
    }
}
