//! `serve --demo`: agents that need no model and no service, and a workflow. Their tools have no effect.

use anyhow::Context;
use holdpoint_core::TenantId;
use holdpoint_engine::Engine;
use serde_json::Value;

const AGENTS: [(&str, &str); 8] = [
    ("echo", include_str!("demo/echo.json")),
    ("approve", include_str!("demo/approve.json")),
    ("edit", include_str!("demo/edit.json")),
    ("parallel", include_str!("demo/parallel.json")),
    ("form", include_str!("demo/form.json")),
    ("expiring", include_str!("demo/expiring.json")),
    ("confirm", include_str!("demo/confirm.json")),
    ("chain", include_str!("demo/chain.json")),
];

/// The sample workflow of the first start. A demo registers it at every start.
const WORKFLOW: &str = include_str!("welcome/sample-approval.json");

pub(crate) async fn register(engine: &Engine, tenant: &TenantId) -> anyhow::Result<()> {
    for (name, text) in AGENTS {
        let definition: Value = serde_json::from_str(text).with_context(|| format!("demo/{name}.json"))?;
        engine
            .put_agent_of_file(tenant, definition)
            .await
            .with_context(|| format!("the demo agent {name}"))?;
    }
    engine
        .register_for_operator(tenant, serde_json::from_str(WORKFLOW)?)
        .await
        .context("the demo workflow")?;
    Ok(())
}

/// Returns the lines of the welcome text about the demo.
pub(crate) fn welcome_lines(server: &str) -> Vec<String> {
    let names: Vec<&str> = AGENTS.iter().map(|(name, _)| *name).collect();
    vec![
        String::new(),
        format!("Demo agents: {}", names.join(", ")),
        format!("  for AG-UI front ends   POST {server}/ag-ui/approve   with the key as bearer token"),
        "  (the workflow sample-approval works, too; demo agents send nothing to other systems)".to_owned(),
    ]
}
