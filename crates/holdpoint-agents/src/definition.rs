//! Agent definitions. A stored definition names no secret, no program and no model address: these belong to the
//! operator's connections, which definitions name with `use`.

use holdpoint_core::agent::{ApprovalSettings, ReasoningVisibility, ResumePolicy};
use holdpoint_core::limits;
use holdpoint_core::permission::PermissionSet;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::connection::{FALLBACKS, fallback_field, fallbacks_of};
use super::model::ConfidenceRule;
use super::rules::parse_permissions;
use super::tool::{declared_flaw, only_for_operators};

/// The number of model replies in one run if the definition does not set it.
const STEPS_DEFAULT: u32 = 25;
const STEPS_MAX: u32 = 1000;
/// The number of messages of earlier runs of the thread in a prompt if the definition does not set it.
const HISTORY_DEFAULT: u32 = 200;
const HISTORY_MAX: u32 = 10_000;
/// Members of an approval that a definition may set for its calls, besides `timeoutMs` and `editable`.
const APPROVAL_MEMBERS: [&str; 6] = [
    "approversList",
    "audience",
    "requiredApprovals",
    "rejectionPolicy",
    "requesterMayNotApprove",
    "profile",
];

/// A flaw of a definition, with the field that is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct AgentFlaw {
    /// The path of the field, such as `tools[0].name`.
    pub field: String,
    /// The reason why the field is invalid.
    pub message: String,
}

impl AgentFlaw {
    pub(crate) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub id: String,
    pub instructions: Option<String>,
    pub model: Value,
    pub tools: Vec<Value>,
    pub permissions: PermissionSet,
    pub block_run_on_deny: bool,
    pub approval: ApprovalSettings,
    pub resume: ResumePolicy,
    pub sequential: bool,
    pub steps_max: u32,
    pub tokens_max: Option<u64>,
    /// The number of tokens of all runs of the thread.
    pub thread_tokens_max: Option<u64>,
    /// The number of messages of earlier runs of the thread in a prompt.
    pub history_max: u32,
    /// The source of the confidence of replies, for models that report none.
    pub confidence: Option<ConfidenceRule>,
    /// The confidence below which an approver must ratify a reply.
    pub escalation_threshold: Option<f64>,
    /// True if readers of the run and of the thread get the reasoning of the model.
    pub shows_reasoning: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawDefinition {
    agent_id: String,
    #[serde(default, rename = "name")]
    _name: Option<String>,
    #[serde(default, rename = "description")]
    _description: Option<String>,
    #[serde(default)]
    instructions: Option<String>,
    model: Value,
    #[serde(default)]
    tools: Vec<Value>,
    #[serde(default)]
    permissions: Option<Value>,
    #[serde(default)]
    on_deny: OnDeny,
    #[serde(default)]
    approval: Map<String, Value>,
    #[serde(default)]
    resume: ResumePolicy,
    #[serde(default)]
    tool_execution: ToolExecution,
    #[serde(default)]
    limits: AgentLimits,
    #[serde(default)]
    confidence: Option<ConfidenceRule>,
    #[serde(default)]
    escalation_threshold: Option<f64>,
    #[serde(default)]
    reasoning: ReasoningVisibility,
    /// The initial state of a run. The workflow that the agent is registered as declares it as its variables.
    #[serde(default)]
    state: Map<String, Value>,
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum OnDeny {
    #[default]
    Error,
    BlockRun,
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum ToolExecution {
    #[default]
    Parallel,
    Sequential,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AgentLimits {
    steps: Option<u32>,
    tokens: Option<u64>,
    thread_tokens: Option<u64>,
    history: Option<u32>,
    /// The time limit of a run. The workflow that the agent is registered as enforces it.
    #[serde(default, rename = "timeMs")]
    _time_ms: Option<u64>,
}

impl Definition {
    pub(crate) fn parse(value: &Value) -> Result<Self, AgentFlaw> {
        let raw: RawDefinition = serde_json::from_value(value.clone())
            .map_err(|error| AgentFlaw::new("agent", error.to_string()))?;
        check_id(&raw.agent_id)?;
        check_model(&raw.model)?;
        let tools = Value::Array(raw.tools.clone());
        if let Some(bad) = only_for_operators(&tools).or_else(|| declared_flaw(&raw.tools)) {
            return Err(AgentFlaw::new(bad.field, bad.message));
        }
        let permissions = match &raw.permissions {
            None => PermissionSet::default(),
            Some(rules) => parse_permissions(rules)?,
        };
        let steps_max = raw.limits.steps.unwrap_or(STEPS_DEFAULT);
        if steps_max == 0 || steps_max > STEPS_MAX {
            return Err(AgentFlaw::new("limits.steps", format!("must be 1 to {STEPS_MAX}")));
        }
        let history_max = raw.limits.history.unwrap_or(HISTORY_DEFAULT);
        if history_max > HISTORY_MAX {
            return Err(AgentFlaw::new("limits.history", format!("must be 0 to {HISTORY_MAX}")));
        }
        if let Some((name, _)) = raw.state.iter().find(|(_, value)| value.is_null()) {
            return Err(AgentFlaw::new(format!("state.{name}"), "must not be null"));
        }
        if raw.escalation_threshold.is_some_and(|threshold| !(0.0..=1.0).contains(&threshold)) {
            return Err(AgentFlaw::new("escalationThreshold", "must be a number from 0 to 1"));
        }
        Ok(Self {
            id: raw.agent_id,
            instructions: raw.instructions,
            model: raw.model,
            tools: raw.tools,
            permissions,
            block_run_on_deny: raw.on_deny == OnDeny::BlockRun,
            approval: parse_approval(raw.approval)?,
            resume: raw.resume,
            sequential: raw.tool_execution == ToolExecution::Sequential,
            steps_max,
            tokens_max: raw.limits.tokens,
            thread_tokens_max: raw.limits.thread_tokens,
            history_max,
            confidence: raw.confidence,
            escalation_threshold: raw.escalation_threshold,
            shows_reasoning: raw.reasoning == ReasoningVisibility::Shown,
        })
    }
}

/// Returns the variables of the workflow that an agent is registered as: the initial state of the agent.
pub(crate) fn variables(definition: &Value) -> Vec<Value> {
    let kind = |value: &Value| match value {
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::String(_) | Value::Null => "string",
    };
    let state = definition.get("state").and_then(Value::as_object).into_iter().flatten();
    state.map(|(name, value)| json!({ "name": name, "type": kind(value), "defaultValue": value })).collect()
}

fn check_id(id: &str) -> Result<(), AgentFlaw> {
    let length = id.chars().count();
    let fits = (limits::AGENT_ID_CHARS_MIN..=limits::AGENT_NAME_CHARS_MAX).contains(&length);
    let plain = id.chars().all(|one| one.is_ascii_alphanumeric() || "-_.".contains(one));
    if fits && plain {
        return Ok(());
    }
    let (least, most) = (limits::AGENT_ID_CHARS_MIN, limits::AGENT_NAME_CHARS_MAX);
    Err(AgentFlaw::new(
        "agentId",
        format!("must be {least} to {most} letters, digits, dashes, dots and underscores"),
    ))
}

/// Checks the members of a model and of its fallbacks, which have none of their own.
fn check_model(model: &Value) -> Result<(), AgentFlaw> {
    const RESERVED: [&str; 5] = ["apiKey", "baseUrl", "headers", "file", FALLBACKS];
    check_safe("model", model, &RESERVED[..4])?;
    for (at, fallback) in fallbacks_of(model.get(FALLBACKS))?.iter().enumerate() {
        check_safe(&fallback_field(at), fallback, &RESERVED)?;
    }
    Ok(())
}

/// Rejects members that only the operator's configuration may have.
fn check_safe(field: &str, value: &Value, members: &[&str]) -> Result<(), AgentFlaw> {
    match members.iter().find(|member| value.get(**member).is_some()) {
        None => Ok(()),
        Some(member) => {
            let message =
                "is only valid in the operator's configuration folder; name a connection with \"use\"";
            Err(AgentFlaw::new(format!("{field}.{member}"), message))
        }
    }
}

fn parse_approval(mut approval: Map<String, Value>) -> Result<ApprovalSettings, AgentFlaw> {
    let timeout_ms =
        match approval.shift_remove("timeoutMs") {
            None => None,
            Some(ms) => Some(ms.as_u64().ok_or_else(|| {
                AgentFlaw::new("approval.timeoutMs", "must be a whole number of milliseconds")
            })?),
        };
    let editable = match approval.shift_remove("editable") {
        None => true,
        Some(flag) => {
            flag.as_bool().ok_or_else(|| AgentFlaw::new("approval.editable", "must be true or false"))?
        }
    };
    if let Some(name) = approval.keys().find(|name| !APPROVAL_MEMBERS.contains(&name.as_str())) {
        let message = format!("is not known; known: timeoutMs, editable, {}", APPROVAL_MEMBERS.join(", "));
        return Err(AgentFlaw::new(format!("approval.{name}"), message));
    }
    Ok(ApprovalSettings { arguments_fixed: !editable, people: approval, timeout_ms })
}
