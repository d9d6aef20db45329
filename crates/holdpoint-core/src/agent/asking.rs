//! What people are asked about calls: ordinary questions, which name the call and say what an answer does.

use serde_json::{Map, Value, json};

use super::{PendingToolCall, SuspendTicket, Suspension, Ticket, ToolCall, ToolCallResumeMode};
use crate::interrupt::{Interrupt, Kind, Request};
use crate::limits;
use crate::permission::{RuleNote, call_digest};
use crate::refusal::json_bytes;
use crate::run::Run;
use crate::schema::Schema;

/// What front ends tell questions about calls apart by.
pub const CONFIRM: &str = "tool:PermissionConfirm";
pub const CLIENT_TOOL: &str = "tool:ClientTool";
pub const OUTCOME_UNKNOWN: &str = "tool:OutcomeUnknown";
/// The member of a question about a call that has the JSON Schema of the tool's arguments. Edits must match it.
pub const ARGUMENTS_SCHEMA: &str = "argumentsSchema";

/// Who is asked, and how long.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asking {
    /// Whoever allows a call may not change its arguments.
    pub as_it_is: bool,
    /// Members of an approval that name people: `approversList`, `requiredApprovals` and the like.
    pub people: Map<String, Value>,
    pub timeout_ms: Option<u64>,
}

impl Asking {
    fn needs_several(&self) -> bool {
        self.people.get("requiredApprovals").and_then(Value::as_u64).is_some_and(|required| required > 1)
    }
}

impl Interrupt {
    /// Of a question about a call.
    pub fn ticket_id(&self) -> Option<&str> {
        self.data.pointer("/suspension/id").and_then(Value::as_str)
    }

    /// The schema that edits of the call must match.
    pub(crate) fn arguments_schema(&self) -> Option<&Value> {
        self.call_id().and_then(|_| self.data.get(ARGUMENTS_SCHEMA))
    }

    /// The call that the question is about.
    pub fn call_id(&self) -> Option<&str> {
        self.data.pointer("/toolCall/id").and_then(Value::as_str)
    }
}

impl Run {
    /// The question that a decision is about, by the name of its ticket or of its call: the one that has heard this very
    /// decision, or else the last one. A call may be asked about again while whoever decided sends it once more.
    pub fn question_about(&self, name: &str, decision: &str) -> Option<&Interrupt> {
        let named = |asked: &&Interrupt| asked.ticket_id() == Some(name) || asked.call_id() == Some(name);
        let named = || self.interrupts.iter().rev().map(AsRef::as_ref).filter(named);
        let heard = |asked: &&Interrupt| asked.decisions().any(|(made, _)| made == decision);
        named().find(heard).or_else(|| named().next())
    }
}

impl Ticket {
    /// A rule wants somebody to allow the call first.
    pub fn permission(key: String, call: &ToolCall, asking: &Asking) -> Self {
        let suspension = Suspension {
            id: format!("perm_{}", call.id),
            action: CONFIRM.to_owned(),
            message: format!("The agent wants to call {}. Allow it?", call.name),
            parameters: json!({ "name": call.name, "arguments": call.arguments }),
            response_schema: None,
        };
        let title = format!("Call {}", call.name);
        let actions: &[&str] = match asking.as_it_is {
            true => &["accept", "reject", "ask"],
            false => &["accept", "edit-accept", "reject", "ask"],
        };
        Self::approval(key, call, asking, (&title, actions), &suspension)
    }

    /// Shows the approver the words of the rule that asks.
    #[must_use]
    pub fn with_rule(mut self, note: &RuleNote) -> Self {
        let Some(text) = note.text() else { return self };
        self.request.data["rule"] = json!(note);
        if let Some(Value::String(message)) = self.request.data.pointer_mut("/suspension/message") {
            *message = format!("{message} {text}");
        }
        self
    }

    /// The call was begun, and nobody knows what became of it. `why` is what is known of the reason; nothing when
    /// whoever was at it is gone.
    pub fn outcome_unknown(key: String, call: &ToolCall, asking: &Asking, why: Option<&str>) -> Self {
        let why = why.unwrap_or("the server stopped while it was under way");
        let message = format!("It is unknown whether {} was carried out: {why}.", call.name);
        let title = format!("Outcome of {} is unknown", call.name);
        Self::again(key, call, asking, (&title, &message))
    }

    /// The call was approved and could not be made, because its server is away.
    pub fn not_made(key: String, call: &ToolCall, asking: &Asking, why: &str) -> Self {
        let message = format!("{} was not carried out: {why}.", call.name);
        Self::again(key, call, asking, (&format!("{} was not carried out", call.name), &message))
    }

    /// Asks whether a call that was begun is made again.
    fn again(key: String, call: &ToolCall, asking: &Asking, (title, message): (&str, &str)) -> Self {
        let edit = if asking.needs_several() { "" } else { " edit to say what it returned," };
        let suspension = Suspension {
            id: format!("unknown_{}_{}", call.id, call.begun),
            action: OUTCOME_UNKNOWN.to_owned(),
            message: format!("{message} Accept to call it again,{edit} reject to leave it."),
            parameters: json!({ "name": call.name, "arguments": call.effective_arguments() }),
            response_schema: None,
        };
        let actions = ["accept", "edit-accept", "reject", "ask"];
        Self::approval(key, call, asking, (title, &actions), &suspension)
    }

    /// Adds the schema of the tool's arguments where edits are offered. One that cannot be used, or for which there is no
    /// room, is left out: then only the tool itself judges its arguments.
    pub fn with_schema(mut self, schema: &Value) -> Self {
        let data = &mut self.request.data;
        let offers = |action: &Value| action == "edit-accept";
        let is_editable = data["actions"].as_array().is_some_and(|actions| actions.iter().any(offers));
        let bytes = json_bytes(data) + json_bytes(schema) + ARGUMENTS_SCHEMA.len() + r#","":"#.len();
        let has_room = bytes <= limits::INTERRUPT_DATA_BYTES_MAX;
        if is_editable && has_room && Schema::register(schema).is_ok() {
            data[ARGUMENTS_SCHEMA] = schema.clone();
        }
        self
    }

    fn approval(
        key: String,
        call: &ToolCall,
        asking: &Asking,
        (title, actions): (&str, &[&str]),
        suspension: &Suspension,
    ) -> Self {
        let mut data = asking.people.clone();
        let arguments = call.effective_arguments();
        // Edits are not offered to several approvers: each of them would agree to another payload.
        let offered = |action: &&&str| **action != "edit-accept" || !asking.needs_several();
        let actions: Vec<&&str> = actions.iter().filter(offered).collect();
        data.extend([
            ("artifactId".to_owned(), json!(call.id)),
            ("artifactType".to_owned(), json!("tool.call")),
            ("title".to_owned(), json!(title)),
            ("actions".to_owned(), json!(actions)),
            ("artifactData".to_owned(), json!({ "name": call.name, "arguments": arguments })),
            ("callDigest".to_owned(), json!(call_digest(&call.name, arguments))),
        ]);
        let mode = ToolCallResumeMode::ReplayToolCall;
        about(&mut data, call, arguments, suspension, mode);
        let mut request = Request::new(Kind::Approval, Value::Object(data));
        request.key = Some(key);
        request.timeout_ms = asking.timeout_ms;
        Self { request, mode }
    }

    /// The call is for the front end, which brings the result.
    pub fn of_client(key: String, call: &ToolCall) -> Self {
        let wanted = SuspendTicket {
            suspension: Suspension {
                id: format!("client_{}", call.id),
                action: CLIENT_TOOL.to_owned(),
                message: format!("{} is carried out by the front end.", call.name),
                parameters: call.arguments.clone(),
                response_schema: None,
            },
            pending: PendingToolCall {
                id: call.id.clone(),
                name: call.name.clone(),
                arguments: call.arguments.clone(),
            },
            resume_mode: ToolCallResumeMode::UseDecisionAsToolResult,
        };
        Self::of_tool(key, call, &Asking::default(), &wanted)
    }

    /// A tool itself wants something first.
    pub fn of_tool(key: String, call: &ToolCall, asking: &Asking, wanted: &SuspendTicket) -> Self {
        let mode = wanted.resume_mode;
        let mut data = asking.people.clone();
        data.insert("customKind".to_owned(), json!(wanted.suspension.action));
        data.insert("message".to_owned(), json!(wanted.suspension.message));
        about(&mut data, call, call.effective_arguments(), &wanted.suspension, mode);
        let mut request = Request::new(Kind::Custom, Value::Object(data));
        request.key = Some(key);
        request.resume_schema = Some(answer_schema(wanted.suspension.response_schema.as_ref()));
        request.timeout_ms = asking.timeout_ms;
        Self { request, mode }
    }
}

fn about(
    data: &mut Map<String, Value>,
    call: &ToolCall,
    arguments: &Value,
    suspension: &Suspension,
    mode: ToolCallResumeMode,
) {
    let pending =
        PendingToolCall { id: call.id.clone(), name: call.name.clone(), arguments: arguments.clone() };
    data.insert("toolCall".to_owned(), json!(pending));
    data.insert("suspension".to_owned(), json!(suspension));
    data.insert("resumeMode".to_owned(), json!(mode));
}

/// `{action: "resume", result}` with a result that the tool takes, or `{action: "cancel"}`.
fn answer_schema(result: Option<&Value>) -> Value {
    let result = result.cloned().unwrap_or(Value::Bool(true));
    json!({
        "type": "object",
        "required": ["action"],
        "properties": { "action": { "enum": ["resume", "cancel"] }, "reason": { "type": "string" } },
        "if": { "properties": { "action": { "const": "resume" } } },
        "then": { "properties": { "result": result } },
    })
}
