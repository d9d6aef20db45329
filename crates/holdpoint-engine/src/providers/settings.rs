//! The operator's providers: where they are and what they may. Definitions and callers only name them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use holdpoint_core::TenantId;
use serde::Deserialize;
use serde_json::Value;

use super::claude::{self, Claude};
use super::langgraph::{self, LangGraph};
use super::{Provider, Trouble, code};
use crate::operator::{OperatorApproval, Tenants};

/// How long somebody at work on a handle may be silent.
const LOCK_MS: u64 = 30_000;
/// How long a graph waits for its answers.
const EXPIRES_MS: u64 = 7 * 24 * 3_600_000;
/// How long a handle is found after its graph has ended.
const KEEP_MS: u64 = 24 * 3_600_000;
const PAUSES_MAX: u32 = 100;
/// The server of graphs that are named without one.
const DEFAULT: &str = "default";

/// What is wrong with the file, and where.
#[derive(Debug, thiserror::Error)]
#[error("{field}: {message}")]
pub struct BadProviders {
    pub field: String,
    pub message: String,
}

impl BadProviders {
    pub(crate) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

/// What `langgraph:…` and `claude:…` mean here, and how long handles live.
#[derive(Clone, Debug)]
pub struct ProviderSettings {
    file: File,
    /// Where providers that need one have a folder for each handle.
    pub folder: PathBuf,
    /// Where files are that the settings name.
    base: PathBuf,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    #[serde(default)]
    langgraph: BTreeMap<String, langgraph::Settings>,
    #[serde(default)]
    claude: BTreeMap<String, claude::Settings>,
    lock_ms: Option<u64>,
    expires_ms: Option<u64>,
    keep_ms: Option<u64>,
    pauses_max: Option<u32>,
    /// How many programs of `claude` run at a time.
    processes_max: Option<usize>,
}

impl Default for ProviderSettings {
    fn default() -> Self {
        Self { file: File::default(), folder: PathBuf::from("providers"), base: PathBuf::new() }
    }
}

impl ProviderSettings {
    /// Files that it names are looked for in `base`.
    pub fn parse(text: &str, base: &Path, folder: PathBuf) -> Result<Self, BadProviders> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| BadProviders::new("providers", format!("is not JSON: {error}")))?;
        let file: File = serde_json::from_value(value)
            .map_err(|error| BadProviders::new("providers", error.to_string()))?;
        if file.lock_ms.is_some_and(|ms| !(200..=600_000).contains(&ms)) {
            return Err(BadProviders::new("lockMs", "must be 200 to 600000"));
        }
        if file.expires_ms.is_some_and(|ms| ms < 1000) {
            return Err(BadProviders::new("expiresMs", "must be 1000 or more"));
        }
        if file.pauses_max == Some(0) || file.processes_max == Some(0) {
            return Err(BadProviders::new("pausesMax, processesMax", "must be 1 or more"));
        }
        Ok(Self { file, folder, base: base.to_owned() })
    }
}

/// Providers made ready.
#[derive(Debug, Default)]
pub(crate) struct Providers {
    langgraph: BTreeMap<String, Provider>,
    claude: BTreeMap<String, Provider>,
    /// Where the programs of `claude` have their folders.
    pub(crate) sessions: PathBuf,
    pub(crate) limits: Limits,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub lock_ms: u64,
    pub expires_ms: u64,
    pub keep_ms: u64,
    pub pauses_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { lock_ms: LOCK_MS, expires_ms: EXPIRES_MS, keep_ms: KEEP_MS, pauses_max: PAUSES_MAX }
    }
}

impl Providers {
    pub(crate) fn new(settings: ProviderSettings) -> Result<Self, BadProviders> {
        let ProviderSettings { file, folder, base } = settings;
        let named = |kind: &str, name: &str, bad: BadProviders| {
            BadProviders::new(format!("{kind}.{name}.{}", bad.field), bad.message)
        };
        let mut langgraph = BTreeMap::new();
        for (name, settings) in file.langgraph {
            let made = LangGraph::new(settings, &base).map_err(|bad| named("langgraph", &name, bad))?;
            langgraph.insert(name, Provider::LangGraph(Arc::new(made)));
        }
        let sessions = folder.join("claude");
        let children = claude::Children::new(file.processes_max);
        let mut claudes = BTreeMap::new();
        for (name, settings) in file.claude {
            let made = Claude::new(settings, &base, &sessions, children.clone())
                .map_err(|bad| named("claude", &name, bad))?;
            claudes.insert(name, Provider::Claude(Arc::new(made)));
        }
        let default = Limits::default();
        let limits = Limits {
            lock_ms: file.lock_ms.unwrap_or(default.lock_ms),
            expires_ms: file.expires_ms.unwrap_or(default.expires_ms),
            keep_ms: file.keep_ms.unwrap_or(default.keep_ms),
            pauses_max: file.pauses_max.unwrap_or(default.pauses_max),
        };
        Ok(Self { langgraph, claude: claudes, sessions, limits })
    }

    /// The provider of a graph such as `langgraph:content_review`, and what the graph is called there.
    pub(crate) fn find(&self, graph: &str, tenant: &TenantId) -> Result<(Provider, String), Trouble> {
        let (kind, name) = graph.split_once(':').unwrap_or((graph, ""));
        let (all, place, name) = match kind {
            "langgraph" => {
                let (server, assistant) = name.split_once('/').unwrap_or((DEFAULT, name));
                (&self.langgraph, server, assistant)
            }
            "claude" => (&self.claude, name, name),
            _ => return Err(unknown(graph, "graphs begin with native:, langgraph: or claude:")),
        };
        let found = all.get(place).filter(|provider| provider.tenants().admit(tenant));
        match found {
            Some(provider) if !name.is_empty() => Ok((provider.clone(), name.to_owned())),
            _ => Err(unknown(graph, "the operator's file of providers has no such one (see --providers)")),
        }
    }
}

fn unknown(graph: &str, why: &str) -> Trouble {
    Trouble::lasting(code::MISCONFIGURED, format!("there is no graph {graph:?}: {why}"))
}

impl Provider {
    /// Returns what the operator requires of approvals.
    pub(crate) fn approval(&self) -> &OperatorApproval {
        match self {
            Self::LangGraph(langgraph) => langgraph.approval(),
            Self::Claude(claude) => claude.approval(),
        }
    }

    fn tenants(&self) -> &Tenants {
        match self {
            Self::LangGraph(langgraph) => langgraph.tenants(),
            Self::Claude(claude) => claude.tenants(),
        }
    }
}
