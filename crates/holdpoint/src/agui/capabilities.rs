//! Handler that returns the AG-UI capabilities of an agent or a workflow.

use axum::Json;
use axum::extract::State;
use holdpoint_agents::{AgentTraits, EngineAgents};
use holdpoint_api::agui::{
    AgUiCapabilities, AgUiCustom, AgUiHoldpoint, AgUiHumanInTheLoop, AgUiIdentity, AgUiMultiAgent,
    AgUiMultimodal, AgUiMultimodalInput, AgUiOutput, AgUiReasoning, AgUiState, AgUiTools, AgUiTransport,
    VERSION,
};
use serde_json::Value;

use super::target::AgUiTarget;
use crate::app::App;
use crate::auth::{Caller, CanReadRuns};
use crate::body::InPath;
use crate::error::ApiError;

/// The node types that start other agents or workflows, or that are agents.
const DELEGATING_NODES: [&str; 3] = ["core.subWorkflow", "core.control.subWorkflow", "core.agent"];
/// The node type of graphs of providers. An approver can edit their tool calls, unless a quorum decides.
const PROVIDER_NODES: [&str; 1] = ["core.provider"];
/// The actions of a gate that let an approver edit the artifact.
const EDIT_ACTIONS: [&str; 2] = ["edit", "edit-accept"];

pub(crate) async fn show(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(agent): InPath<String>,
) -> Result<Json<AgUiCapabilities>, ApiError> {
    let target = AgUiTarget::find(&app.engine, caller.tenant(), &agent).await?;
    let found = app.engine.workflows().definition(caller.tenant(), target.workflow()).await?;
    let definition = match &target {
        AgUiTarget::Agent { .. } => found.pointer("/nodes/0/config"),
        AgUiTarget::Workflow(_) => Some(&found),
    };
    let definition = definition.unwrap_or(&Value::Null);
    let traits = traits_of(&app, &caller, &target, definition).await?;
    Ok(Json(describe(&agent, &target, definition, &traits)))
}

async fn traits_of(
    app: &App,
    caller: &Caller,
    target: &AgUiTarget,
    definition: &Value,
) -> Result<AgentTraits, ApiError> {
    let AgUiTarget::Agent { workflow, .. } = target else { return Ok(traits_of_workflow(definition)) };
    Ok(app.engine.agents().traits(caller.tenant(), workflow).await?.unwrap_or_default())
}

fn describe(id: &str, target: &AgUiTarget, definition: &Value, traits: &AgentTraits) -> AgUiCapabilities {
    let is_agent = matches!(target, AgUiTarget::Agent { .. });
    let text = |name: &str| definition.get(name).and_then(Value::as_str).map(str::to_owned);
    let accepts = |kind: &str| traits.media_types.iter().any(|one| one.starts_with(kind));
    AgUiCapabilities {
        identity: AgUiIdentity {
            name: text("name").unwrap_or_else(|| id.to_owned()),
            kind: if is_agent { "agent" } else { "workflow" }.into(),
            provider: "holdpoint".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            description: text("description"),
        },
        transport: AgUiTransport {
            streaming: true,
            websocket: false,
            http_binary: false,
            push_notifications: false,
            resumable: true,
        },
        tools: AgUiTools {
            supported: is_agent,
            parallel_calls: is_agent && text("toolExecution").as_deref() != Some("sequential"),
            client_provided: is_agent,
        },
        output: AgUiOutput { structured_output: false },
        state: AgUiState { snapshots: true, deltas: true, memory: false, persistent_state: true },
        multi_agent: AgUiMultiAgent {
            supported: traits.delegates,
            delegation: traits.delegates,
            handoffs: false,
        },
        reasoning: AgUiReasoning { supported: traits.shows_reasoning, streaming: traits.shows_reasoning },
        multimodal: AgUiMultimodal {
            input: AgUiMultimodalInput {
                image: accepts("image/"),
                audio: accepts("audio/"),
                video: accepts("video/"),
                pdf: accepts("application/pdf"),
                file: false,
            },
        },
        human_in_the_loop: AgUiHumanInTheLoop {
            supported: true,
            approvals: traits.asks || !is_agent,
            interventions: is_agent,
            feedback: true,
            interrupts: true,
            approve_with_edits: traits.offers_edits,
        },
        custom: AgUiCustom {
            holdpoint: AgUiHoldpoint { protocol_version: VERSION.into(), agent_id: id.to_owned() },
        },
    }
}

/// Returns the properties of a workflow: those of its own nodes. An agent that a node names is not read.
fn traits_of_workflow(definition: &Value) -> AgentTraits {
    let nodes = || definition.get("nodes").and_then(Value::as_array).into_iter().flatten();
    let is = |node: &Value, kinds: &[&str]| {
        node.get("typeId").and_then(Value::as_str).is_some_and(|kind| kinds.contains(&kind))
    };
    let offers_edits = |node: &Value| {
        let list = |path: &str| node.pointer(path).and_then(Value::as_array).into_iter().flatten();
        let mut actions = list("/config/actions").chain(list("/config/data/actions"));
        let has_tools = list("/config/tools").next().is_some();
        actions.any(|action| EDIT_ACTIONS.map(Value::from).contains(action))
            || (has_tools && node.pointer("/config/approval/editable") != Some(&Value::Bool(false)))
    };
    let has_quorum = |node: &Value| {
        node.pointer("/config/requiredApprovals").and_then(Value::as_u64).is_some_and(|count| count > 1)
    };
    let edits_calls = |node: &Value| is(node, &PROVIDER_NODES) && !has_quorum(node);
    AgentTraits {
        offers_edits: nodes().any(|node| offers_edits(node) || edits_calls(node)),
        delegates: nodes().any(|node| is(node, &DELEGATING_NODES)),
        ..AgentTraits::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdpoint_core::WorkflowId;
    use serde_json::json;

    #[test]
    fn capabilities_name_the_agent_and_include_human_in_the_loop() {
        let workflow = WorkflowId::parse("agent:mailer").unwrap();
        let target = AgUiTarget::Agent { id: "mailer".to_owned(), workflow };
        let traits = AgentTraits {
            media_types: ["image/png".to_owned()].into(),
            shows_reasoning: true,
            ..AgentTraits::default()
        };
        let shown = describe("mailer", &target, &json!({"description": "answers mail"}), &traits);
        assert_eq!(shown.identity.name, "mailer");
        assert_eq!(shown.identity.description.as_deref(), Some("answers mail"));
        let people = shown.human_in_the_loop;
        assert_eq!((people.interrupts, people.approve_with_edits), (true, false));
        assert!(shown.reasoning.supported && shown.multimodal.input.image);
        assert!(!shown.multimodal.input.audio && !shown.multi_agent.supported);
    }

    #[test]
    fn a_workflow_offers_edits_only_if_a_gate_or_an_agent_does() {
        let edits = |nodes: serde_json::Value| traits_of_workflow(&json!({"nodes": nodes})).offers_edits;
        assert!(!edits(
            json!([{"typeId": "core.approvalGate", "config": {"actions": ["accept", "reject"]}}])
        ));
        assert!(edits(
            json!([{"typeId": "core.approvalGate", "config": {"actions": ["accept", "edit-accept"]}}])
        ));
        let agent = |approval: serde_json::Value| json!([{"typeId": "core.agent", "config": {"tools": [{"name": "f"}], "approval": approval}}]);
        assert!(edits(agent(json!({}))) && !edits(agent(json!({"editable": false}))));
        let graph = |config: serde_json::Value| json!([{"typeId": "core.provider", "config": config}]);
        assert!(edits(graph(json!({}))) && !edits(graph(json!({"requiredApprovals": 2}))));
    }
}
