//! The operator's file of providers. Definitions and callers refer to its entries by name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use holdpoint_core::TenantId;
use serde::Deserialize;
use serde_json::Value;

use super::claude::{self, Claude};
use super::langgraph::{self, LangGraph};
use super::{Provider, ProviderError, code};
use crate::operator::{OperatorApproval, Tenants};

/// The default time after which the lock of a handle expires if it is not renewed.
const LOCK_MS: u64 = 30_000;
/// The default time that a graph waits for answers.
const EXPIRES_MS: u64 = 7 * 24 * 3_600_000;
/// The default retention time of a handle after its graph has ended.
const KEEP_MS: u64 = 24 * 3_600_000;
const PAUSES_MAX: u32 = 100;
/// The server of a graph whose name contains no server.
const DEFAULT: &str = "default";

/// An invalid file of providers.
#[derive(Debug, thiserror::Error)]
#[error("{field}: {message}")]
pub struct BadProviders {
    /// Path of the invalid member.
    pub field: String,
    /// The reason.
    pub message: String,
}

impl BadProviders {
    pub(crate) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

/// The parsed file of providers: the graphs `langgraph:…` and `claude:…`, and the limits of handles.
#[derive(Clone, Debug)]
pub struct ProviderSettings {
    file: ProvidersFile,
    /// Folder for the local state of providers, one subfolder per provider type.
    pub folder: PathBuf,
    /// Folder that relative paths in the file refer to.
    base: PathBuf,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ProvidersFile {
    #[serde(default)]
    langgraph: BTreeMap<String, langgraph::LangGraphSettings>,
    #[serde(default)]
    claude: BTreeMap<String, claude::ClaudeSettings>,
    lock_ms: Option<u64>,
    expires_ms: Option<u64>,
    keep_ms: Option<u64>,
    pauses_max: Option<u32>,
    /// The maximum number of concurrent `claude` programs.
    processes_max: Option<usize>,
}

impl Default for ProviderSettings {
    fn default() -> Self {
        Self { file: ProvidersFile::default(), folder: PathBuf::from("providers"), base: PathBuf::new() }
    }
}

impl ProviderSettings {
    /// Parses the file. Relative paths in it refer to `base`; `folder` is for the local state of providers.
    pub fn parse(text: &str, base: &Path, folder: PathBuf) -> Result<Self, BadProviders> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| BadProviders::new("providers", format!("is not JSON: {error}")))?;
        let file: ProvidersFile = serde_json::from_value(value)
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

/// The providers of the engine.
#[derive(Debug, Default)]
pub(crate) struct Providers {
    langgraph: BTreeMap<String, Provider>,
    claude: BTreeMap<String, Provider>,
    /// Folder of the session folders of `claude` programs.
    pub(crate) sessions: PathBuf,
    pub(crate) limits: ProviderLimits,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ProviderLimits {
    pub lock_ms: u64,
    pub expires_ms: u64,
    pub keep_ms: u64,
    pub pauses_max: u32,
}

impl Default for ProviderLimits {
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
        let slots = claude::ProcessSlots::new(file.processes_max);
        let mut claudes = BTreeMap::new();
        for (name, settings) in file.claude {
            let made = Claude::new(settings, &base, &sessions, slots.clone())
                .map_err(|bad| named("claude", &name, bad))?;
            claudes.insert(name, Provider::Claude(Arc::new(made)));
        }
        let default = ProviderLimits::default();
        let limits = ProviderLimits {
            lock_ms: file.lock_ms.unwrap_or(default.lock_ms),
            expires_ms: file.expires_ms.unwrap_or(default.expires_ms),
            keep_ms: file.keep_ms.unwrap_or(default.keep_ms),
            pauses_max: file.pauses_max.unwrap_or(default.pauses_max),
        };
        Ok(Self { langgraph, claude: claudes, sessions, limits })
    }

    /// Returns the provider of a graph such as `langgraph:content_review`, and the name of the graph there.
    pub(crate) fn find(&self, graph: &str, tenant: &TenantId) -> Result<(Provider, String), ProviderError> {
        let (kind, name) = graph.split_once(':').unwrap_or((graph, ""));
        let (all, place, name) = match kind {
            "langgraph" => {
                let (server, assistant) = name.split_once('/').unwrap_or((DEFAULT, name));
                (&self.langgraph, server, assistant)
            }
            "claude" => (&self.claude, name, name),
            _ => return Err(unknown(graph, "its name must begin with native:, langgraph: or claude:")),
        };
        let found = all.get(place).filter(|provider| provider.tenants().admit(tenant));
        match found {
            Some(provider) if !name.is_empty() => Ok((provider.clone(), name.to_owned())),
            _ => Err(unknown(graph, "it is not in the operator's file of providers (see --providers)")),
        }
    }
}

fn unknown(graph: &str, why: &str) -> ProviderError {
    ProviderError::permanent(code::MISCONFIGURED, format!("there is no graph {graph:?}: {why}"))
}

impl Provider {
    /// Returns the operator's requirements for approvals.
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
