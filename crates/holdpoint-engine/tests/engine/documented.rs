//! The examples of the documentation: what it shows can be registered, and what it says comes of it.

use serde_json::{Value, json};

use crate::house::{House, accept, graph};
use crate::place::on_both;

const WORKFLOWS: &str = include_str!("../../../../docs/workflows.md");

on_both! {
    every_node_and_workflow_of_the_documentation_can_be_registered,
    the_loops_of_the_documentation_do_what_it_says,
}

fn examples() -> Vec<Value> {
    let blocks = WORKFLOWS.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.map(|text| serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))).collect()
}

fn workflows() -> Vec<Value> {
    examples().into_iter().filter(|example| example.get("nodes").is_some()).collect()
}

async fn every_node_and_workflow_of_the_documentation_can_be_registered(house: House) {
    let nodes: Vec<Value> =
        examples().into_iter().filter(|example| example.get("typeId").is_some()).collect();
    assert!(nodes.len() >= 12, "{} nodes", nodes.len());
    for node in nodes {
        house.register(graph("example", &[node], &[])).await;
    }
    assert_eq!(workflows().len(), 2);
    for workflow in workflows() {
        house.register(workflow).await;
    }
    let channels: Vec<Value> =
        examples().into_iter().filter(|example| example.get("votes").is_some()).collect();
    assert_eq!(channels.len(), 1);
    let mut definition = crate::house::line("channels", &[("n", "core.noop", json!({}))]);
    definition["channels"] = channels[0].clone();
    house.register(definition).await;
}

async fn the_loops_of_the_documentation_do_what_it_says(house: House) {
    for workflow in workflows() {
        house.register(workflow).await;
    }
    let of = house.start("lines").await;
    assert_eq!(house.status(&of).await, "completed");
    assert_eq!(house.run(&of).await.variables["sum"], 7);
    let of = house.start("reviewed").await;
    house.answer(&of, "gate", json!({"action": "reject"})).await.unwrap();
    house.answer(&of, "fix", json!({"answers": {"text": "better"}})).await.unwrap();
    assert_eq!(house.status(&of).await, "waiting-approval");
    house.answer(&of, "gate", accept()).await.unwrap();
    assert_eq!(house.status(&of).await, "completed");
}
