//! What agents here can do, in the protocol's words.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::events::VERSION;
use super::target::Target;
use crate::app::App;
use crate::auth::CanReadRuns;
use crate::body::InPath;
use crate::error::ApiError;

pub(crate) async fn show(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(agent): InPath<String>,
) -> Result<Json<Value>, ApiError> {
    let target = Target::find(&app.engine, caller.tenant(), &agent).await?;
    let found = app.engine.definition(caller.tenant(), target.workflow()).await?;
    let definition = match &target {
        Target::Agent { .. } => found.pointer("/nodes/0/config"),
        Target::Workflow(_) => Some(&found),
    };
    Ok(Json(of(&agent, &target, definition.unwrap_or(&Value::Null))))
}

fn of(id: &str, target: &Target, definition: &Value) -> Value {
    let is_agent = matches!(target, Target::Agent { .. });
    let text = |name: &str| definition.get(name).and_then(Value::as_str);
    let mut identity = json!({
        "name": text("name").unwrap_or(id), "type": if is_agent { "agent" } else { "workflow" },
        "provider": "holdpoint", "version": env!("CARGO_PKG_VERSION"),
    });
    if let Some(said) = text("description") {
        identity["description"] = json!(said);
    }
    json!({
        "identity": identity,
        "transport": {
            "streaming": true, "websocket": false, "httpBinary": false, "pushNotifications": false, "resumable": true,
        },
        "tools": {"supported": is_agent, "parallelCalls": is_agent, "clientProvided": is_agent},
        "output": {"structuredOutput": false},
        "state": {"snapshots": true, "deltas": true, "memory": is_agent, "persistentState": true},
        "multiAgent": {"supported": false},
        "reasoning": {"supported": false},
        "humanInTheLoop": {
            "supported": true, "approvals": true, "interventions": true, "feedback": true, "interrupts": true,
            "approveWithEdits": true,
        },
        "custom": {"holdpoint": {"protocolVersion": VERSION, "agentId": id}},
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdpoint_core::WorkflowId;

    #[test]
    fn an_agent_says_who_it_is_and_that_people_can_decide() {
        let workflow = WorkflowId::parse("agent:mailer").unwrap();
        let target = Target::Agent { id: "mailer".to_owned(), workflow };
        let shown = of("mailer", &target, &json!({"description": "answers mail"}));
        assert_eq!(
            (&shown["identity"]["name"], &shown["identity"]["description"]),
            (&json!("mailer"), &json!("answers mail"))
        );
        let people = &shown["humanInTheLoop"];
        assert_eq!((&people["interrupts"], &people["approveWithEdits"]), (&json!(true), &json!(true)));
    }
}
