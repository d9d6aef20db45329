//! The examples of the documentation can be registered and behave as documented.

use serde_json::{Value, json};

use crate::test_database::on_both;
use crate::test_env::{TestEnv, accept, graph};

const WORKFLOWS: &str = include_str!("../../../../docs/workflows.md");

on_both! {
    every_node_and_workflow_of_the_documentation_can_be_registered,
    the_loops_of_the_documentation_behave_as_documented,
}

fn examples() -> Vec<Value> {
    let blocks = WORKFLOWS.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.map(|text| serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))).collect()
}

fn workflows() -> Vec<Value> {
    examples().into_iter().filter(|example| example.get("nodes").is_some()).collect()
}

async fn every_node_and_workflow_of_the_documentation_can_be_registered(env: TestEnv) {
    let nodes: Vec<Value> =
        examples().into_iter().filter(|example| example.get("typeId").is_some()).collect();
    assert!(nodes.len() >= 12, "{} nodes", nodes.len());
    for node in nodes {
        env.register(graph("example", &[node], &[])).await;
    }
    assert_eq!(workflows().len(), 2);
    for workflow in workflows() {
        env.register(workflow).await;
    }
    let channels: Vec<Value> =
        examples().into_iter().filter(|example| example.get("votes").is_some()).collect();
    assert_eq!(channels.len(), 1);
    let mut definition = crate::test_env::line("channels", &[("n", "core.noop", json!({}))]);
    definition["channels"] = channels[0].clone();
    env.register(definition).await;
}

async fn the_loops_of_the_documentation_behave_as_documented(env: TestEnv) {
    for workflow in workflows() {
        env.register(workflow).await;
    }
    let of = env.start("lines").await;
    assert_eq!(env.status(&of).await, "completed");
    assert_eq!(env.run(&of).await.variables["sum"], 7);
    let of = env.start("reviewed").await;
    env.answer(&of, "gate", json!({"action": "reject"})).await.unwrap();
    env.answer(&of, "fix", json!({"answers": {"text": "better"}})).await.unwrap();
    assert_eq!(env.status(&of).await, "waiting-approval");
    env.answer(&of, "gate", accept()).await.unwrap();
    assert_eq!(env.status(&of).await, "completed");
}
