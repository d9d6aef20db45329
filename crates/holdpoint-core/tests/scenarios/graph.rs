//! The graph: conditions, trigger rules, skipped branches and edges for failures.

use holdpoint_core::{Event, NodeStatus, RunError, Status, Workflow};
use serde_json::{Value, json};

use crate::story::{Story, on};
use crate::vocabulary::*;

/// Returns a workflow with `a`, then `b` or `c` by conditions, then `d`.
fn diamond(rule: &str) -> Workflow {
    let edges = [
        edge_if("output.way == 'b'", "a", "b"),
        edge_if("output.way == 'c'", "a", "c"),
        edge_when(rule, "b", "d"),
        edge_when(rule, "c", "d"),
    ];
    workflow([node("a"), node("b"), node("c"), node("d")], edges)
}

#[test]
fn a_condition_chooses_the_branch() {
    on(diamond("any_success"))
        .given([start(), begin("a")])
        .when(done_with("a", json!({"way": "c"})))
        .accepted()
        .node_is("b", &NodeStatus::Skipped)
        .next_is("begin c")
        .given([begin("c"), done("c")])
        .next_is("begin d")
        .given([begin("d")])
        .when(done("d"))
        .then([completed("d"), Event::RunCompleted]);
}

#[test]
fn a_branch_that_is_never_taken_is_skipped_to_its_end() {
    on(diamond("all_success"))
        .given([start(), begin("a")])
        .when(done("a"))
        .then([completed("a"), skipped("b"), skipped("c"), skipped("d"), Event::RunCompleted])
        .status_is(Status::Completed);
}

#[test]
fn a_join_waits_for_all_of_its_branches() {
    let both = [edge("a", "b"), edge("a", "c"), edge("b", "d"), edge("c", "d")];
    on(workflow([node("a"), node("b"), node("c"), node("d")], both))
        .given([start(), begin("a"), done("a"), begin("b"), done("b")])
        .next_is("begin c")
        .given([begin("c"), done("c")])
        .next_is("begin d");
}

#[test]
fn a_condition_is_evaluated_once_and_later_variables_do_not_change_it() {
    let edges = [edge_if("variables.way == 'on'", "a", "c"), edge("b", "c")];
    on(workflow([node("a"), node("b"), node("c")], edges))
        .given([start(), begin("a"), done_with("a", json!({"way": "on"}))])
        .given([begin("b"), done_with("b", json!({"way": "off"}))])
        .next_is("begin c");
}

#[test]
fn a_run_above_its_size_limit_fails() {
    let nodes: Vec<Value> = (0..40).map(|n| node(&format!("n{n}"))).collect();
    let load = || json!({"load": "x".repeat(1_000_000)});
    // 32 MiB are a little more than 33 million bytes.
    let loads = (0..33).flat_map(|n| [begin(&format!("n{n}")), done_with(&format!("n{n}"), load())]);
    on(workflow(nodes, []))
        .given([start()])
        .given(loads.collect::<Vec<_>>())
        .given([begin("n33")])
        .when(done_with("n33", load()))
        .accepted()
        .status_is(Status::Failed);
}

#[test]
fn outputs_of_the_source_take_precedence_over_variables_in_conditions() {
    let line =
        || workflow([node("a"), node("b")], [edge_if("way == 'b' && status == 'completed'", "a", "b")]);
    let from = |inputs: Value| on(line()).given([start_with(inputs), begin("a")]);
    from(json!({"way": "x"})).when(done_with("a", json!({"way": "b"}))).accepted().next_is("begin b");
    from(json!({"way": "b"})).when(done("a")).accepted().next_is("begin b");
    from(json!({})).when(done("a")).then([completed("a"), skipped("b"), Event::RunCompleted]);
}

#[test]
fn every_type_of_condition_can_take_an_edge() {
    let output = json!({"text": "hello", "zero": 0});
    for condition in [
        json!({"type": "expression", "expression": "output.zero < 1"}),
        json!({"type": "equals", "left": "output.zero", "right": 0}),
        json!({"type": "notEquals", "left": "output.text", "right": "bye"}),
        json!({"type": "contains", "left": "output.text", "right": "ell"}),
        json!({"type": "regex", "left": "output.text", "right": "^h.*o$"}),
        json!({"type": "truthy", "left": "output.text"}),
        json!({"type": "falsy", "left": "output.zero"}),
    ] {
        on(workflow([node("a"), node("b")], [with(edge("a", "b"), "condition", condition)]))
            .given([start(), begin("a"), done_with("a", output.clone())])
            .next_is("begin b");
    }
}

#[test]
fn a_condition_that_cannot_be_evaluated_fails_the_run() {
    let why =
        "condition of edge a-b: only two numbers or two strings can be ordered, not a string and a number";
    on(workflow([node("a"), node("b")], [edge_if("output.amount > 5", "a", "b")]))
        .given([start(), begin("a")])
        .when(done_with("a", json!({"amount": "lots"})))
        .then([
            Event::NodeCompleted {
                node: node_id("a"),
                outputs: object(json!({"amount": "lots"})),
                branch: None,
                unmapped: Vec::new(),
            },
            Event::RunFailed { error: RunError::new("condition_failed", why), node: Some(node_id("b")) },
        ]);
}

#[derive(Clone, Copy, Debug)]
enum Source {
    Done,
    Failed,
    Skipped,
}

/// Returns whether `c` runs or is skipped after two sources with these ends, for edges with this trigger rule. A node
/// `rescue` handles failures, so that they do not end the run.
fn outcome_of_c(rule: &str, sources: [Source; 2]) -> &'static str {
    let names = ["a", "b"];
    let mut nodes: Vec<Value> = std::iter::zip(names, sources)
        .map(|(name, source)| if matches!(source, Source::Skipped) { disabled(name) } else { node(name) })
        .collect();
    nodes.extend([node("c"), node("rescue")]);
    let rescue = names.map(|name| edge_when("any_failed", name, "rescue"));
    let edges: Vec<Value> = names.map(|name| edge_when(rule, name, "c")).into_iter().chain(rescue).collect();
    let mut story = on(workflow(nodes, edges)).given([start()]);
    for (name, source) in std::iter::zip(names, sources) {
        story = match source {
            Source::Done => story.given([begin(name), done(name)]),
            Source::Failed => story.given([begin(name), fail(name)]),
            Source::Skipped => story.node_is(name, &NodeStatus::Skipped),
        };
    }
    if story.next() == "begin c" {
        return "runs";
    }
    story.node_is("c", &NodeStatus::Skipped);
    "is skipped"
}

#[test]
fn each_trigger_rule_runs_or_skips_its_target() {
    use Source::{Done, Failed, Skipped};
    let pairs = [
        [Done, Done],
        [Done, Skipped],
        [Skipped, Skipped],
        [Done, Failed],
        [Failed, Skipped],
        [Failed, Failed],
    ];
    for (rule, runs) in [
        ("all_success", [true, false, false, false, false, false]),
        ("any_success", [true, true, false, true, false, false]),
        ("all_complete", [true, true, true, true, true, true]),
        ("none_failed", [true, true, true, false, false, false]),
        ("any_failed", [false, false, false, true, true, true]),
    ] {
        for (sources, runs) in std::iter::zip(pairs, runs) {
            let expected = if runs { "runs" } else { "is skipped" };
            assert_eq!(outcome_of_c(rule, sources), expected, "{rule} {sources:?}");
        }
    }
}

#[test]
fn any_success_does_not_wait_for_the_slower_branch() {
    let edges = [edge_when("any_success", "slow", "c"), edge_when("any_success", "fast", "c")];
    on(workflow([node("slow"), node("fast"), node("c")], edges))
        .given([start(), begin("slow"), ask("slow", approval()), begin("fast"), done("fast")])
        .next_is("begin c");
}

#[test]
fn a_node_with_edges_of_two_trigger_rules_needs_both() {
    let flow = || {
        workflow(
            [node("a"), node("b"), node("c")],
            [edge_when("any_success", "a", "c"), edge_when("any_failed", "b", "c")],
        )
    };
    on(flow()).given([start(), begin("a"), done("a"), begin("b"), fail("b")]).next_is("begin c");
    on(flow())
        .given([start(), begin("a"), done("a"), begin("b"), done("b")])
        .node_is("c", &NodeStatus::Skipped);
}

/// Returns a story in which `a` fails. `b` follows its success, `c` follows it by the trigger rule.
fn failing(rule: &str) -> Story {
    let edges = [edge("a", "b"), edge_when(rule, "a", "c")];
    on(workflow([node("a"), node("b"), node("c")], edges)).given([start(), begin("a")]).when(fail("a"))
}

#[test]
fn a_failure_that_an_edge_accepts_continues_on_that_edge() {
    for rule in ["any_failed", "all_complete"] {
        failing(rule)
            .then([failed("a"), skipped("b")])
            .next_is("begin c")
            .given([begin("c")])
            .when(done("c"))
            .then([completed("c"), Event::RunCompleted])
            .status_is(Status::Completed);
    }
}

#[test]
fn a_failure_that_no_edge_accepts_fails_the_run() {
    for rule in ["all_success", "any_success", "none_failed"] {
        failing(rule).then([failed("a"), run_failed_at("a")]).status_is(Status::Failed).next_is("nothing");
    }
}

#[test]
fn a_disabled_node_is_skipped_and_its_followers_with_it() {
    on(workflow([node("a"), disabled("b"), node("c")], [edge("a", "b"), edge("b", "c")]))
        .given([start(), begin("a")])
        .when(done("a"))
        .then([
            completed("a"),
            Event::NodeSkipped { node: node_id("b"), reason: "disabled".to_owned() },
            skipped("c"),
            Event::RunCompleted,
        ]);
}

#[test]
fn a_waiting_node_does_not_block_parallel_branches() {
    let edges = [edge("a", "gate"), edge_if("false", "a", "never"), edge("a", "other")];
    let flow = || workflow([node("a"), node("gate"), node("never"), node("other")], edges.clone());
    let waiting = || on(flow()).given([start(), begin("a"), done("a"), begin("gate")]);
    waiting()
        .when(ask("gate", approval()))
        .then([
            requested(1, "gate", approval()),
            suspended("gate", 1),
            approval_requested(1),
            skipped("never"),
        ])
        .status_is(Status::Running)
        .next_is("begin other");
    waiting().when(sleep("gate", crate::story::START_TIME)).accepted().next_is("begin other");
}
