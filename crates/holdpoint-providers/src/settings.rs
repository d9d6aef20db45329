//! The operator's file of providers. Definitions and callers refer to its entries by name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use holdpoint_core::{TenantId, WorkflowId};
use holdpoint_engine::extension::{Extension, HookFuture, NodeTypes};
use holdpoint_engine::{Engine, Options};
use serde::Deserialize;
use serde_json::Value;

use super::claude::{self, Claude};
use super::langgraph::{self, LangGraph};
use super::metrics::ProviderMetrics;
use super::node::ProviderNode;
use super::port::AnyProvider;
use super::{NODE_TYPE, Provider, ProviderError, code, graphs};

/// The default time after which the lock of a handle expires if it is not renewed.
const LOCK_MS: u64 = 30_000;
/// The default time that a graph waits for answers.
const EXPIRES_MS: u64 = 7 * 24 * 3_600_000;
/// The default retention time of a handle after its graph has ended.
const KEEP_MS: u64 = 24 * 3_600_000;
const PAUSES_MAX: u32 = 100;
const TURNS_MAX: u64 = 1000;
/// The highest `turnsMax`. The turns of a key are counted at the start of each.
const TURNS_LIMIT: u64 = 100_000;
/// The kinds that other parts of the engine use.
const RESERVED: [&str; 4] = ["agent", "claude", "langgraph", "native"];
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
    turns_max: Option<u64>,
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
        if file.turns_max.is_some_and(|most| !(1..=TURNS_LIMIT).contains(&most)) {
            return Err(BadProviders::new("turnsMax", format!("must be 1 to {TURNS_LIMIT}")));
        }
        if file.pauses_max == Some(0) || file.processes_max == Some(0) {
            return Err(BadProviders::new("pausesMax, processesMax", "must be 1 or more"));
        }
        Ok(Self { file, folder, base: base.to_owned() })
    }
}

/// The extension for providers. Add it with [`Options::extension`](holdpoint_engine::Options::extension).
#[derive(Clone, Debug, Default)]
pub struct Providers {
    kinds: BTreeMap<String, ProviderKind>,
    /// Folder of the session folders of `claude` programs.
    pub(crate) sessions: PathBuf,
    pub(crate) limits: ProviderLimits,
    pub(crate) metrics: Arc<ProviderMetrics>,
}

/// The providers of one kind. The kind is the part of the name of a graph before the colon.
#[derive(Clone, Debug)]
enum ProviderKind {
    /// The name of the graph is `SERVER/GRAPH` or `GRAPH`.
    Servers(BTreeMap<String, AnyProvider>),
    /// The name of the graph is the name of its provider.
    Named(BTreeMap<String, AnyProvider>),
    /// One provider has all graphs of the kind.
    Single(AnyProvider),
}

impl ProviderKind {
    /// Returns the provider of a graph, and the name of the graph there.
    fn find<'a>(&self, name: &'a str) -> Option<(&AnyProvider, &'a str)> {
        match self {
            Self::Servers(servers) => {
                let (server, graph) = name.split_once('/').unwrap_or((DEFAULT, name));
                Some((servers.get(server)?, graph))
            }
            Self::Named(named) => Some((named.get(name)?, name)),
            Self::Single(provider) => Some((provider, name)),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ProviderLimits {
    pub lock_ms: u64,
    pub expires_ms: u64,
    pub keep_ms: u64,
    pub pauses_max: u32,
    pub turns_max: u64,
}

impl Default for ProviderLimits {
    fn default() -> Self {
        Self {
            lock_ms: LOCK_MS,
            expires_ms: EXPIRES_MS,
            keep_ms: KEEP_MS,
            pauses_max: PAUSES_MAX,
            turns_max: TURNS_MAX,
        }
    }
}

impl Providers {
    /// Returns the extension with the providers of the operator's file.
    pub fn new(settings: ProviderSettings) -> Result<Self, BadProviders> {
        let ProviderSettings { file, folder, base } = settings;
        let named = |kind: &str, name: &str, bad: BadProviders| {
            BadProviders::new(format!("{kind}.{name}.{}", bad.field), bad.message)
        };
        let mut servers = BTreeMap::<String, AnyProvider>::new();
        for (name, settings) in file.langgraph {
            let server = LangGraph::new(settings, &base).map_err(|bad| named("langgraph", &name, bad))?;
            servers.insert(name, Arc::new(server));
        }
        let sessions = folder.join("claude");
        let slots = claude::ProcessSlots::new(file.processes_max);
        let mut claudes = BTreeMap::<String, AnyProvider>::new();
        for (name, settings) in file.claude {
            let agent = Claude::new(settings, &base, &sessions, slots.clone())
                .map_err(|bad| named("claude", &name, bad))?;
            claudes.insert(name, Arc::new(agent));
        }
        let default = ProviderLimits::default();
        let limits = ProviderLimits {
            lock_ms: file.lock_ms.unwrap_or(default.lock_ms),
            expires_ms: file.expires_ms.unwrap_or(default.expires_ms),
            keep_ms: file.keep_ms.unwrap_or(default.keep_ms),
            pauses_max: file.pauses_max.unwrap_or(default.pauses_max),
            turns_max: file.turns_max.unwrap_or(default.turns_max),
        };
        let kinds = [
            ("langgraph".to_owned(), ProviderKind::Servers(servers)),
            ("claude".to_owned(), ProviderKind::Named(claudes)),
        ];
        Ok(Self { kinds: kinds.into(), sessions, limits, metrics: Arc::default() })
    }

    /// Adds a provider of a new kind. Its graphs are `KIND:NAME`, with any name.
    pub fn add(mut self, kind: &str, provider: impl Provider) -> Result<Self, BadProviders> {
        let is_valid = WorkflowId::parse(kind).is_ok()
            && kind.starts_with(|first: char| first.is_ascii_lowercase())
            && kind.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-');
        if !is_valid {
            let message =
                "must begin with a lower-case letter and have only lower-case letters, digits, _ and -";
            return Err(BadProviders::new("kind", message));
        }
        if RESERVED.contains(&kind) || self.kinds.contains_key(kind) {
            return Err(BadProviders::new("kind", format!("{kind} is in use; choose another kind")));
        }
        self.kinds.insert(kind.to_owned(), ProviderKind::Single(Arc::new(provider)));
        Ok(self)
    }

    /// Returns the measures of the turns of this process.
    pub fn metrics(&self) -> &ProviderMetrics {
        &self.metrics
    }

    /// Returns the providers of an engine. Without the extension, an engine has none.
    pub(crate) fn of(engine: &Engine) -> &Self {
        static NONE: LazyLock<Providers> = LazyLock::new(Providers::default);
        engine.extension().unwrap_or(&NONE)
    }

    /// Returns the provider of a graph such as `langgraph:content_review`, and the name of the graph there.
    pub(crate) fn find(
        &self,
        graph: &str,
        tenant: &TenantId,
    ) -> Result<(AnyProvider, String), ProviderError> {
        let (kind, name) = graph.split_once(':').unwrap_or((graph, ""));
        let Some(providers) = self.kinds.get(kind) else {
            let prefixes = [vec!["native:".to_owned()], self.prefixes()].concat().join(" or ");
            return Err(unknown(graph, &format!("its name must begin with {prefixes}")));
        };
        match providers.find(name).filter(|(provider, _)| provider.tenants().admit(tenant)) {
            Some((provider, name)) if !name.is_empty() => Ok((provider.clone(), name.to_owned())),
            _ => {
                let why =
                    "it is not in the operator's file of providers (see --providers), or not for this tenant";
                Err(unknown(graph, why))
            }
        }
    }

    fn prefixes(&self) -> Vec<String> {
        self.kinds.keys().map(|kind| format!("{kind}:")).collect()
    }
}

/// Adds a provider to the options of an engine that may have others, such as those of the operator's file.
pub trait ProviderOptions: Sized {
    /// Adds a provider of a new kind. See [`Providers::add`].
    fn provider(self, kind: &str, provider: impl Provider) -> Result<Self, BadProviders>;
}

impl ProviderOptions for Options {
    fn provider(self, kind: &str, provider: impl Provider) -> Result<Self, BadProviders> {
        let known = self.added_extension::<Providers>().cloned();
        Ok(self.extension(known.unwrap_or_default().add(kind, provider)?))
    }
}

impl Extension for Providers {
    fn add_nodes(&self, types: &mut NodeTypes) {
        types.effect(NODE_TYPE, ProviderNode { prefixes: self.prefixes() });
    }

    fn offered_workflow(&self, tenant: &TenantId, id: &WorkflowId) -> Option<Value> {
        self.find(id.as_str(), tenant).ok()?;
        Some(graphs::graph_workflow(id.as_str()))
    }

    fn upkeep<'a>(&'a self, engine: &'a Engine) -> Option<HookFuture<'a>> {
        Some(Box::pin(graphs::expire_handles(engine)))
    }
}

fn unknown(graph: &str, why: &str) -> ProviderError {
    ProviderError::permanent(code::MISCONFIGURED, format!("there is no graph {graph:?}: {why}"))
}
