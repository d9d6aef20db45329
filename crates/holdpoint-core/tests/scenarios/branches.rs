//! Nodes that choose a way: which of their edges are taken.

use holdpoint_core::{Event, NodeStatus};
use serde_json::{Map, json};

use crate::story::{Story, on};
use crate::words::*;

fn crossroads() -> Story {
    let way = |name: &str, target: &str| with(edge("choice", target), "sourceOutput", json!(name));
    let edges = [way("true", "yes"), way("false", "no"), edge("choice", "always"), way("output", "also")];
    on(workflow([node("choice"), node("yes"), node("no"), node("always"), node("also")], edges))
        .given([start(), begin("choice")])
}

#[test]
fn only_the_chosen_way_and_edges_without_one_are_taken() {
    crossroads()
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
fn a_way_that_no_edge_is_named_after_leads_nowhere() {
    crossroads()
        .given([choose("choice", "perhaps")])
        .node_is("yes", &NodeStatus::Skipped)
        .node_is("no", &NodeStatus::Skipped)
        .next_is("begin always");
}

#[test]
fn the_names_of_outputs_mean_nothing_where_no_way_is_chosen() {
    crossroads()
        .given([done("choice")])
        .next_is("begin yes")
        .given([begin("yes"), done("yes")])
        .next_is("begin no");
}

#[test]
fn a_condition_counts_on_the_chosen_way_too() {
    let edge = with(edge_if("output.x == 1", "choice", "yes"), "sourceOutput", json!("true"));
    on(workflow([node("choice"), node("yes")], [edge]))
        .given([start(), begin("choice"), choose("choice", "true")])
        .node_is("yes", &NodeStatus::Skipped);
}
