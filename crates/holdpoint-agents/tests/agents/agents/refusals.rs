//! MCP servers whose addresses the outgoing policy rejects: the run fails without retries.

use holdpoint_agents::{AgentRuntime, AgentSettings};
use holdpoint_engine::Options;
use holdpoint_engine::core::{RunEnd, RunError, RunRef};
use holdpoint_engine::outgoing::{Outgoing, OutgoingPolicy, Resolver, ScriptedResolver};
use serde_json::json;

use super::{AgentEnv, Calls, agent};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::TestEnv;

on_both! {
    a_server_whose_address_is_rejected_fails_the_run_at_once,
    a_run_waits_for_a_server_without_an_address,
}

/// Prepares an agent with an MCP server at `tools.example`, which has this address.
async fn prepare(database: TestDatabase, address: Option<[u8; 4]>) -> AgentEnv {
    let script = match address {
        Some(address) => ScriptedResolver::default().answer("tools.example", &[address.into()]),
        None => ScriptedResolver::default(),
    };
    let tools =
        Outgoing::new(OutgoingPolicy { resolver: Resolver::Scripted(script), ..OutgoingPolicy::default() });
    let settings = AgentSettings { tools, ..AgentSettings::default() };
    let env =
        TestEnv::with(database, |options: Options| options.extension(AgentRuntime::new(settings))).await;
    let agents = AgentEnv { env, calls: Calls::default() };
    let mut definition = agent(&json!([{ "text": "Done." }]));
    definition["tools"] = json!([{ "type": "mcp", "name": "files", "url": "https://tools.example/mcp" }]);
    agents.declare(definition).await;
    agents
}

async fn error_of(agents: &AgentEnv, of: &RunRef) -> RunError {
    match agents.env.run(of).await.end.clone() {
        Some(RunEnd::Failed { error, .. }) => error,
        other => panic!("the run did not fail: {other:?}"),
    }
}

async fn a_server_whose_address_is_rejected_fails_the_run_at_once(database: TestDatabase) {
    let agents = prepare(database, Some([10, 0, 0, 1])).await;
    let of = agents.send(None, "please").await;
    let error = error_of(&agents, &of).await;
    assert_eq!(error.code, "connection_not_allowed");
    assert!(error.message.starts_with("the MCP server files must not be called: tools.example"), "{error:?}");
}

async fn a_run_waits_for_a_server_without_an_address(database: TestDatabase) {
    let agents = prepare(database, None).await;
    let of = agents.send(None, "please").await;
    assert_eq!(agents.env.status(&of).await, "running");
}
