//! Validation of workflow definitions: the accepted ones, and the node and field of each flaw in the others.

use holdpoint_core::{Workflow, limits};
use serde_json::{Value, json};

/// Returns a valid definition with two nodes, an edge and a variable.
fn valid() -> Value {
    json!({
        "id": "pay", "name": "Pay", "version": "1.0", "triggers": [], "metadata": {}, "settings": {},
        "nodes": [node("a"), node("b")],
        "edges": [{"id": "e", "sourceNodeId": "a", "targetNodeId": "b"}],
        "variables": [{"name": "amount", "type": "number"}],
    })
}

fn node(id: &str) -> Value {
    json!({"id": id, "typeId": "core.noop", "name": id, "config": {}, "inputs": {}})
}

/// Returns the valid definition with the members at these JSON pointers changed. `None` removes a member.
fn with<const N: usize>(changes: [(&str, Option<Value>); N]) -> Value {
    let mut definition = valid();
    for (pointer, value) in changes {
        let (parent, member) = pointer.rsplit_once('/').expect("a pointer");
        let parent = definition.pointer_mut(parent).expect("the parent exists");
        match (parent, value) {
            (Value::Object(map), Some(value)) => drop(map.insert(member.to_owned(), value)),
            (Value::Object(map), None) => drop(map.shift_remove(member)),
            (Value::Array(items), Some(value)) => items.push(value),
            (parent, _) => panic!("cannot change {parent}"),
        }
    }
    definition
}

fn set(pointer: &str, value: Value) -> Value {
    with([(pointer, Some(value))])
}

fn without(pointer: &str) -> Value {
    with([(pointer, None)])
}

/// Returns the place of each flaw: `field`, or `node: field`.
fn flaws(definition: &Value) -> Vec<String> {
    let flaws = Workflow::parse(definition, 1).err().unwrap_or_default();
    flaws
        .into_iter()
        .map(|flaw| flaw.node.map_or(flaw.field.clone(), |node| format!("{node}: {}", flaw.field)))
        .collect()
}

#[track_caller]
fn table<const N: usize>(rows: [(Value, &str); N]) {
    for (definition, place) in rows {
        assert_eq!(flaws(&definition), [place], "{definition}");
    }
}

#[test]
fn a_valid_definition_is_accepted() {
    assert_eq!(flaws(&valid()), [""; 0]);
    let workflow = Workflow::parse(&valid(), 7).expect("a valid definition");
    assert_eq!((workflow.id.as_str(), workflow.revision, workflow.nodes.len()), ("pay", 7, 2));
}

#[test]
fn a_definition_is_an_object_with_all_its_members() {
    table([
        (json!([]), "(document)"),
        (json!(null), "(document)"),
        (without("/id"), "id"),
        (without("/name"), "name"),
        (without("/version"), "version"),
        (without("/triggers"), "triggers"),
        (without("/metadata"), "metadata"),
        (without("/settings"), "settings"),
        (without("/variables"), "variables"),
        (without("/edges"), "edges"),
        (set("/name", json!("")), "name"),
        (set("/version", json!(1)), "version"),
        (set("/settings", json!([])), "settings"),
        (set("/edges", json!({})), "edges"),
        (set("/nodse", json!([])), "nodse"),
    ]);
}

#[test]
fn the_id_of_a_workflow_has_lower_case_letters_and_a_limited_length() {
    for bad in [json!(""), json!("Pay"), json!("1pay"), json!("p y"), json!("a".repeat(129)), json!(7)] {
        assert_eq!(flaws(&set("/id", bad.clone())), ["id"], "{bad}");
    }
    for good in ["a", "pay-me_2", &"a".repeat(128)] {
        assert_eq!(flaws(&set("/id", json!(good))), [""; 0], "{good}");
    }
}

#[test]
fn a_node_has_an_id_a_type_a_name_a_config_and_ports() {
    table([
        (with([("/nodes", Some(json!([]))), ("/edges", Some(json!([])))]), "nodes"),
        (with([("/nodes", None), ("/edges", Some(json!([])))]), "nodes"),
        (set("/nodes/-", json!("node")), "nodes[2]"),
        (set("/nodes/-", json!({"typeId": "core.noop"})), "nodes[2].id"),
        (set("/nodes/-", node("a\nb")), "nodes[2].id"),
        (set("/nodes/-", node("a")), "a: id"),
        (without("/nodes/0/typeId"), "a: typeId"),
        (set("/nodes/0/typeId", json!("Core.noop")), "a: typeId"),
        (set("/nodes/0/typeId", json!("core noop")), "a: typeId"),
        (without("/nodes/0/name"), "a: name"),
        (without("/nodes/0/config"), "a: config"),
        (set("/nodes/0/config", json!([])), "a: config"),
        (without("/nodes/0/inputs"), "a: inputs"),
        (set("/nodes/0/disabled", json!("yes")), "a: disabled"),
        (set("/nodes/0/configs", json!({})), "a: configs"),
    ]);
}

#[test]
fn a_port_has_a_known_source_with_all_its_members() {
    let port = |value: Value| set("/nodes/1/inputs/p", value);
    table([
        (port(json!("a")), "b: inputs.p.type"),
        (port(json!({})), "b: inputs.p.type"),
        (port(json!({"type": "magic"})), "b: inputs.p.type"),
        (port(json!({"type": "static"})), "b: inputs.p.value"),
        (port(json!({"type": "static", "value": 1, "optional": true})), "b: inputs.p.optional"),
        (port(json!({"type": "variable"})), "b: inputs.p.variableName"),
        (port(json!({"type": "variable", "variableName": "x", "optional": 1})), "b: inputs.p.optional"),
        (port(json!({"type": "variable", "variableName": "x", "default": 1})), "b: inputs.p.default"),
        (port(json!({"type": "expression", "expression": "1 +"})), "b: inputs.p.expression"),
        (port(json!({"type": "connection", "outputKey": "x"})), "b: inputs.p.nodeId"),
        (port(json!({"type": "connection", "nodeId": "a"})), "b: inputs.p.outputKey"),
        (port(json!({"type": "connection", "nodeId": "unknown", "outputKey": "x"})), "b: inputs.p.nodeId"),
        (port(json!({"type": "connection", "nodeId": "a\nb", "outputKey": "x"})), "b: inputs.p.nodeId"),
        (port(json!({"type": "connection", "nodeId": "b", "outputKey": "x"})), "b: inputs.p.nodeId"),
    ]);
    // A connection against the direction of the edges would read from a node that runs later.
    let backwards = json!({"type": "connection", "nodeId": "b", "outputKey": "x"});
    table([(set("/nodes/0/inputs/p", backwards), "a: inputs.p.nodeId")]);
}

#[test]
fn an_edge_connects_two_nodes_of_the_workflow() {
    let edge = |member: &str, value: Value| set(&format!("/edges/0/{member}"), value);
    table([
        (set("/edges/-", json!("a-b")), "edges[1]"),
        (without("/edges/0/id"), "edges[0].id"),
        (set("/edges/-", json!({"id": "e", "sourceNodeId": "a", "targetNodeId": "b"})), "edges[1].id"),
        (without("/edges/0/sourceNodeId"), "edges[0].sourceNodeId"),
        (edge("sourceNodeId", json!("unknown")), "edges[0].sourceNodeId"),
        (edge("targetNodeId", json!("unknown")), "edges[0].targetNodeId"),
        (edge("triggerRule", json!("sometimes")), "edges[0].triggerRule"),
        (edge("triggerRule", json!(null)), "edges[0].triggerRule"),
        (edge("condition", json!("true")), "edges[0].condition.type"),
        (edge("condition", json!({"type": "equals", "right": 1})), "edges[0].condition.left"),
        (edge("condition", json!({"type": "regex", "left": "a", "right": "("})), "edges[0].condition.right"),
        (
            edge("condition", json!({"type": "expression", "expression": "a ="})),
            "edges[0].condition.expression",
        ),
        (edge("rule", json!("all_success")), "edges[0].rule"),
    ]);
}

#[test]
fn a_cycle_without_an_entry_is_rejected() {
    let back = json!({"id": "back", "sourceNodeId": "b", "targetNodeId": "a"});
    table([(set("/edges/-", back.clone()), "edges")]);
    let alone = json!({"id": "alone", "sourceNodeId": "b", "targetNodeId": "b"});
    assert_eq!(flaws(&set("/edges/-", alone)), [""; 0]);
    let entered = with([
        ("/nodes/-", Some(node("start"))),
        ("/edges/-", Some(back)),
        ("/edges/-", Some(json!({"id": "in", "sourceNodeId": "start", "targetNodeId": "a"}))),
    ]);
    assert_eq!(flaws(&entered), [""; 0]);
    let workflow = Workflow::parse(&entered, 1).expect("a valid definition");
    let back: Vec<&str> = workflow.loops.iter().map(|found| workflow.edges[found.edge].id.as_str()).collect();
    assert_eq!(back, ["back"]);
}

#[test]
fn a_connection_over_a_back_edge_must_be_optional() {
    let alone = json!({"id": "alone", "sourceNodeId": "b", "targetNodeId": "b"});
    let port = |optional: bool| {
        let port = json!({"type": "connection", "nodeId": "b", "outputKey": "x", "optional": optional});
        with([("/edges/-", Some(alone.clone())), ("/nodes/1/inputs", Some(json!({"last": port})))])
    };
    assert_eq!(flaws(&port(true)), [""; 0]);
    table([(port(false), "b: inputs.last.nodeId")]);
}

#[test]
fn settings_are_whole_numbers_and_known_words() {
    let settings = |value: Value| set("/settings", value);
    table([
        (settings(json!({"timeout": -1})), "settings.timeout"),
        (settings(json!({"timeout": "soon"})), "settings.timeout"),
        (settings(json!({"maxRetries": 101})), "settings.maxRetries"),
        (settings(json!({"maxLoopbackIterations": 1.5})), "settings.maxLoopbackIterations"),
        (settings(json!({"maxParallelNodes": 65})), "settings.maxParallelNodes"),
        (settings(json!({"logLevel": "loud"})), "settings.logLevel"),
        (set("/nodes/0/settings", json!({"maxRetries": "three"})), "a: settings.maxRetries"),
        (set("/configurableSchema", json!({"type": 5})), "configurableSchema"),
        (set("/configurableSchema", json!({"$ref": "https://example.org/x"})), "configurableSchema"),
    ]);
    let all = json!({"timeout": 0, "maxRetries": 3, "logLevel": "info", "maxLoopbackIterations": 9, "maxParallelNodes": 2, "theirs": {}});
    let workflow = Workflow::parse(&settings(all), 1).expect("a valid definition");
    assert_eq!(workflow.settings.timeout_ms, None);
    assert_eq!((workflow.settings.max_retries, workflow.settings.max_loopback_iterations), (3, 9));
    let plain = Workflow::parse(&valid(), 1).expect("a valid definition");
    assert_eq!((plain.settings.max_retries, plain.settings.max_loopback_iterations), (0, 5));
    assert_eq!((workflow.settings.max_parallel_nodes, plain.settings.max_parallel_nodes), (2, 8));
}

#[test]
fn a_channel_has_a_reducer_and_optional_access_rules() {
    let channel = |value: Value| set("/channels", json!({"c": value}));
    table([
        (set("/channels", json!([])), "channels"),
        (channel(json!("append")), "channels.c"),
        (channel(json!({})), "channels.c.reducer"),
        (channel(json!({"reducer": "sum"})), "channels.c.reducer"),
        (channel(json!({"reducer": "append", "ttl": 5})), "channels.c.ttl"),
        (channel(json!({"reducer": "append", "ttlMs": "5"})), "channels.c.ttlMs"),
        (channel(json!({"reducer": "append", "schema": {"type": 5}})), "channels.c.schema"),
        (channel(json!({"reducer": "append", "access": "none"})), "channels.c.access"),
        (channel(json!({"reducer": "append", "access": {"writers": "a"}})), "channels.c.access.writers"),
        (set("/channels", json!({"amount": {"reducer": "counter"}})), "channels.amount"),
    ]);
    for access in [json!("public"), json!("private"), json!({"writers": ["core.*"], "readers": []})] {
        assert_eq!(flaws(&channel(json!({"reducer": "votes", "access": access}))), [""; 0]);
    }
}

#[test]
fn a_variable_has_a_unique_name_and_a_type() {
    table([
        (set("/variables/-", json!(7)), "variables[1]"),
        (set("/variables/-", json!({"name": "amount", "type": "string"})), "variables[1].name"),
        (without("/variables/0/name"), "variables[0].name"),
        (without("/variables/0/type"), "variables[0].type"),
        (set("/variables/0/type", json!("integer")), "variables[0].type"),
        (set("/variables/0/required", json!("yes")), "variables[0].required"),
        (set("/variables/0/defaultValue", json!("5")), "variables[0].defaultValue"),
        (set("/variables/0/default", json!(5)), "variables[0].default"),
    ]);
    let nameless = json!([{"type": "string"}, {"type": "string"}]);
    assert_eq!(flaws(&set("/variables", nameless)), ["variables[0].name", "variables[1].name"]);
}

#[test]
fn a_definition_is_limited_in_size() {
    let nodes: Vec<Value> = (0..=limits::NODES_MAX).map(|count| node(&format!("n{count}"))).collect();
    let edge = |count: usize| json!({"id": format!("e{count}"), "sourceNodeId": "a", "targetNodeId": "b"});
    let edges: Vec<Value> = (0..=limits::EDGES_MAX).map(edge).collect();
    let variable = |count: usize| json!({"name": format!("v{count}"), "type": "string"});
    let variables: Vec<Value> = (0..=limits::VARIABLES_MAX).map(variable).collect();
    let places = |definition: &Value| flaws(definition).into_iter().next();
    assert_eq!(places(&set("/nodes", json!(nodes))).as_deref(), Some("nodes"));
    assert_eq!(places(&set("/edges", json!(edges))).as_deref(), Some("edges"));
    assert_eq!(places(&set("/variables", json!(variables))).as_deref(), Some("variables"));
    let full = with([
        ("/nodes", Some(json!([&nodes[..limits::NODES_MAX - 2], &[node("a"), node("b")]].concat()))),
        ("/edges", Some(json!(edges[..limits::EDGES_MAX]))),
        ("/variables", Some(json!(variables[..limits::VARIABLES_MAX]))),
    ]);
    assert_eq!(flaws(&full), [""; 0]);
}

#[test]
fn every_flaw_is_reported_not_only_the_first() {
    let broken = with([
        ("/id", Some(json!("Pay"))),
        ("/nodes/0/config", None),
        ("/nodes/1/inputs/p", Some(json!({"type": "magic"}))),
        ("/edges/0/targetNodeId", Some(json!("unknown"))),
        ("/edges/0/triggerRule", Some(json!("sometimes"))),
        ("/variables/0/type", Some(json!("money"))),
    ]);
    let all = [
        "id",
        "a: config",
        "b: inputs.p.type",
        "edges[0].targetNodeId",
        "edges[0].triggerRule",
        "variables[0].type",
    ];
    assert_eq!(flaws(&broken), all);
    // Flaws of the whole graph are reported together with flaws of single nodes.
    let tangled = with([
        ("/nodes/1/typeId", Some(json!("Noop"))),
        ("/nodes/0/inputs/p", Some(json!({"type": "connection", "nodeId": "unknown", "outputKey": "x"}))),
        ("/edges/-", Some(json!({"id": "back", "sourceNodeId": "b", "targetNodeId": "a"}))),
    ]);
    assert_eq!(flaws(&tangled), ["a: inputs.p.nodeId", "b: typeId", "edges"]);
}

#[test]
fn the_message_of_a_flaw_names_node_and_field() {
    let flaws = Workflow::parse(&set("/nodes/0/disabled", json!(1)), 1).expect_err("a flaw");
    assert_eq!(flaws[0].to_string(), "node a, disabled: must be true or false");
    let flaws = Workflow::parse(&without("/name"), 1).expect_err("a flaw");
    assert_eq!(flaws[0].to_string(), "name: must be a non-empty string");
}

#[test]
fn every_kind_of_port_rule_condition_and_variable_is_accepted() {
    let ports = json!({
        "s": {"type": "static", "value": null},
        "v": {"type": "variable", "variableName": "text", "optional": true},
        "c": {"type": "connection", "nodeId": "a", "outputKey": "x", "optional": false},
        "e": {"type": "expression", "expression": "variables.text + '!'"},
    });
    let mut edges = Vec::new();
    for rule in ["all_success", "any_success", "all_complete", "none_failed", "any_failed"] {
        edges.push(json!({"id": rule, "sourceNodeId": "a", "targetNodeId": "b", "triggerRule": rule}));
    }
    for condition in [
        json!({"type": "expression", "expression": "output.x > 3"}),
        json!({"type": "equals", "left": "output.x", "right": null}),
        json!({"type": "notEquals", "left": "output.x", "right": {"a": 1}}),
        json!({"type": "contains", "left": "output.x", "right": "a"}),
        json!({"type": "regex", "left": "output.x", "right": "^a+$"}),
        json!({"type": "truthy", "left": "output.x"}),
        json!({"type": "falsy", "left": "output.x"}),
    ] {
        let id = condition["type"].clone();
        edges.push(json!({"id": id, "sourceNodeId": "a", "targetNodeId": "b", "condition": condition}));
    }
    let variables = json!([
        {"name": "text", "type": "string", "required": true, "defaultValue": "x", "sensitive": false},
        {"name": "count", "type": "number", "defaultValue": 1.5},
        {"name": "flag", "type": "boolean", "defaultValue": false, "description": "on or off"},
        {"name": "map", "type": "object", "defaultValue": {}},
        {"name": "list", "type": "array", "defaultValue": []},
        {"name": "unset", "type": "array", "defaultValue": null},
    ]);
    let everything = with([
        ("/nodes/1/inputs", Some(ports)),
        ("/nodes/0/disabled", Some(json!(false))),
        ("/nodes/0/position", Some(json!({"x": 1, "y": 2}))),
        ("/edges", Some(json!(edges))),
        ("/variables", Some(variables)),
        ("/description", Some(json!("all of it"))),
    ]);
    assert_eq!(flaws(&everything), [""; 0]);
}

#[test]
fn a_stored_definition_with_unvalidated_members_is_restored() {
    let stored = with([
        ("/settings", Some(json!({"maxRetries": "three", "timeout": 5}))),
        ("/channels", Some(json!(["c"]))),
        ("/configurableSchema", Some(json!({"type": 5}))),
        ("/nodes/0/settings", Some(json!({"maxRetries": -1}))),
    ]);
    assert_eq!(flaws(&stored).len(), 4);
    let restored = Workflow::restore(&stored, 3).expect("it was accepted once");
    assert_eq!(
        (restored.revision, restored.settings.max_retries, restored.settings.timeout_ms),
        (3, 0, None)
    );
    assert!(Workflow::restore(&without("/nodes"), 1).is_err());
    let valid = with([("/settings", Some(json!({"timeout": 5})))]);
    assert_eq!(Workflow::restore(&valid, 1).expect("valid").settings.timeout_ms, Some(5));
}

#[test]
fn a_stored_schema_above_the_limits_still_validates_values() {
    let mut definitions: serde_json::Map<String, Value> = (0..40)
        .map(|n| {
            let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
            (format!("d{n}"), json!({"anyOf": [next, next]}))
        })
        .collect();
    definitions.insert("d40".to_owned(), json!({"required": ["a"]}));
    let schema = json!({"$ref": "#/$defs/d0", "$defs": definitions});
    let stored = with([("/configurableSchema", Some(schema.clone()))]);
    assert_eq!(flaws(&stored), ["configurableSchema"]);
    Workflow::restore(&stored, 3).expect("it was accepted once");
    assert!(holdpoint_core::check_schema(&schema).is_err());
    let check = holdpoint_core::compile_checker(&schema).expect("it was accepted once");
    assert_eq!((check(&json!({"a": 1})).is_ok(), check(&json!({})).is_ok()), (true, false));
}

#[test]
fn a_workflow_is_sensitive_by_its_compliance_class_variables_or_channels() {
    let sensitive = |changes| Workflow::parse(&with([changes]), 1).expect("valid").is_sensitive();
    let class = |class: Value| ("/metadata", Some(json!({"complianceClass": class})));
    assert!(!sensitive(class(json!("public"))));
    assert!(!sensitive(class(json!(7))), "not a string");
    assert!(sensitive(class(json!("phi"))));
    let variable = json!([{"name": "email", "type": "string", "sensitive": true}]);
    assert!(sensitive(("/variables", Some(variable))));
    let channel = json!({"log": {"reducer": "append", "sensitive": true}});
    assert!(sensitive(("/channels", Some(channel))));
    assert!(!Workflow::parse(&valid(), 1).expect("valid").is_sensitive());
}
