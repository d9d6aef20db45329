//! Requests to open interrupts about tool calls. Their data contains the call and the effect of an answer.

use serde_json::{Map, Value, json};

use super::{PendingToolCall, SuspendTicket, Suspension, Ticket, ToolCall, ToolCallResumeMode};
use crate::interrupt::{Interrupt, InterruptRequest, Kind};
use crate::limits;
use crate::permission::{RuleNote, call_digest};
use crate::refusal::json_bytes;
use crate::run::Run;
use crate::schema::Schema;

/// The action of a suspension whose call needs permission.
pub const CONFIRM: &str = "tool:PermissionConfirm";
/// The action of a suspension whose call is performed by the front end.
pub const CLIENT_TOOL: &str = "tool:ClientTool";
/// The action of a suspension whose call began and has no known outcome.
pub const OUTCOME_UNKNOWN: &str = "tool:OutcomeUnknown";
/// The member of the interrupt data with the JSON Schema of the tool's arguments. Edits must match it.
pub const ARGUMENTS_SCHEMA: &str = "argumentsSchema";
/// The member of the interrupt data with the id of a tool call that a provider makes.
pub const PROVIDER_CALL: &str = "providerCall";

/// The approvers of a tool call and the time they have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApprovalSettings {
    /// True if an approver may not edit the arguments of the call.
    pub arguments_fixed: bool,
    /// Members of the interrupt data about the approvers, such as `approversList` and `requiredApprovals`.
    pub people: Map<String, Value>,
    /// The time until the interrupt expires.
    pub timeout_ms: Option<u64>,
}

impl ApprovalSettings {
    /// Returns true if an approver may edit the arguments of a call. Several approvers must approve the same arguments.
    pub fn offers_edits(&self) -> bool {
        !self.arguments_fixed && !self.needs_several_approvals()
    }

    fn needs_several_approvals(&self) -> bool {
        self.people.get("requiredApprovals").and_then(Value::as_u64).is_some_and(|required| required > 1)
    }
}

impl Interrupt {
    /// Returns the id of the ticket, if the interrupt is about a tool call.
    pub fn ticket_id(&self) -> Option<&str> {
        self.data.pointer("/suspension/id").and_then(Value::as_str)
    }

    /// Returns the schema that edits of the call must match.
    pub(crate) fn arguments_schema(&self) -> Option<&Value> {
        self.call_id().and_then(|_| self.data.get(ARGUMENTS_SCHEMA))
    }

    /// Returns the id of the call of a provider that the interrupt is about. Such an interrupt guards its node, not only
    /// the call, because the provider makes the call.
    pub fn provider_call(&self) -> Option<&str> {
        self.data.get(PROVIDER_CALL).and_then(Value::as_str)
    }

    /// Returns the id of the tool call that the interrupt is about.
    pub fn call_id(&self) -> Option<&str> {
        self.data.pointer("/toolCall/id").and_then(Value::as_str)
    }
}

impl Run {
    /// Returns the interrupt that a decision is about. `name` is the id of its ticket or of its call. An interrupt that
    /// already has this decision takes precedence over the last one: a client may repeat its decision after a new
    /// interrupt about the same call was opened.
    pub fn find_call_interrupt(&self, name: &str, decision: &str) -> Option<&Interrupt> {
        let named = |asked: &&Interrupt| asked.ticket_id() == Some(name) || asked.call_id() == Some(name);
        let named = || self.interrupts.iter().rev().map(AsRef::as_ref).filter(named);
        let has_decision = |asked: &&Interrupt| asked.decisions().any(|(made, _)| made == decision);
        named().find(has_decision).or_else(|| named().next())
    }
}

impl Ticket {
    /// Creates the approval of a call that a permission rule asks about.
    pub fn permission(key: String, call: &ToolCall, settings: &ApprovalSettings) -> Self {
        let suspension = Suspension {
            id: format!("perm_{}", call.id),
            action: CONFIRM.to_owned(),
            message: format!("The agent wants to call {}. Allow it?", call.name),
            parameters: json!({ "name": call.name, "arguments": call.arguments }),
            response_schema: None,
        };
        let title = format!("Call {}", call.name);
        let actions: &[&str] = match settings.arguments_fixed {
            true => &["accept", "reject", "ask"],
            false => &["accept", "edit-accept", "reject", "ask"],
        };
        Self::approval(key, call, settings, &title, actions, &suspension)
    }

    /// Adds the reason and source of the rule that asks, for the approver.
    #[must_use]
    pub fn with_rule(mut self, note: &RuleNote) -> Self {
        let Some(text) = note.text() else { return self };
        self.request.data["rule"] = json!(note);
        if let Some(Value::String(message)) = self.request.data.pointer_mut("/suspension/message") {
            *message = format!("{message} {text}");
        }
        self
    }

    /// Creates the approval that asks to repeat a call whose outcome is unknown. `why` is the reason, or None if the
    /// process that performed the call stopped.
    pub fn outcome_unknown(
        key: String,
        call: &ToolCall,
        settings: &ApprovalSettings,
        why: Option<&str>,
    ) -> Self {
        let why = why.unwrap_or("the server stopped while it was under way");
        let message = format!("It is unknown whether {} was carried out: {why}.", call.name);
        let title = format!("Outcome of {} is unknown", call.name);
        Self::ask_to_repeat(key, call, settings, &title, &message)
    }

    /// Creates the approval that asks again about an approved call that was not made, because its server is
    /// unreachable.
    pub fn call_not_made(key: String, call: &ToolCall, settings: &ApprovalSettings, why: &str) -> Self {
        let message = format!("{} was not carried out: {why}.", call.name);
        Self::ask_to_repeat(key, call, settings, &format!("{} was not carried out", call.name), &message)
    }

    /// Creates the approval that asks to repeat a call.
    fn ask_to_repeat(
        key: String,
        call: &ToolCall,
        settings: &ApprovalSettings,
        title: &str,
        message: &str,
    ) -> Self {
        let edit = if settings.needs_several_approvals() { "" } else { " edit to say what it returned," };
        let suspension = Suspension {
            id: format!("unknown_{}_{}", call.id, call.begun),
            action: OUTCOME_UNKNOWN.to_owned(),
            message: format!("{message} Accept to call it again,{edit} reject to leave it."),
            parameters: json!({ "name": call.name, "arguments": call.effective_arguments() }),
            response_schema: None,
        };
        let actions = ["accept", "edit-accept", "reject", "ask"];
        Self::approval(key, call, settings, title, &actions, &suspension)
    }

    /// Adds the schema of the tool's arguments if edits are offered. A schema that is invalid or too large for the
    /// interrupt data is left out. Then only the tool itself checks its arguments.
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
        settings: &ApprovalSettings,
        title: &str,
        actions: &[&str],
        suspension: &Suspension,
    ) -> Self {
        let mut data = settings.people.clone();
        let arguments = call.effective_arguments();
        // Edits are not offered to several approvers: each of them could approve a different payload.
        let offered = |action: &&&str| **action != "edit-accept" || !settings.needs_several_approvals();
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
        insert_call(&mut data, call, arguments, suspension, mode);
        let mut request = InterruptRequest::new(Kind::Approval, Value::Object(data));
        request.key = Some(key);
        request.timeout_ms = settings.timeout_ms;
        Self { request, mode }
    }

    /// Creates the request for a call that the front end performs. The answer is the result.
    pub fn client_tool(key: String, call: &ToolCall) -> Self {
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
        Self::tool_suspension(key, call, &ApprovalSettings::default(), &wanted)
    }

    /// Creates the request for a call that its tool suspended.
    pub fn tool_suspension(
        key: String,
        call: &ToolCall,
        settings: &ApprovalSettings,
        wanted: &SuspendTicket,
    ) -> Self {
        let mode = wanted.resume_mode;
        let mut data = settings.people.clone();
        data.insert("customKind".to_owned(), json!(wanted.suspension.action));
        data.insert("message".to_owned(), json!(wanted.suspension.message));
        insert_call(&mut data, call, call.effective_arguments(), &wanted.suspension, mode);
        let mut request = InterruptRequest::new(Kind::Custom, Value::Object(data));
        request.key = Some(key);
        request.resume_schema = Some(answer_schema(wanted.suspension.response_schema.as_ref()));
        request.timeout_ms = settings.timeout_ms;
        Self { request, mode }
    }
}

fn insert_call(
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

/// Returns the schema of the answer: `{action: "resume", result}` with a result that the tool accepts, or
/// `{action: "cancel"}`.
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
