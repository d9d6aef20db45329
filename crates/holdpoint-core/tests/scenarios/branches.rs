//! Nodes that choose a branch, and the edges that are taken then.

use holdpoint_core::{Event, NodeStatus};
use serde_json::{Map, json};

use crate::story::{Story, on};
use crate::vocabulary::*;

fn choice_node() -> Story {
    let branch = |name: &str, target: &str| with(edge("choice", target), "sourceOutput", json!(name));
    let edges =
        [branch("true", "yes"), branch("false", "no"), edge("choice", "always"), branch("output", "also")];
    on(workflow([node("choice"), node("yes"), node("no"), node("always"), node("also")], edges))
        .given([start(), begin("choice")])
}

#[test]
fn only_edges_of_the_chosen_branch_and_edges_without_a_branch_are_taken() {
    choice_node()
        .when(choose("choice", "true"))
        .then([Event::NodeCompleted {
            node: node_id("choice"),
            outputs: Map::new(),
            branch: Some("true".to_owned()),
            unmapped: Vec::new(),
        }])
        .next_is("begin yes")
        .given([begin("yes"), done("yes")])
        .node_is("no", &NodeStatus::Skipped)
        .next_is("begin always")
        .given([begin("always"), done("always")])
        .next_is("begin also");
}

#[test]
fn a_branch_without_edges_skips_the_edges_of_the_other_branches() {
    choice_node()
        .given([choose("choice", "perhaps")])
        .node_is("yes", &NodeStatus::Skipped)
        .node_is("no", &NodeStatus::Skipped)
        .next_is("begin always");
}

#[test]
fn all_edges_are_taken_if_the_node_chooses_no_branch() {
    choice_node()
        .given([done("choice")])
        .next_is("begin yes")
        .given([begin("yes"), done("yes")])
        .next_is("begin no");
}

#[test]
fn the_condition_of_an_edge_of_the_chosen_branch_is_evaluated() {
    let edge = with(edge_if("output.x == 1", "choice", "yes"), "sourceOutput", json!("true"));
    on(workflow([node("choice"), node("yes")], [edge]))
        .given([start(), begin("choice"), choose("choice", "true")])
        .node_is("yes", &NodeStatus::Skipped);
}
