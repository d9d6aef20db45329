//! The capabilities of an agent, as front ends read them.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::basics::Supported;

/// The capabilities of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgUiCapabilities {
    pub identity: AgUiIdentity,
    pub transport: AgUiTransport,
    pub tools: AgUiTools,
    pub output: AgUiOutput,
    pub state: AgUiState,
    pub multi_agent: Supported,
    pub reasoning: Supported,
    pub human_in_the_loop: AgUiHumanInTheLoop,
    pub custom: AgUiCustom,
}

/// The name and the version of an agent.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgUiIdentity {
    pub name: String,
    /// `agent` or `workflow`.
    #[serde(rename = "type")]
    pub kind: Cow<'static, str>,
    pub provider: Cow<'static, str>,
    pub version: Cow<'static, str>,
    pub description: Option<String>,
}

/// The transports of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgUiTransport {
    pub streaming: bool,
    pub websocket: bool,
    pub http_binary: bool,
    pub push_notifications: bool,
    pub resumable: bool,
}

/// The calls of tools that an agent can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgUiTools {
    pub supported: bool,
    pub parallel_calls: bool,
    pub client_provided: bool,
}

/// The output of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgUiOutput {
    pub structured_output: bool,
}

/// The state that an agent shares with a front end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgUiState {
    pub snapshots: bool,
    pub deltas: bool,
    pub memory: bool,
    pub persistent_state: bool,
}

/// The part of people in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgUiHumanInTheLoop {
    pub supported: bool,
    pub approvals: bool,
    pub interventions: bool,
    pub feedback: bool,
    pub interrupts: bool,
    pub approve_with_edits: bool,
}

/// Capabilities beyond those of the protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgUiCustom {
    pub holdpoint: AgUiHoldpoint,
}

/// The version of the protocol, and the id of the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgUiHoldpoint {
    pub protocol_version: Cow<'static, str>,
    pub agent_id: String,
}
