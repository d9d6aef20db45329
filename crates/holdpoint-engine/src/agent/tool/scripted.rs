//! Tools that do nothing but say what their definition says: for tests, demos and learning, beside the scripted model.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use holdpoint_core::TenantId;
use holdpoint_core::agent::{PendingToolCall, SuspendTicket, Suspension, ToolCallResumeMode};
use serde_json::{Value, json};
use uuid::Uuid;

use super::definition::{BadTools, Members};
use super::{Call, Calling, Change, Check, Listing, Returned, ToolError, ToolSpec, Toolbox};

const KNOWN: [&str; 11] = [
    "type",
    "name",
    "description",
    "parameters",
    "idempotent",
    "primary",
    "result",
    "error",
    "counts",
    "delayMs",
    "asks",
];
/// The whole arguments, and something that no other call has.
const ARGUMENTS: &str = "{{arguments}}";
const UNIQUE: &str = "{{unique}}";

pub(super) struct ScriptedTool {
    spec: Arc<ToolSpec>,
    check: Check,
    ends: End,
    /// The member of the run's state that counts the calls.
    counts: Option<String>,
    delay: Option<Duration>,
    asks: Option<Asks>,
}

#[derive(Debug)]
enum End {
    Result(Value),
    Error(String),
}

/// What the tool wants to know before it does anything.
#[derive(Debug)]
struct Asks {
    action: String,
    message: String,
    response_schema: Option<Value>,
    mode: ToolCallResumeMode,
}

impl fmt::Debug for ScriptedTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedTool").field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl ScriptedTool {
    pub(super) fn parse(members: &Members<'_>, name: &str) -> Result<Self, BadTools> {
        members.only(&KNOWN)?;
        let parameters = members.schema("parameters")?;
        let check = holdpoint_core::checker(&parameters).map_err(|why| members.bad("parameters", why))?;
        let ends = match (members.value("result"), members.text("error")?) {
            (Some(_), Some(_)) => return Err(members.bad("error", "cannot be there beside result")),
            (_, Some(error)) => End::Error(error.to_owned()),
            (result, None) => End::Result(result.cloned().unwrap_or_else(|| json!("done"))),
        };
        let delay = match members.value("delayMs") {
            None => None,
            Some(_) => Some(Duration::from_millis(members.milliseconds("delayMs", 1)?)),
        };
        let spec = ToolSpec {
            name: name.to_owned(),
            description: members.text("description")?.unwrap_or_default().to_owned(),
            parameters,
            idempotent: members.flag("idempotent")?,
            primary: members.text("primary")?.map(str::to_owned),
        };
        let counts = members.text("counts")?.map(str::to_owned);
        let asks = members.within("asks")?.map(|asks| Asks::parse(&asks)).transpose()?;
        Ok(Self { spec: Arc::new(spec), check: Box::new(check), ends, counts, delay, asks })
    }

    async fn perform(&self, call: &Call) -> Result<Returned, ToolError> {
        (self.check)(&call.arguments).map_err(ToolError::NotCalled)?;
        let answered = call.decision.as_ref().is_some_and(|decision| decision["action"] == "resume");
        if let Some(asks) = self.asks.as_ref().filter(|_| !answered) {
            return Ok(Returned::Suspended(Box::new(asks.ticket(call))));
        }
        if let Some(delay) = self.delay {
            tokio::time::sleep(delay).await;
        }
        let result = match &self.ends {
            End::Error(text) => return Ok(Returned::Failed(json!({ "error": filled(&json!(text), call) }))),
            End::Result(result) => filled(result, call),
        };
        Ok(match &self.counts {
            None => Returned::Result(result),
            Some(name) => Returned::Changed { result, changes: vec![Change::Add(name.clone(), 1)] },
        })
    }
}

impl Asks {
    fn parse(members: &Members<'_>) -> Result<Self, BadTools> {
        members.only(&["action", "message", "responseSchema", "resumeMode"])?;
        let mode = match members.value("resumeMode") {
            None => ToolCallResumeMode::UseDecisionAsToolResult,
            Some(mode) => serde_json::from_value(mode.clone()).map_err(|_| {
                let modes = "replay_tool_call, use_decision_as_tool_result or pass_decision_to_tool";
                members.bad("resumeMode", format!("must be {modes}"))
            })?,
        };
        let response_schema = members.value("responseSchema").cloned();
        if let Some(schema) = &response_schema {
            let _checks =
                holdpoint_core::checker(schema).map_err(|why| members.bad("responseSchema", why))?;
        }
        Ok(Self {
            action: members.needed_text("action")?.to_owned(),
            message: members.text("message")?.unwrap_or_default().to_owned(),
            response_schema,
            mode,
        })
    }

    fn ticket(&self, call: &Call) -> SuspendTicket {
        let message = filled(&json!(self.message), call);
        SuspendTicket {
            suspension: Suspension {
                id: format!("ask_{}", call.id),
                action: self.action.clone(),
                message: message.as_str().unwrap_or_default().to_owned(),
                parameters: call.arguments.clone(),
                response_schema: self.response_schema.clone(),
            },
            pending: PendingToolCall {
                id: call.id.clone(),
                name: call.name.clone(),
                arguments: call.arguments.clone(),
            },
            resume_mode: self.mode,
        }
    }
}

impl Toolbox for ScriptedTool {
    fn list<'a>(&'a self, _: &'a TenantId) -> Listing<'a> {
        Box::pin(async { Ok(vec![self.spec.clone()]) })
    }

    fn call<'a>(&'a self, call: &'a Call) -> Calling<'a> {
        Box::pin(self.perform(call))
    }

    fn is_inside(&self) -> bool {
        self.delay.is_none()
    }
}

/// A value with what is known of the call in the places that are held for it. What is put in is not looked through again.
fn filled(value: &Value, call: &Call) -> Value {
    match value {
        Value::String(text) if text == ARGUMENTS => call.arguments.clone(),
        Value::String(text) => filled_text(text, call).into(),
        Value::Array(items) => items.iter().map(|item| filled(item, call)).collect(),
        Value::Object(members) => {
            Value::Object(members.iter().map(|(name, value)| (name.clone(), filled(value, call))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn filled_text(text: &str, call: &Call) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("{{") {
        let Some((place, after)) = behind.split_once("}}") else { break };
        out.push_str(before);
        match put(place, call) {
            Some(known) => out.push_str(&known),
            None => out.push_str(&format!("{{{{{place}}}}}")),
        }
        rest = after;
    }
    out + rest
}

fn put(place: &str, call: &Call) -> Option<String> {
    let whole = format!("{{{{{place}}}}}");
    if whole == UNIQUE {
        return Some(Uuid::now_v7().to_string());
    }
    let value = if whole == ARGUMENTS {
        Some(&call.arguments)
    } else {
        call.arguments.get(place.strip_prefix("arguments.")?)
    };
    Some(match value? {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use holdpoint_core::{RunId, RunRef};

    use super::*;

    fn call(decision: Option<Value>) -> Call {
        let (tenant, run) = (TenantId::parse("t").unwrap(), RunId::parse("r").unwrap());
        Call {
            of: RunRef { tenant, run },
            id: "c1".into(),
            name: "send".into(),
            arguments: json!({"to": "ann", "n": 2}),
            idempotency_key: "k".into(),
            decision,
        }
    }

    fn tool(definition: Value) -> Result<ScriptedTool, BadTools> {
        ScriptedTool::parse(&Members::of(&definition, "tools[0]").unwrap(), "send")
    }

    #[tokio::test]
    async fn a_result_says_what_it_was_called_with_and_that_it_is_no_other() {
        let send = tool(json!({"type": "scripted", "name": "send", "counts": "executions",
            "result": {"sent": true, "with": "{{arguments}}", "text": "to {{arguments.to}}, {{arguments.n}} {{?}}", "token": "{{unique}}"}}))
        .unwrap();
        let token = async || {
            let Ok(Returned::Changed { result, changes }) = send.perform(&call(None)).await else { panic!() };
            assert_eq!(changes, [Change::Add("executions".into(), 1)]);
            assert_eq!(result["with"], json!({"to": "ann", "n": 2}));
            assert_eq!(result["text"], "to ann, 2 {{?}}");
            result["token"].as_str().unwrap().to_owned()
        };
        assert_ne!(token().await, token().await);
    }

    #[tokio::test]
    async fn what_a_tool_asks_for_is_asked_once() {
        let asks = json!({"action": "input_required", "message": "For {{arguments.to}}?",
            "responseSchema": {"type": "boolean"}});
        let send = tool(json!({"type": "scripted", "name": "send", "asks": asks})).unwrap();
        let Ok(Returned::Suspended(ticket)) = send.perform(&call(None)).await else { panic!() };
        assert_eq!(ticket.suspension.message, "For ann?");
        assert_eq!(ticket.resume_mode, ToolCallResumeMode::UseDecisionAsToolResult);
        let done = send.perform(&call(Some(json!({"action": "resume"})))).await;
        assert_eq!(done, Ok(Returned::Result(json!("done"))));
    }

    #[tokio::test]
    async fn wrong_arguments_and_wrong_definitions_are_told() {
        let strict = json!({"type": "object", "required": ["subject"]});
        let send = tool(json!({"type": "scripted", "name": "send", "parameters": strict})).unwrap();
        assert!(matches!(send.perform(&call(None)).await, Err(ToolError::NotCalled(_))));
        let bad = |definition: Value| tool(definition).unwrap_err().field;
        assert_eq!(bad(json!({"resultt": 1})), "tools[0].resultt");
        assert_eq!(bad(json!({"result": 1, "error": "no"})), "tools[0].error");
        assert_eq!(bad(json!({"asks": {"message": "?"}})), "tools[0].asks.action");
        assert_eq!(bad(json!({"asks": {"action": "a", "resumeMode": "x"}})), "tools[0].asks.resumeMode");
    }

    #[tokio::test]
    async fn a_tool_can_fail() {
        let send = tool(json!({"type": "scripted", "name": "send", "error": "no {{arguments.to}}"})).unwrap();
        let failed = send.perform(&call(None)).await;
        assert_eq!(failed, Ok(Returned::Failed(json!({"error": "no ann"}))));
    }
}
