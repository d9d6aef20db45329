//! `serve --demo`: agents that need no model and no service, and workflows. Their tools have no effect.

use anyhow::Context;
use holdpoint_agents::EngineAgents;
use holdpoint_core::TenantId;
use holdpoint_engine::Engine;
use holdpoint_samples::demo;

/// The sample workflow of the first start. A demo registers it at every start.
const WORKFLOW: &str = include_str!("welcome/sample-approval.json");

pub(crate) async fn register(engine: &Engine, tenant: &TenantId) -> anyhow::Result<()> {
    for definition in demo::agents() {
        let id = definition["agentId"].to_string();
        let stored = engine.agents().put_of_file(tenant, definition).await;
        stored.with_context(|| format!("the demo agent {id}"))?;
    }
    for definition in [serde_json::from_str(WORKFLOW)?, demo::release_workflow()] {
        let id = definition["id"].to_string();
        let stored = engine.workflows().register_for_operator(tenant, definition).await;
        stored.with_context(|| format!("the demo workflow {id}"))?;
    }
    Ok(())
}

/// Returns the lines of the welcome text about the demo.
pub(crate) fn welcome_lines(server: &str) -> Vec<String> {
    let names: Vec<&str> = demo::agent_ids().collect();
    vec![
        String::new(),
        format!("Demo agents: {}", names.join(", ")),
        format!("  for AG-UI front ends   POST {server}/ag-ui/approve   with the key as bearer token"),
        "  (the workflow sample-approval works, too; demo agents send nothing to other systems)".to_owned(),
    ]
}
