//! Handler that returns the AG-UI capabilities of an agent or a workflow.

use axum::Json;
use axum::extract::State;
use holdpoint_api::agui::{
    AgUiCapabilities, AgUiCustom, AgUiHoldpoint, AgUiHumanInTheLoop, AgUiIdentity, AgUiOutput, AgUiState,
    AgUiTools, AgUiTransport, VERSION,
};
use holdpoint_api::basics::Supported;
use serde_json::Value;

use super::target::AgUiTarget;
use crate::app::App;
use crate::auth::CanReadRuns;
use crate::body::InPath;
use crate::error::ApiError;

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
    Ok(Json(describe(&agent, &target, definition.unwrap_or(&Value::Null))))
}

fn describe(id: &str, target: &AgUiTarget, definition: &Value) -> AgUiCapabilities {
    let is_agent = matches!(target, AgUiTarget::Agent { .. });
    let text = |name: &str| definition.get(name).and_then(Value::as_str).map(str::to_owned);
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
        tools: AgUiTools { supported: is_agent, parallel_calls: is_agent, client_provided: is_agent },
        output: AgUiOutput { structured_output: false },
        state: AgUiState { snapshots: true, deltas: true, memory: is_agent, persistent_state: true },
        multi_agent: Supported { supported: false },
        reasoning: Supported { supported: false },
        human_in_the_loop: AgUiHumanInTheLoop {
            supported: true,
            approvals: true,
            interventions: true,
            feedback: true,
            interrupts: true,
            approve_with_edits: true,
        },
        custom: AgUiCustom {
            holdpoint: AgUiHoldpoint { protocol_version: VERSION.into(), agent_id: id.to_owned() },
        },
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
        let shown = describe("mailer", &target, &json!({"description": "answers mail"}));
        assert_eq!(shown.identity.name, "mailer");
        assert_eq!(shown.identity.description.as_deref(), Some("answers mail"));
        let people = shown.human_in_the_loop;
        assert_eq!((people.interrupts, people.approve_with_edits), (true, true));
    }
}
