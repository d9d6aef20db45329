//! The workflows of the random commands. The executor defines the behaviour of their nodes.

use serde_json::{Value, json};

/// A gate between two tasks; the gate offers an approval that never expires.
pub(crate) fn line() -> Value {
    definition(
        &[node("a", "task", &json!({})), gate("gate", "k", None), node("z", "task", &json!({}))],
        &[edge("a", "gate", "all_success"), edge("gate", "z", "all_success")],
    )
}

/// Two gates on parallel branches, and a branch that is never taken.
pub(crate) fn diamond(left_key: &str, right_key: &str) -> Value {
    let mut never = edge("a", "never", "all_success");
    never["condition"] = json!({"type": "expression", "expression": "output.missing == true"});
    definition(
        &[
            node("a", "task", &json!({})),
            gate("left", left_key, None),
            node("never", "task", &json!({})),
            gate("right", right_key, Some(40)),
            node("z", "task", &json!({})),
        ],
        &[
            edge("a", "left", "all_success"),
            never,
            edge("a", "right", "all_success"),
            edge("left", "z", "any_success"),
            edge("right", "z", "any_success"),
        ],
    )
}

/// A delay, gates with deadlines, and edges that are taken after failures.
pub(crate) fn timed() -> Value {
    definition(
        &[
            node("delay", "delay", &json!({"ms": 30})),
            gate("first", "k1", Some(50)),
            gate("second", "k2", Some(0)),
            node("rescue", "task", &json!({})),
            node("z", "task", &json!({})),
        ],
        &[
            edge("delay", "second", "all_complete"),
            edge("first", "rescue", "any_failed"),
            edge("second", "rescue", "any_failed"),
            edge("first", "z", "none_failed"),
            edge("rescue", "z", "all_complete"),
        ],
    )
}

/// Two nested loops. The inner one has a writer and a gate that opens a new interrupt each time.
pub(crate) fn looping() -> Value {
    let mut body = edge("outer", "inner", "all_success");
    body["sourceOutput"] = json!("body");
    let mut leave = edge("outer", "after", "all_success");
    leave["sourceOutput"] = json!("done");
    let mut again = edge("gate", "inner", "any_failed");
    again["id"] = json!("again");
    let mut definition = definition(
        &[
            node("start", "task", &json!({})),
            node("outer", "choice", &json!({})),
            node("inner", "writer", &json!({"ttlMs": 30})),
            node("gate", "gate", &json!({"key": null, "timeoutMs": 20})),
            node("end", "shaky", &json!({})),
            node("after", "task", &json!({})),
            node("last", "task", &json!({})),
        ],
        &[
            edge("start", "outer", "all_success"),
            body,
            edge("inner", "gate", "all_success"),
            again,
            edge("gate", "end", "all_success"),
            edge("end", "outer", "all_complete"),
            leave,
            edge("after", "last", "all_complete"),
        ],
    );
    definition["settings"] = json!({"maxLoopbackIterations": 3, "maxRetries": 2});
    definition
}

/// Two child runs: the parent waits for the first one only.
pub(crate) fn family() -> Value {
    definition(
        &[
            node("a", "parent", &json!({"wait": true})),
            node("b", "parent", &json!({"wait": false})),
            node("z", "shaky", &json!({})),
        ],
        &[edge("a", "z", "all_success"), edge("b", "z", "all_success")],
    )
}

fn definition(nodes: &[Value], edges: &[Value]) -> Value {
    json!({
        "id": "random", "name": "Random", "version": "1", "triggers": [], "metadata": {}, "settings": {},
        "nodes": nodes, "edges": edges, "variables": [],
    })
}

fn node(id: &str, type_id: &str, config: &Value) -> Value {
    json!({"id": id, "typeId": type_id, "name": id, "config": config, "inputs": {}})
}

fn gate(id: &str, key: &str, timeout_ms: Option<u64>) -> Value {
    node(id, "gate", &json!({"key": key, "timeoutMs": timeout_ms}))
}

fn edge(source: &str, target: &str, rule: &str) -> Value {
    let id = format!("{source}-{target}");
    json!({"id": id, "sourceNodeId": source, "targetNodeId": target, "triggerRule": rule})
}
