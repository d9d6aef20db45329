//! Agents: their definitions, and the messages to and from them.

use std::borrow::Cow;

use holdpoint_ids::{InputMode, Role, RunId, RunRequestOrigin, Status, StrictValue, Transport, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use serde_with::skip_serializing_none;

use crate::basics::{NO_CONTROL, not_null};
use crate::mailbox::DispatchOptions;
pub use crate::threads::{
    CancelThread, InterruptThread, ThreadInterrupted, ThreadRun, ThreadRunNow, ThreadRuns, TokenUsage,
};
use crate::{Instant, Object};

/// The largest number of characters in the id of a message.
pub const MESSAGE_ID_CHARS_MAX: usize = 128;

/// The body of `PUT /v1/agents/{agentId}`. A rejected definition is reported with its invalid member.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(example = json!({"model": {"use": "main"}, "instructions": "You answer mail."}))]
pub struct AgentDefinition {
    /// The id of the agent, as in the path.
    #[serde(default)]
    #[schemars(
        with = "String",
        length(min = limits::AGENT_ID_CHARS_MIN, max = limits::AGENT_NAME_CHARS_MAX),
        regex(pattern = "^[A-Za-z0-9._-]+$")
    )]
    pub agent_id: Option<String>,
    /// The name that people see.
    #[schemars(length(min = 1))]
    pub name: Option<String>,
    /// The purpose of the agent.
    pub description: Option<String>,
    /// The system prompt.
    pub instructions: Option<String>,
    /// The model. `{use: NAME}` names a connection of the operator.
    pub model: Object,
    /// The tools; see docs/agents-tools.md.
    #[serde(default)]
    #[schemars(with = "Vec<Object>")]
    pub tools: Option<Vec<Object>>,
    /// The rules for tool calls; see docs/permissions.md.
    pub permissions: Option<Object>,
    /// The effect of a denied call: error returns an error to the model (default), block_run fails the run.
    #[serde(default)]
    #[schemars(with = "String", extend("enum" = ["error", "block_run"]))]
    pub on_deny: Option<String>,
    /// The approvers of tool calls, and timeoutMs and editable.
    #[serde(default)]
    #[schemars(with = "Object")]
    pub approval: Option<Object>,
    /// as_decided executes each call once it is decided (default); wait_all waits until all calls are decided.
    #[serde(default)]
    #[schemars(with = "String", extend("enum" = ["as_decided", "wait_all"]))]
    pub resume: Option<String>,
    /// The execution of several calls of one reply; parallel by default.
    #[serde(default)]
    #[schemars(with = "String", extend("enum" = ["parallel", "sequential"]))]
    pub tool_execution: Option<String>,
    /// Limits of a run: steps, tokens and timeMs; history: the messages of earlier runs of the thread that the model gets;
    /// and threadTokens: the tokens of all replies of the thread.
    #[serde(default)]
    #[schemars(with = "Object")]
    pub limits: Option<Object>,
    /// The first state of a run.
    #[serde(default)]
    #[schemars(with = "Object")]
    pub state: Option<Object>,
    /// The source of the confidence of replies, for models that report none: self_rated lets the model rate its reply,
    /// logprobs uses the probabilities of its tokens (only with the provider openai).
    #[serde(default)]
    #[schemars(extend("enum" = ["self_rated", "logprobs", null]))]
    pub confidence: Option<String>,
    /// Replies of the model with a confidence below this value wait for a decision.
    #[schemars(range(min = 0, max = 1))]
    pub escalation_threshold: Option<f64>,
}

/// A registered agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentRegistered {
    /// The id of the agent.
    pub agent_id: String,
    /// The number of the revision, from 1.
    #[schemars(range(min = 1))]
    pub revision: u64,
}

/// The latest revision of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    /// The id of the agent.
    pub agent_id: String,
    /// The number of the revision, from 1.
    #[schemars(range(min = 1))]
    pub revision: u64,
    /// The instant of this revision.
    pub updated_at: Instant,
    /// The definition as it was registered.
    // Without the title, generators name its type AgentDefinition, which is the type of the request.
    #[schemars(with = "Object", title = "StoredDefinition")]
    pub definition: Value,
}

/// The agents of a tenant, by id.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentList {
    /// The agents of this page.
    pub agents: Vec<ListedAgent>,
    /// The cursor of the next page. Absent on the last page.
    pub next_cursor: Option<String>,
}

/// An agent in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListedAgent {
    /// The id of the agent.
    pub agent_id: String,
    /// The name of the agent.
    pub name: String,
    /// The number of the revision, from 1.
    #[schemars(range(min = 1))]
    pub revision: u64,
    /// The instant of the latest revision.
    pub updated_at: Instant,
}

/// The body of `POST /v1/agents/{agentId}/runs`: a text or messages.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(
    extend("oneOf" = [{"required": ["message"]}, {"required": ["messages"]}]),
    example = json!({"message": "Hello"})
)]
pub struct StartAgent {
    /// The thread of the run. The default is a new thread.
    #[schemars(length(min = 1, max = limits::THREAD_CHARS_MAX), regex(pattern = NO_CONTROL))]
    pub thread_id: Option<String>,
    /// The text of a user message. Not together with messages.
    #[serde(default, deserialize_with = "not_null")]
    #[schemars(with = "String", length(min = 1))]
    pub message: Option<String>,
    /// Messages to the agent. Not together with message.
    #[serde(default, deserialize_with = "not_null")]
    #[schemars(with = "Vec<MessageInput>", length(min = 1, max = limits::MESSAGES_MAX))]
    pub messages: Option<Vec<MessageInput>>,
    /// Tags of a new run.
    #[schemars(length(max = limits::TAGS_MAX), inner(length(max = limits::TAG_CHARS_MAX)))]
    pub tags: Option<Vec<String>>,
    /// Any data for a new run.
    pub metadata: Option<Object>,
    /// Options of the dispatch that the messages create.
    pub dispatch: Option<DispatchOptions>,
}

/// The body of `POST /v1/threads/{threadId}/messages`: a text or messages.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(
    extend("oneOf" = [{"required": ["message"]}, {"required": ["messages"]}]),
    example = json!({"message": "Hello"})
)]
pub struct SayInThread {
    /// The agent that receives the messages. The default is the agent of the latest run of the thread.
    pub agent_id: Option<String>,
    /// The text of a user message. Not together with messages.
    #[serde(default, deserialize_with = "not_null")]
    #[schemars(with = "String", length(min = 1))]
    pub message: Option<String>,
    /// Messages to the agent. Not together with message.
    #[serde(default, deserialize_with = "not_null")]
    #[schemars(with = "Vec<MessageInput>", length(min = 1, max = limits::MESSAGES_MAX))]
    pub messages: Option<Vec<MessageInput>>,
    /// interrupt_then_queue cancels the open run and also requires the scope runs:cancel. steer is an alias of
    /// live_then_queue.
    #[schemars(with = "Option<String>", extend("enum" = [
        "queue", "live_then_queue", "steer", "interrupt_then_queue", "resume_open_run", null
    ]))]
    pub mode: Option<InputMode>,
    /// Tags of a new run.
    #[schemars(length(max = limits::TAGS_MAX), inner(length(max = limits::TAG_CHARS_MAX)))]
    pub tags: Option<Vec<String>>,
    /// Any data for a new run.
    pub metadata: Option<Object>,
    /// Options of the dispatch that the messages create.
    pub dispatch: Option<DispatchOptions>,
}

/// The body of `POST /v1/runs/{runId}/inputs`: a text or messages.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    extend("oneOf" = [{"required": ["message"]}, {"required": ["messages"]}]),
    example = json!({"message": "Hello"})
)]
pub struct TellRun {
    /// The text of a user message. Not together with messages.
    #[serde(default, deserialize_with = "not_null")]
    #[schemars(with = "String", length(min = 1))]
    pub message: Option<String>,
    /// Messages to the agent. Not together with message.
    #[serde(default, deserialize_with = "not_null")]
    #[schemars(with = "Vec<MessageInput>", length(min = 1, max = limits::MESSAGES_MAX))]
    pub messages: Option<Vec<MessageInput>>,
    /// Options of the dispatch that the messages create.
    pub dispatch: Option<DispatchOptions>,
}

/// A message to an agent.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageInput {
    /// The id of the message, unique in the request. The default is a generated id.
    #[schemars(length(min = 1, max = MESSAGE_ID_CHARS_MAX), regex(pattern = NO_CONTROL))]
    pub id: Option<String>,
    /// The author of the message. The default is user.
    pub role: Option<InputRole>,
    /// A text or a list of parts.
    #[schemars(extend("anyOf" = [
        {"type": "string", "minLength": 1},
        {"type": "array", "items": {"type": "object"}, "minItems": 1},
    ]))]
    pub content: StrictValue,
}

/// The author of a message to an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum InputRole {
    /// A user of the agent.
    #[default]
    User,
    /// The application that uses the agent.
    System,
}

/// The run that has accepted a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageAccepted {
    /// The id of the run.
    pub run_id: RunId,
    /// The id of the thread.
    pub thread_id: String,
    /// The status of the run.
    pub status: Status,
}

/// A page of the messages of a thread, the oldest first.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageList {
    /// The messages of this page.
    pub messages: Vec<Message>,
    /// The cursor of the next page. Absent on the last page.
    pub next_cursor: Option<String>,
}

/// A message and its position in its thread.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// The id of the message.
    pub id: String,
    /// The author of the message.
    pub role: Role,
    /// A text or a list of parts. In a message of a tool: the result of the call.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub content: Value,
    /// The tool calls of a message of the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<MessageCall<'static>>,
    /// The call whose result this message of a tool is.
    pub call_id: Option<String>,
    /// The last message that the model had seen when it sent this message.
    pub after: Option<String>,
    /// The principal that sent the message.
    pub by: Option<String>,
    /// The origin of the request that sent the message. Missing in messages of models, tools and earlier versions.
    pub origin: Option<RunRequestOrigin>,
    /// The protocol of that request. Missing like the origin.
    pub transport: Option<Transport>,
    /// Metadata of the client.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// The id of the run.
    pub run_id: RunId,
    /// The sequence of the event that recorded the message.
    pub seq: u64,
    /// The instant of the message.
    pub at: Instant,
    /// The position of the message in the thread, for the parameter after.
    pub cursor: String,
}

/// A tool call in a message of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessageCall<'a> {
    /// The id of the call.
    pub id: Cow<'a, str>,
    /// The name of the tool.
    pub name: Cow<'a, str>,
    /// The arguments of the call.
    pub arguments: Cow<'a, Value>,
}
