//! Tools that return the result in their definition, for tests and demos with the scripted model.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use holdpoint_core::TenantId;
use holdpoint_core::agent::{PendingToolCall, SuspendTicket, Suspension, ToolCallResumeMode};
use serde_json::{Value, json};
use uuid::Uuid;

use super::definition::{BadTools, ToolMembers};
use super::{
    ArgumentsCheck, Call, CallFuture, CallOutcome, ListFuture, StateChange, ToolError, ToolSpec, Toolbox,
};

const KNOWN: [&str; 12] = [
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
    "progress",
    "asks",
];
/// The number of reports of the progress of a call.
const PROGRESS_MAX: u64 = 100;
/// The placeholders for all arguments and for a unique text.
const ARGUMENTS: &str = "{{arguments}}";
const UNIQUE: &str = "{{unique}}";

pub(super) struct ScriptedTool {
    spec: Arc<ToolSpec>,
    check: ArgumentsCheck,
    outcome: ScriptedOutcome,
    /// The member of the run's state that counts the calls.
    counts: Option<String>,
    delay: Option<Duration>,
    /// The number of delays, with a report of the progress after each.
    progress: u64,
    question: Option<ScriptedQuestion>,
}

#[derive(Debug)]
enum ScriptedOutcome {
    Result(Value),
    Error(String),
}

/// The question that the tool asks before it returns its result.
#[derive(Debug)]
struct ScriptedQuestion {
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
    pub(super) fn parse(members: &ToolMembers<'_>, name: &str) -> Result<Self, BadTools> {
        members.reject_unknown(&KNOWN)?;
        let parameters = members.schema("parameters")?;
        let check =
            holdpoint_core::compile_checker(&parameters).map_err(|why| members.bad("parameters", why))?;
        let outcome = match (members.value("result"), members.text("error")?) {
            (Some(_), Some(_)) => return Err(members.bad("error", "cannot be combined with result")),
            (_, Some(error)) => ScriptedOutcome::Error(error.to_owned()),
            (result, None) => ScriptedOutcome::Result(result.cloned().unwrap_or_else(|| json!("done"))),
        };
        let delay = match members.value("delayMs") {
            None => None,
            Some(_) => Some(Duration::from_millis(members.milliseconds("delayMs", 1)?)),
        };
        let progress = match members.value("progress") {
            None => 1,
            Some(steps) if delay.is_some() => {
                let steps = steps.as_u64().filter(|steps| (1..=PROGRESS_MAX).contains(steps));
                steps.ok_or_else(|| members.bad("progress", format!("must be 1 to {PROGRESS_MAX}")))?
            }
            Some(_) => return Err(members.bad("progress", "requires delayMs")),
        };
        let spec = ToolSpec {
            name: name.to_owned(),
            description: members.text("description")?.unwrap_or_default().to_owned(),
            parameters,
            idempotent: members.flag("idempotent")?,
            primary: members.text("primary")?.map(str::to_owned),
        };
        let counts = members.text("counts")?.map(str::to_owned);
        let question = members.within("asks")?.map(|asks| ScriptedQuestion::parse(&asks)).transpose()?;
        Ok(Self { spec: Arc::new(spec), check: Box::new(check), outcome, counts, delay, progress, question })
    }

    async fn perform(&self, call: &Call) -> Result<CallOutcome, ToolError> {
        (self.check)(&call.arguments).map_err(ToolError::NotCalled)?;
        let answered = call.decision.as_ref().is_some_and(|decision| decision["action"] == "resume");
        if let Some(question) = self.question.as_ref().filter(|_| !answered) {
            return Ok(CallOutcome::Suspended(Box::new(question.ticket(call))));
        }
        if let Some(delay) = self.delay {
            for done in 1..=self.progress {
                tokio::time::sleep(delay).await;
                let content =
                    [("progress".to_owned(), json!(done)), ("total".to_owned(), json!(self.progress))];
                if self.progress > 1 {
                    call.reporter.report("progress", "PROGRESS", content.into_iter().collect());
                }
            }
        }
        let result = match &self.outcome {
            ScriptedOutcome::Error(text) => {
                return Ok(CallOutcome::Failed(json!({ "error": fill(&json!(text), call) })));
            }
            ScriptedOutcome::Result(result) => fill(result, call),
        };
        Ok(match &self.counts {
            None => CallOutcome::Result(result),
            Some(name) => CallOutcome::Changed { result, changes: vec![StateChange::Add(name.clone(), 1)] },
        })
    }
}

impl ScriptedQuestion {
    fn parse(members: &ToolMembers<'_>) -> Result<Self, BadTools> {
        members.reject_unknown(&["action", "message", "responseSchema", "resumeMode"])?;
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
                holdpoint_core::compile_checker(schema).map_err(|why| members.bad("responseSchema", why))?;
        }
        Ok(Self {
            action: members.needed_text("action")?.to_owned(),
            message: members.text("message")?.unwrap_or_default().to_owned(),
            response_schema,
            mode,
        })
    }

    fn ticket(&self, call: &Call) -> SuspendTicket {
        let message = fill(&json!(self.message), call);
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
    fn list<'a>(&'a self, _: &'a TenantId) -> ListFuture<'a> {
        Box::pin(async { Ok(vec![self.spec.clone()]) })
    }

    fn call<'a>(&'a self, call: &'a Call) -> CallFuture<'a> {
        Box::pin(self.perform(call))
    }

    fn is_local(&self) -> bool {
        self.delay.is_none()
    }
}

/// Replaces the placeholders of a value with the arguments of the call. Placeholders in inserted values are not
/// replaced.
fn fill(value: &Value, call: &Call) -> Value {
    match value {
        Value::String(text) if text == ARGUMENTS => call.arguments.clone(),
        Value::String(text) => fill_text(text, call).into(),
        Value::Array(items) => items.iter().map(|item| fill(item, call)).collect(),
        Value::Object(members) => {
            Value::Object(members.iter().map(|(name, value)| (name.clone(), fill(value, call))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn fill_text(text: &str, call: &Call) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("{{") {
        let Some((place, after)) = behind.split_once("}}") else { break };
        out.push_str(before);
        match placeholder_value(place, call) {
            Some(known) => out.push_str(&known),
            None => out.push_str(&format!("{{{{{place}}}}}")),
        }
        rest = after;
    }
    out + rest
}

fn placeholder_value(place: &str, call: &Call) -> Option<String> {
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
    use crate::tool::CallReporter;

    fn call(decision: Option<Value>) -> Call {
        let (tenant, run) = (TenantId::parse("t").unwrap(), RunId::parse("r").unwrap());
        Call {
            of: RunRef { tenant, run },
            id: "c1".into(),
            name: "send".into(),
            arguments: json!({"to": "ann", "n": 2}),
            idempotency_key: "k".into(),
            decision,
            reporter: CallReporter::default(),
        }
    }

    fn tool(definition: Value) -> Result<ScriptedTool, BadTools> {
        ScriptedTool::parse(&ToolMembers::of(&definition, "tools[0]").unwrap(), "send")
    }

    #[tokio::test]
    async fn placeholders_in_a_result_are_replaced() {
        let send = tool(json!({"type": "scripted", "name": "send", "counts": "executions",
            "result": {"sent": true, "with": "{{arguments}}", "text": "to {{arguments.to}}, {{arguments.n}} {{?}}", "token": "{{unique}}"}}))
        .unwrap();
        let token = async || {
            let Ok(CallOutcome::Changed { result, changes }) = send.perform(&call(None)).await else {
                panic!()
            };
            assert_eq!(changes, [StateChange::Add("executions".into(), 1)]);
            assert_eq!(result["with"], json!({"to": "ann", "n": 2}));
            assert_eq!(result["text"], "to ann, 2 {{?}}");
            result["token"].as_str().unwrap().to_owned()
        };
        assert_ne!(token().await, token().await);
    }

    #[tokio::test]
    async fn a_tool_asks_its_question_once() {
        let asks = json!({"action": "input_required", "message": "For {{arguments.to}}?",
            "responseSchema": {"type": "boolean"}});
        let send = tool(json!({"type": "scripted", "name": "send", "asks": asks})).unwrap();
        let Ok(CallOutcome::Suspended(ticket)) = send.perform(&call(None)).await else { panic!() };
        assert_eq!(ticket.suspension.message, "For ann?");
        assert_eq!(ticket.resume_mode, ToolCallResumeMode::UseDecisionAsToolResult);
        let done = send.perform(&call(Some(json!({"action": "resume"})))).await;
        assert_eq!(done, Ok(CallOutcome::Result(json!("done"))));
    }

    #[tokio::test]
    async fn invalid_arguments_and_definitions_are_rejected() {
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
    async fn a_tool_with_an_error_fails() {
        let send = tool(json!({"type": "scripted", "name": "send", "error": "no {{arguments.to}}"})).unwrap();
        let failed = send.perform(&call(None)).await;
        assert_eq!(failed, Ok(CallOutcome::Failed(json!({"error": "no ann"}))));
    }
}
