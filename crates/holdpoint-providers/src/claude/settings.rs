//! A profile of the agent in the operator's file: program, model, tools, and the tools that need no approval.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use holdpoint_core::agent::ReasoningVisibility;
use holdpoint_core::permission::Glob;
use holdpoint_engine::extension::KeyRef;
use holdpoint_engine::{OperatorApproval, Tenants};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::BadProviders;

/// The tool with which an agent asks users. It always opens an interrupt and has no effect besides the answer.
pub(super) const QUESTION: &str = "AskUserQuestion";
/// Prefix of tools of MCP servers.
const MCP: &str = "mcp__";

const TURN_MS: u64 = 600_000;
const FIRST_EVENT_MS: u64 = 15_000;
const MAX_RETRIES: u32 = 2;

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ClaudeSettings {
    /// The program. A path with a slash is relative to the folder of the settings file.
    pub(super) binary: String,
    /// The required version. Without it, every version that can defer calls is accepted.
    pub(super) version: Option<String>,
    pub(super) model: Option<String>,
    pub(super) api_key: Option<KeyRef>,
    pub(super) base_url: Option<String>,
    /// The built-in tools that the agent may use.
    #[serde(default)]
    pub(super) tools: Vec<String>,
    /// Tools that need approval although `ungated` lists them. Tools in neither list are gated.
    #[serde(default)]
    pub(super) gated: Vec<Glob>,
    /// Tools that need no approval. Every call of a listed MCP tool is allowed. A call of a listed built-in tool is made
    /// only if the rules of the program allow it without asking: for files in the working folder and for harmless shell
    /// commands.
    #[serde(default)]
    pub(super) ungated: Vec<Glob>,
    /// Tools whose calls can be repeated if their outcome is unknown.
    #[serde(default)]
    pub(super) idempotent: Vec<Glob>,
    /// MCP servers in the configuration format of the program.
    #[serde(default)]
    mcp_servers: Map<String, Value>,
    /// Text that is appended to the system prompt.
    pub(super) instructions: Option<String>,
    turn_ms: Option<u64>,
    first_event_ms: Option<u64>,
    max_retries: Option<u32>,
    /// The tenants that may use the profile.
    #[serde(default)]
    pub(super) tenants: Tenants,
    /// Requirements for approvals of its calls.
    #[serde(default)]
    pub(super) approval: OperatorApproval,
    /// The visibility of the reasoning of the agent.
    #[serde(default)]
    pub(super) reasoning: ReasoningVisibility,
}

impl fmt::Debug for ClaudeSettings {
    // The environment of MCP servers can contain keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClaudeSettings").field("version", &self.version).finish_non_exhaustive()
    }
}

impl ClaudeSettings {
    /// Checks the settings and resolves relative paths.
    pub(super) fn validate(mut self, base: &Path) -> Result<Self, BadProviders> {
        if self.binary.is_empty() {
            return Err(BadProviders::new("binary", "must be the name or path of the program of the agent"));
        }
        if self.binary.contains('/') {
            self.binary = base.join(&self.binary).to_string_lossy().into_owned();
        }
        let is_invalid =
            |tool: &&String| tool.is_empty() || tool.contains([',', ' ', '\n']) || tool.starts_with('-');
        if let Some(tool) = self.tools.iter().find(is_invalid) {
            return Err(BadProviders::new("tools", format!("{tool:?} is not a valid tool name")));
        }
        if let Some(url) = &self.base_url {
            let known = url::Url::parse(url).is_ok_and(|url| ["http", "https"].contains(&url.scheme()));
            if !known {
                return Err(BadProviders::new("baseUrl", "must be an http or https URL"));
            }
        }
        let within = |ms: Option<u64>| ms.is_none_or(|ms| (100..=24 * 3_600_000).contains(&ms));
        for (field, ms) in [("turnMs", self.turn_ms), ("firstEventMs", self.first_event_ms)] {
            if !within(ms) {
                return Err(BadProviders::new(field, "must be 100 to 86400000"));
            }
        }
        self.api_key = self.api_key.map(|key| key.in_folder(base));
        Ok(self)
    }

    pub(super) fn turn(&self) -> Duration {
        Duration::from_millis(self.turn_ms.unwrap_or(TURN_MS))
    }

    /// Returns the time limit for the first output of the program.
    pub(super) fn first_event(&self) -> Duration {
        Duration::from_millis(self.first_event_ms.unwrap_or(FIRST_EVENT_MS))
    }

    /// Returns the number of retries of a model call by the program.
    pub(super) fn max_retries(&self) -> u32 {
        self.max_retries.unwrap_or(MAX_RETRIES)
    }

    pub(super) fn is_gated(&self, tool: &str) -> bool {
        tool == QUESTION || matches(&self.gated, tool) || !matches(&self.ungated, tool)
    }

    /// Returns whether the tool belongs to an MCP server and needs no approval. The hook must allow it, because the
    /// rules of the program always ask about tools of MCP servers.
    pub(super) fn is_ungated_mcp_tool(&self, tool: &str) -> bool {
        tool.starts_with(MCP) && !self.is_gated(tool)
    }

    pub(super) fn is_idempotent(&self, tool: &str) -> bool {
        tool == QUESTION || matches(&self.idempotent, tool)
    }

    pub(super) fn mcp_config(&self) -> Value {
        json!({ "mcpServers": self.mcp_servers })
    }

    /// Returns the digest of the tools. A deferred call needs the same tools when the session continues.
    pub(super) fn tools_digest(&self) -> String {
        holdpoint_core::digest(&json!([self.tools, self.mcp_servers]))
    }
}

fn matches(patterns: &[Glob], name: &str) -> bool {
    patterns.iter().any(|pattern| pattern.matches(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(more: Value) -> ClaudeSettings {
        let mut all = json!({"binary": "claude"});
        for (name, value) in more.as_object().unwrap() {
            all[name] = value.clone();
        }
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn unlisted_tools_are_gated_and_gated_overrides_ungated() {
        let some = settings(json!({"ungated": ["Read", "mcp__files__*", "AskUserQuestion"],
            "gated": ["mcp__files__delete"], "idempotent": ["mcp__pub__*"]}));
        assert!(some.is_gated("Bash"));
        assert!(!some.is_gated("Read"));
        assert!(some.is_gated("mcp__files__delete"));
        assert!(some.is_gated(QUESTION), "a question always opens an interrupt");
        assert!(some.is_ungated_mcp_tool("mcp__files__read"));
        assert!(!some.is_ungated_mcp_tool("Read"), "the rules of the program apply");
        assert!(some.is_idempotent("mcp__pub__publish"));
        assert!(!some.is_idempotent("Bash"));
    }

    #[test]
    fn invalid_settings_are_rejected_with_the_name_of_the_field() {
        let bad = |more: Value| settings(more).validate(Path::new("/base")).unwrap_err().field;
        assert_eq!(bad(json!({"binary": ""})), "binary");
        assert_eq!(bad(json!({"tools": ["Bash,Read"]})), "tools");
        assert_eq!(bad(json!({"baseUrl": "ftp://x"})), "baseUrl");
        assert_eq!(bad(json!({"firstEventMs": 1})), "firstEventMs");
        let fine = settings(json!({"binary": "bin/claude"})).validate(Path::new("/base")).unwrap();
        assert_eq!(fine.binary, "/base/bin/claude");
    }
}
