//! A tool that is written in Rust, and an agent that must ask before it calls the tool. A scripted model takes the
//! place of a real one, so that the example needs no network.

use std::sync::Arc;

use holdpoint_agents::tool::{CallOutcome, RustTool, ToolSpec};
use holdpoint_agents::{AgentInput, AgentRuntime, AgentSettings, EngineAgents};
use holdpoint_engine::core::agent::{Message, Role};
use holdpoint_engine::core::{Owner, RunRef, TenantId};
use holdpoint_engine::{Engine, Options};
use serde_json::json;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let mut settings = AgentSettings::default();
    let spec = ToolSpec {
        name: "refund".to_owned(),
        description: "Pays a refund".to_owned(),
        parameters: json!({"type": "object", "properties": {"amount": {"type": "number"}}}),
        idempotent: false,
        primary: None,
    };
    let refund = RustTool::new(spec, |call| async move {
        println!("the tool pays {}", call.arguments["amount"]);
        Ok(CallOutcome::Result(call.arguments["amount"].clone()))
    });
    settings.rust.insert("refund".to_owned(), Arc::new(refund));
    let options = Options::from(folder.path().join("holdpoint.db")).extension(AgentRuntime::new(settings));
    let engine = Engine::open(options).await?;

    let tenant = TenantId::parse("default")?;
    let definition = json!({
        "agentId": "support",
        "model": {"provider": "scripted", "steps": [
            {"calls": [{"id": "call-1", "name": "refund", "arguments": {"amount": 12}}]},
            {"text": "The refund is paid."}]},
        "tools": [{"type": "rust", "name": "refund"}],
        "permissions": {"rules": [{"tool": "refund", "behavior": "ask"}]},
    });
    engine.agents().put(&tenant, definition, None).await?;

    let owner = Owner { tenant: tenant.clone(), principal: "shop".to_owned() };
    let messages = vec![Message::new("m1", Role::User, json!("Refund 12 euros, please."))];
    let input =
        AgentInput { agent: "support".to_owned(), thread: None, messages, owner, start: None, once: None };
    let started = engine.agents().start(input).await?;
    let run = engine.runs().handle(RunRef { tenant, run: started.id.clone() });
    run.wait_for_interrupt().await?.accept().by("alice").await?;
    let done = run.wait().await?;
    println!("the agent says: {}", done.variable::<String>("text")?);
    engine.close().await;
    anyhow::ensure!(done.is_completed());
    Ok(())
}
