//! Front ends: the state of a run, client tools that the front end executes, and scripted tools.

use holdpoint_agents::{AgentInput, EngineAgents};
use holdpoint_engine::core::agent::{CLIENT_TOOL, CallStatus};
use holdpoint_engine::core::{RunRef, StartRequest};
use serde_json::{Value, json};

use super::{AgentEnv, call, input, resume};
use crate::test_database::on_both;
use crate::test_env::tenant;

on_both! {
    concurrent_calls_are_all_counted_in_the_state,
    a_run_starts_with_the_given_state,
    a_run_starts_with_the_state_of_its_definition,
    a_call_of_a_client_tool_waits_for_its_result,
    a_tool_of_the_agent_takes_precedence_over_a_client_tool,
    an_approval_that_is_not_editable_rejects_edits,
    the_answer_to_a_scripted_tool_becomes_its_result,
}

/// An agent with one scripted tool, an allow rule and these additional members.
fn scripted(steps: &Value, tool: &Value, more: &Value) -> Value {
    let mut definition = json!({
        "agentId": "clerk", "model": { "provider": "scripted", "steps": steps }, "tools": [tool],
        "permissions": { "default": "allow" },
    });
    let members = more.as_object().cloned().unwrap_or_default();
    definition.as_object_mut().unwrap().extend(members);
    definition
}

fn mail() -> Value {
    json!({ "type": "scripted", "name": "mail", "counts": "executions", "result": { "sent": "{{arguments}}" } })
}

fn two_calls() -> Value {
    let calls = [call("c1", "mail", json!({ "to": "ann" })), call("c2", "mail", json!({ "to": "bob" }))];
    json!([{ "calls": calls }, { "text": "{{lastResult}}" }])
}

impl AgentEnv {
    async fn start_run_with(&self, input: AgentInput) -> RunRef {
        let run = self.env.engine.agents().start(input).await.unwrap();
        self.env.drain().await;
        RunRef { tenant: tenant(), run: run.id.clone() }
    }
}

/// The input of a front end that has this client tool.
fn input_with_tool(name: &str) -> AgentInput {
    let mut input = input(None, "please");
    let tools = json!([{ "name": name, "description": "picks", "parameters": { "type": "object" } }]);
    input.messages[0].metadata.insert("clientTools".to_owned(), tools);
    input
}

async fn concurrent_calls_are_all_counted_in_the_state(agents: AgentEnv) {
    agents.declare(scripted(&two_calls(), &mail(), &Value::Null)).await;
    let of = agents.send(None, "please").await;
    let run = agents.env.run(&of).await;
    assert_eq!((run.status().as_str(), &run.variables["executions"]), ("completed", &json!(2)));
    let reply = super::agent_of(&run).last_reply().unwrap().text();
    assert!(reply == r#"{"sent":{"to":"bob"}}"# || reply == r#"{"sent":{"to":"ann"}}"#, "{reply}");
}

async fn a_run_starts_with_the_given_state(agents: AgentEnv) {
    agents.declare(scripted(&two_calls(), &mail(), &Value::Null)).await;
    let mut input = input(Some("t"), "please");
    let mut start = StartRequest::new(input.owner.clone());
    start.inputs = json!({ "executions": 40, "theme": "dark" }).as_object().cloned().unwrap();
    input.start = Some(Box::new(start));
    let of = agents.start_run_with(input).await;
    let run = agents.env.run(&of).await;
    assert_eq!((&run.variables["executions"], &run.variables["theme"]), (&json!(42), &json!("dark")));
}

async fn a_run_starts_with_the_state_of_its_definition(agents: AgentEnv) {
    let more = json!({ "state": { "executions": 0, "list": ["a"] }, "permissions": { "default": "ask" } });
    agents.declare(scripted(&two_calls(), &mail(), &more)).await;
    let of = agents.send(None, "please").await;
    let run = agents.env.run(&of).await;
    assert_eq!((&run.variables["executions"], &run.variables["list"]), (&json!(0), &json!(["a"])));
    let with_null = json!({ "state": { "x": null } });
    let refused =
        agents.env.engine.agents().put(&tenant(), scripted(&two_calls(), &mail(), &with_null), None).await;
    assert!(refused.unwrap_err().to_string().contains("state.x"));
}

async fn a_call_of_a_client_tool_waits_for_its_result(agents: AgentEnv) {
    let steps = json!([{ "calls": [call("c1", "pick", json!({ "n": 1 }))] }, { "text": "{{lastResult}}" }]);
    // The rule applies to the agent's own tools. The front end executes a client tool without an approval.
    agents.declare(scripted(&steps, &mail(), &json!({ "permissions": { "default": "ask" } }))).await;
    let of = agents.start_run_with(input_with_tool("pick")).await;
    assert_eq!(agents.call(&of, "c1").await, CallStatus::Suspended);
    let run = agents.env.run(&of).await;
    assert_eq!(run.interrupts[0].data["suspension"]["action"], CLIENT_TOOL);
    let agents = agents.reopen().await;
    agents.decide(&of, "c1", &resume("d1", json!("the red one"))).await.unwrap();
    agents.env.drain().await;
    assert_eq!(agents.agent(&of).await.last_reply().unwrap().text(), "the red one");
    assert_eq!(agents.env.status(&of).await, "completed");
}

async fn a_tool_of_the_agent_takes_precedence_over_a_client_tool(agents: AgentEnv) {
    agents.declare(scripted(&two_calls(), &mail(), &Value::Null)).await;
    let of = agents.start_run_with(input_with_tool("mail")).await;
    assert_eq!(agents.env.status(&of).await, "completed");
}

async fn an_approval_that_is_not_editable_rejects_edits(agents: AgentEnv) {
    let more = json!({ "permissions": { "default": "ask" }, "approval": { "editable": false } });
    agents.declare(scripted(&two_calls(), &mail(), &more)).await;
    let of = agents.send(None, "please").await;
    let edit = agents.decide(&of, "c1", &resume("d1", json!({ "arguments": {} }))).await.unwrap_err();
    assert!(matches!(edit, holdpoint_engine::Error::Refused(_)), "{edit:?}");
    for ticket in ["c1", "c2"] {
        agents.decide(&of, ticket, &resume(ticket, Value::Null)).await.unwrap();
    }
    agents.env.drain().await;
    assert_eq!(agents.env.run(&of).await.variables["executions"], json!(2));
}

async fn the_answer_to_a_scripted_tool_becomes_its_result(agents: AgentEnv) {
    let schema =
        json!({ "type": "object", "required": ["year"], "properties": { "year": { "minimum": 2000 } } });
    let asks = json!({ "action": "input_required", "message": "Which year?", "responseSchema": schema });
    let tool = json!({ "type": "scripted", "name": "form", "asks": asks });
    let steps = json!([{ "calls": [call("c1", "form", json!({}))] }, { "text": "{{lastResult}}" }]);
    agents.declare(scripted(&steps, &tool, &Value::Null)).await;
    let of = agents.send(None, "please").await;
    assert!(agents.decide(&of, "c1", &resume("d1", json!({ "year": 1 }))).await.is_err());
    agents.decide(&of, "c1", &resume("d2", json!({ "year": 2026 }))).await.unwrap();
    agents.env.drain().await;
    assert_eq!(agents.agent(&of).await.last_reply().unwrap().text(), r#"{"year":2026}"#);
}
