//! A profile of the agent as the operator declares it: which program, which model, which tools, and which of them
//! nobody has to be asked about.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use holdpoint_core::permission::Glob;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::BadProviders;
use crate::agent::model::KeyRef;
use crate::operator::{OperatorApproval, Tenants};

/// The question that an agent asks people. It is always brought to them, and has no effect but their answer.
pub(super) const QUESTION: &str = "AskUserQuestion";
/// How names of tools begin that come from MCP servers.
const MCP: &str = "mcp__";

const TURN_MS: u64 = 600_000;
const FIRST_EVENT_MS: u64 = 15_000;
const MAX_RETRIES: u32 = 2;

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Settings {
    /// The program; with a slash in it, looked for from the folder of the settings.
    pub(super) binary: String,
    /// The only version that may be run; without it any that can defer.
    pub(super) version: Option<String>,
    pub(super) model: Option<String>,
    pub(super) api_key: Option<KeyRef>,
    pub(super) base_url: Option<String>,
    /// Tools of the agent's own that it is given.
    #[serde(default)]
    pub(super) tools: Vec<String>,
    /// Tools that somebody must allow although `ungated` names them. What neither names is gated.
    #[serde(default)]
    pub(super) gated: Vec<Glob>,
    /// Tools that nobody is asked about. Those of MCP servers then run; the agent's own run as far as its own rules let
    /// them without a question, which confines files to the working folder and shells to harmless commands.
    #[serde(default)]
    pub(super) ungated: Vec<Glob>,
    /// Tools whose calls may be made again when nobody knows whether they were made.
    #[serde(default)]
    pub(super) idempotent: Vec<Glob>,
    /// MCP servers as the agent's own configuration has them.
    #[serde(default)]
    mcp_servers: Map<String, Value>,
    /// Put behind the agent's own system prompt.
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
}

impl fmt::Debug for Settings {
    // Servers may carry keys in their environment.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("version", &self.version).finish_non_exhaustive()
    }
}

impl Settings {
    /// Looked over, with files where they are.
    pub(super) fn ready(mut self, base: &Path) -> Result<Self, BadProviders> {
        if self.binary.is_empty() {
            return Err(BadProviders::new("binary", "must name the agent's program"));
        }
        if self.binary.contains('/') {
            self.binary = base.join(&self.binary).to_string_lossy().into_owned();
        }
        let odd =
            |tool: &&String| tool.is_empty() || tool.contains([',', ' ', '\n']) || tool.starts_with('-');
        if let Some(tool) = self.tools.iter().find(odd) {
            return Err(BadProviders::new("tools", format!("{tool:?} is no name of a tool")));
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

    /// How long the program may take until it says anything.
    pub(super) fn first_event(&self) -> Duration {
        Duration::from_millis(self.first_event_ms.unwrap_or(FIRST_EVENT_MS))
    }

    /// How often the program itself asks the model again.
    pub(super) fn max_retries(&self) -> u32 {
        self.max_retries.unwrap_or(MAX_RETRIES)
    }

    pub(super) fn is_gated(&self, tool: &str) -> bool {
        tool == QUESTION || matches(&self.gated, tool) || !matches(&self.ungated, tool)
    }

    /// A tool that nobody is asked about, of a server whose calls the agent's own rules would always ask about.
    pub(super) fn is_free(&self, tool: &str) -> bool {
        tool.starts_with(MCP) && !self.is_gated(tool)
    }

    pub(super) fn is_idempotent(&self, tool: &str) -> bool {
        tool == QUESTION || matches(&self.idempotent, tool)
    }

    pub(super) fn mcp_config(&self) -> Value {
        json!({ "mcpServers": self.mcp_servers })
    }

    /// Changes with what tools there are: a pause needs on its end what was there at its beginning.
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

    fn settings(more: Value) -> Settings {
        let mut all = json!({"binary": "claude"});
        for (name, value) in more.as_object().unwrap() {
            all[name] = value.clone();
        }
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn what_nobody_names_is_gated_and_gated_wins() {
        let some = settings(json!({"ungated": ["Read", "mcp__files__*", "AskUserQuestion"],
            "gated": ["mcp__files__delete"], "idempotent": ["mcp__pub__*"]}));
        assert!(some.is_gated("Bash"));
        assert!(!some.is_gated("Read"));
        assert!(some.is_gated("mcp__files__delete"));
        assert!(some.is_gated(QUESTION), "a question is for people");
        assert!(some.is_free("mcp__files__read"));
        assert!(!some.is_free("Read"), "the agent's own rules stay");
        assert!(some.is_idempotent("mcp__pub__publish"));
        assert!(!some.is_idempotent("Bash"));
    }

    #[test]
    fn settings_that_cannot_work_are_refused_by_name() {
        let bad = |more: Value| settings(more).ready(Path::new("/base")).unwrap_err().field;
        assert_eq!(bad(json!({"binary": ""})), "binary");
        assert_eq!(bad(json!({"tools": ["Bash,Read"]})), "tools");
        assert_eq!(bad(json!({"baseUrl": "ftp://x"})), "baseUrl");
        assert_eq!(bad(json!({"firstEventMs": 1})), "firstEventMs");
        let fine = settings(json!({"binary": "bin/claude"})).ready(Path::new("/base")).unwrap();
        assert_eq!(fine.binary, "/base/bin/claude");
    }
}
