//! The capabilities of an agent, as front ends read them.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// The capabilities of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgUiCapabilities {
    /// The name and the version.
    pub identity: AgUiIdentity,
    /// The transports.
    pub transport: AgUiTransport,
    /// The tool calls.
    pub tools: AgUiTools,
    /// The output.
    pub output: AgUiOutput,
    /// The shared state.
    pub state: AgUiState,
    /// The other agents that can take part in a run.
    pub multi_agent: AgUiMultiAgent,
    /// The reasoning that the agent sends.
    pub reasoning: AgUiReasoning,
    /// The content that the agent accepts beside texts.
    pub multimodal: AgUiMultimodal,
    /// The forms of human participation.
    pub human_in_the_loop: AgUiHumanInTheLoop,
    /// Capabilities beyond those of the protocol.
    pub custom: AgUiCustom,
}

/// The name and the version of an agent.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgUiIdentity {
    /// The name of the agent.
    pub name: String,
    /// `agent` or `workflow`.
    #[serde(rename = "type")]
    pub kind: Cow<'static, str>,
    /// The name of the server software.
    pub provider: Cow<'static, str>,
    /// The version of the server.
    pub version: Cow<'static, str>,
    /// The description of the agent.
    pub description: Option<String>,
}

/// The transports of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgUiTransport {
    /// True if events are streamed.
    pub streaming: bool,
    /// True if WebSocket is supported.
    pub websocket: bool,
    /// True if the binary format is supported.
    pub http_binary: bool,
    /// True if push notifications are supported.
    pub push_notifications: bool,
    /// True if a client can continue a stream after a lost connection.
    pub resumable: bool,
}

/// The tool calls that an agent can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgUiTools {
    /// True if the agent calls tools.
    pub supported: bool,
    /// True if one message can have several calls.
    pub parallel_calls: bool,
    /// True if the client can provide tools.
    pub client_provided: bool,
}

/// The output of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgUiOutput {
    /// True if the output can follow a schema.
    pub structured_output: bool,
}

/// The state that an agent shares with a front end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgUiState {
    /// True if snapshots of the state are sent.
    pub snapshots: bool,
    /// True if changes of the state are sent.
    pub deltas: bool,
    /// True if the agent has a memory beyond the thread.
    pub memory: bool,
    /// True if the state survives a restart.
    pub persistent_state: bool,
}

/// The other agents that can take part in a run of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgUiMultiAgent {
    /// True if other agents or workflows can take part.
    pub supported: bool,
    /// True if the agent delegates tasks and gets their results.
    pub delegation: bool,
    /// True if the agent transfers the conversation to another agent.
    pub handoffs: bool,
}

/// The reasoning that an agent sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgUiReasoning {
    /// True if the definition of the agent shows the reasoning of its model.
    pub supported: bool,
    /// True if it is sent while the model writes it.
    pub streaming: bool,
}

/// The content that an agent accepts beside texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgUiMultimodal {
    /// The content of messages of the user.
    pub input: AgUiMultimodalInput,
}

/// The content that an agent accepts in messages of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgUiMultimodalInput {
    /// True if the model accepts images.
    pub image: bool,
    /// True if the model accepts audio.
    pub audio: bool,
    /// True if the model accepts video.
    pub video: bool,
    /// True if the model accepts PDF documents.
    pub pdf: bool,
    /// True if the model accepts other files.
    pub file: bool,
}

/// The forms of human participation in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgUiHumanInTheLoop {
    /// True if people can take part in a run.
    pub supported: bool,
    /// True if tool calls can wait for approval.
    pub approvals: bool,
    /// True if a user can intervene in a run.
    pub interventions: bool,
    /// True if a user can give feedback.
    pub feedback: bool,
    /// True if a run can wait for answers.
    pub interrupts: bool,
    /// True if a user can edit a call and approve it.
    pub approve_with_edits: bool,
}

/// Capabilities beyond those of the protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgUiCustom {
    /// Capabilities of Holdpoint.
    pub holdpoint: AgUiHoldpoint,
}

/// The version of the protocol, and the id of the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgUiHoldpoint {
    /// The version of AG-UI.
    pub protocol_version: Cow<'static, str>,
    /// The id of the agent.
    pub agent_id: String,
}
