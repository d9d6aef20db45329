//! Loops and `covers`: no round of a loop uses the approval of another round, and a gate permits only what it covers.

use holdpoint_engine::Error;
use holdpoint_engine::core::ForkMode;
use serde_json::{Value, json};

use crate::outgoing::grants::{edge, events_through, fork, gate, pay, peer, uses};
use crate::outgoing::node::{failure, open};
use crate::peer::Peer;
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, accept, graph, node, tenant};

on_both! {
    loops_that_repeat_an_effect_without_the_gate_are_rejected,
    loops_that_pass_the_gate_or_leave_the_loop_are_accepted,
    an_effect_that_every_round_of_a_loop_reaches_is_permitted_once,
    an_effect_after_a_loop_is_permitted_once,
    a_gate_that_permits_repetition_is_used_in_every_round,
    an_interrupt_with_a_fixed_key_does_not_permit_a_second_round,
    a_gate_covers_only_the_nodes_that_it_lists,
    effects_that_no_gate_covers_are_rejected,
    contradicting_members_are_rejected,
}

fn output_edge(output: &str, from: &str, to: &str) -> Value {
    let mut edge = edge(from, to);
    edge["sourceOutput"] = json!(output);
    edge
}

fn any(mut edge: Value) -> Value {
    edge["triggerRule"] = json!("any_success");
    edge
}

fn rounds(count: u32) -> Value {
    node("loop", "core.loop", json!({"count": count}))
}

fn noop(id: &str) -> Value {
    node(id, "core.noop", json!({}))
}

/// An approval of `core.interrupt`, which is not a gate type.
fn interrupt(config: Value) -> Value {
    let mut interrupt = node(
        "gate",
        "core.interrupt",
        json!({"kind": "approval", "data": {
            "title": "Pay?", "artifactId": "a", "artifactType": "t", "actions": ["accept", "reject"],
        }}),
    );
    interrupt["config"].as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    interrupt
}

async fn flaws(env: &TestEnv, definition: Value) -> Vec<String> {
    match env.engine.workflows().register(&tenant(), definition).await {
        Err(Error::InvalidWorkflow(flaws)) => flaws.into_iter().map(|flaw| flaw.message).collect(),
        Err(error) => panic!("{error}"),
        Ok(_) => Vec::new(),
    }
}

async fn loops_that_repeat_an_effect_without_the_gate_are_rejected(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = peer().await;
    let (gate, pay) = (gate(json!({})), pay("pay", &peer));
    let conditional = node("if", "core.conditional", json!({"expression": "iteration < 2"}));
    let plain = [edge("gate", "step"), edge("step", "pay"), edge("pay", "step")];
    let skipped = [
        edge("start", "loop"),
        output_edge("body", "loop", "if"),
        output_edge("true", "if", "gate"),
        any(output_edge("false", "if", "join")),
        any(edge("gate", "join")),
        edge("join", "pay"),
        edge("pay", "loop"),
    ];
    for definition in [
        graph("pay", &[gate.clone(), noop("step"), pay.clone()], &plain),
        graph("pay", &[interrupt(json!({})), noop("step"), pay.clone()], &plain),
        graph("pay", &[noop("start"), rounds(3), conditional, gate, noop("join"), pay], &skipped),
    ] {
        let flaws = flaws(&env, definition).await;
        assert!(flaws.iter().any(|flaw| flaw.contains("would permit every round")), "{flaws:?}");
    }
}

fn when(expression: &str, from: &str, to: &str) -> Value {
    let mut edge = edge(from, to);
    edge["condition"] = json!({"type": "expression", "expression": expression});
    edge
}

async fn loops_that_pass_the_gate_or_leave_the_loop_are_accepted(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = peer().await;
    let named = |id: &str| {
        let mut gate = gate(json!({"actions": ["accept", "refine"]}));
        gate["id"] = json!(id);
        gate
    };
    let conditional = node("if", "core.conditional", json!({"expression": "iteration < 2"}));
    // An effect before the gate of its loop, and a gate that asks for a new draft.
    let drafted = [
        edge("start", "draft"),
        edge("draft", "gate"),
        when("output.action == \"refine\"", "gate", "draft"),
        when("output.action == \"accept\"", "gate", "pay"),
    ];
    // Two gates, of which the second can ask for more.
    let refined = [
        edge("gate", "second"),
        when("output.action == \"refine\"", "second", "draft"),
        edge("draft", "second"),
        when("output.action == \"accept\"", "second", "pay"),
    ];
    // A loop that polls after the approval.
    let polled = [
        edge("gate", "step"),
        edge("step", "if"),
        output_edge("true", "if", "wait"),
        edge("wait", "step"),
        output_edge("false", "if", "pay"),
    ];
    // Each round passes one of two gates.
    let either = [
        edge("start", "loop"),
        output_edge("body", "loop", "if"),
        output_edge("true", "if", "gate"),
        output_edge("false", "if", "second"),
        any(edge("gate", "pay")),
        any(edge("second", "pay")),
        edge("pay", "loop"),
    ];
    let pay_node = pay("pay", &peer);
    for definition in [
        graph("drafted", &[noop("start"), pay("draft", &peer), named("gate"), pay_node.clone()], &drafted),
        graph("refined", &[named("gate"), named("second"), noop("draft"), pay_node.clone()], &refined),
        graph(
            "polled",
            &[named("gate"), noop("step"), conditional.clone(), noop("wait"), pay_node.clone()],
            &polled,
        ),
        graph(
            "either",
            &[noop("start"), rounds(2), conditional, named("gate"), named("second"), pay_node],
            &either,
        ),
    ] {
        assert_eq!(flaws(&env, definition).await, Vec::<String>::new());
    }
    let of = env.start_with("either", json!({"sum": 1})).await;
    for gate in ["gate", "second"] {
        env.answer(&of, gate, accept()).await.unwrap();
        env.drain().await;
    }
    let run = env.run(&of).await;
    assert_eq!((run.status().as_str(), peer.requests().len()), ("completed", 2));
    let used: Vec<usize> = run.interrupts.iter().map(|asked| asked.uses.len()).collect();
    assert_eq!(used, [1, 1]);
}

/// The definition does not determine how often the loop reaches the payment, so the second use is rejected at run time.
async fn an_effect_that_every_round_of_a_loop_reaches_is_permitted_once(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = peer().await;
    let edges = [
        edge("gate", "loop"),
        output_edge("body", "loop", "step"),
        output_edge("body", "loop", "pay"),
        edge("step", "loop"),
    ];
    for gate in [gate(json!({})), gate(json!({"covers": ["pay"]})), interrupt(json!({}))] {
        let step = node("step", "core.delay", json!({"ms": 1000}));
        env.register(graph("pay", &[gate, rounds(3), step, pay("pay", &peer)], &edges)).await;
        let before = peer.requests().len();
        let of = env.start_with("pay", json!({"sum": 1})).await;
        env.answer(&of, "gate", accept()).await.unwrap();
        for _ in 0..3 {
            env.drain().await;
            env.clock.advance(1000);
        }
        env.drain().await;
        assert_eq!(failure(&env, &of).await.code, "grant_used");
        assert_eq!(peer.requests().len(), before + 1);
    }
}

/// A gate, a loop of three rounds, and a payment when the loop is done.
fn paid_at_the_end(peer: &Peer) -> Value {
    let edges = [
        edge("gate", "loop"),
        output_edge("body", "loop", "step"),
        edge("step", "loop"),
        output_edge("done", "loop", "pay"),
    ];
    graph("pay", &[gate(json!({})), rounds(3), noop("step"), pay("pay", peer)], &edges)
}

async fn an_effect_after_a_loop_is_permitted_once(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = peer().await;
    env.register(paid_at_the_end(&peer)).await;
    let of = env.start_with("pay", json!({"sum": 1})).await;
    env.answer(&of, "gate", accept()).await.unwrap();
    env.drain().await;
    assert_eq!((env.status(&of).await, peer.requests().len()), ("completed", 1));
    assert_eq!(uses(&*env.run(&of).await).len(), 1);
}

async fn a_gate_that_permits_repetition_is_used_in_every_round(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = peer().await;
    let gate = gate(json!({"covers": [{"node": "pay", "repeat": true}]}));
    let edges = [edge("gate", "loop"), output_edge("body", "loop", "pay"), edge("pay", "loop")];
    env.register(graph("pay", &[gate, rounds(3), pay("pay", &peer)], &edges)).await;
    let of = env.start_with("pay", json!({"sum": 1})).await;
    env.answer(&of, "gate", accept()).await.unwrap();
    env.drain().await;
    assert_eq!((env.status(&of).await, peer.requests().len()), ("completed", 3));
    let used = uses(&*env.run(&of).await);
    assert_eq!(used, [1, 2, 3].map(|visit| ("pay".to_owned(), visit)));
}

/// The interrupt opens once, because every round finds it by its key.
async fn an_interrupt_with_a_fixed_key_does_not_permit_a_second_round(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = peer().await;
    let edges = [
        edge("start", "loop"),
        output_edge("body", "loop", "gate"),
        edge("gate", "pay"),
        edge("pay", "loop"),
    ];
    let nodes = [noop("start"), rounds(3), interrupt(json!({"key": "once"})), pay("pay", &peer)];
    env.register(graph("pay", &nodes, &edges)).await;
    let of = env.start_with("pay", json!({"sum": 1})).await;
    env.answer(&of, "gate", accept()).await.unwrap();
    env.drain().await;
    assert_eq!(failure(&env, &of).await.code, "grant_used");
    assert_eq!(peer.requests().len(), 1);
}

async fn a_gate_covers_only_the_nodes_that_it_lists(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = peer().await;
    let mut second = gate(json!({}));
    second["id"] = json!("second");
    let nodes = [gate(json!({"covers": ["one"]})), pay("one", &peer), second, pay("two", &peer)];
    let edges = [edge("gate", "one"), edge("one", "second"), edge("second", "two")];
    env.register(graph("pay", &nodes, &edges)).await;
    let of = env.start_with("pay", json!({"sum": 1})).await;
    let shown = env.run(&of).await.interrupts[0].data["covers"].clone();
    assert_eq!(shown, json!(["one"]), "the approver sees what the gate covers");
    env.answer(&of, "gate", accept()).await.unwrap();
    env.drain().await;
    env.answer(&of, "second", accept()).await.unwrap();
    env.drain().await;
    let run = env.run(&of).await;
    let used: Vec<_> = run.interrupts.iter().map(|asked| asked.uses[0].node.to_string()).collect();
    assert_eq!((used, peer.requests().len()), (vec!["one".to_owned(), "two".to_owned()], 2));
    let branch =
        fork(&env, &of, ForkMode::Branch, events_through(&env, &of, "interrupt.resolved").await).await;
    env.drain().await;
    assert_eq!(failure(&env, &branch).await.code, "grant_not_transferable");
}

async fn effects_that_no_gate_covers_are_rejected(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = peer().await;
    let flow = |covers: Value| {
        let nodes = [gate(json!({ "covers": covers })), pay("one", &peer), pay("two", &peer), noop("step")];
        graph("pay", &nodes, &[edge("gate", "one"), edge("gate", "two"), edge("gate", "step")])
    };
    for (covers, message) in [
        (json!(["one"]), "no gate before node \"two\" covers it"),
        (json!(["one", "two", "missing"]), "there is no node"),
        (json!(["one", "two", "step"]), "has no effect"),
        (json!([]), "non-empty array"),
        (json!([{"node": "one", "repeat": "yes"}]), "non-empty array"),
    ] {
        let flaws = flaws(&env, flow(covers)).await;
        assert!(flaws.iter().any(|flaw| flaw.contains(message)), "{message}: {flaws:?}");
    }
    assert_eq!(flaws(&env, flow(json!(["one", "two"]))).await, Vec::<String>::new());
}

async fn contradicting_members_are_rejected(database: TestDatabase) {
    let env = TestEnv::with(database, open).await;
    let peer = peer().await;
    let mut free = pay("pay", &peer);
    free["grant"] = json!("none");
    free["config"]["approvedBy"] = json!("gate");
    let definition = graph("pay", &[gate(json!({})), free], &[edge("gate", "pay")]);
    let found = flaws(&env, definition).await;
    assert!(found.iter().any(|flaw| flaw.contains("cannot name a gate")), "{found:?}");
    // A decision about a tool call is not a gate, so only agents may open such an interrupt.
    let data = json!({"data": {
        "title": "Pay?", "artifactId": "a", "artifactType": "t", "actions": ["accept"], "toolCall": {"id": "c1"},
    }});
    let definition = graph("pay", &[interrupt(data), pay("pay", &peer)], &[edge("gate", "pay")]);
    let found = flaws(&env, definition).await;
    assert!(found.iter().any(|flaw| flaw.contains("reserved for the tool calls")), "{found:?}");
}
