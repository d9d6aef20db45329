//! Providers: external runtimes that execute graphs. An interrupt of a graph becomes an interrupt of its run, and the
//! answer is sent back to the provider.
//!
//! Each start and each answer is one attempt with a stable id. Before the node retries an attempt, it reads the state
//! of the attempt from the provider, so that no attempt takes effect twice.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

mod claude;
pub(crate) mod conversion;
mod langgraph;
mod locked_handle;
mod node;
mod provider_interrupt;
mod settings;
#[cfg(test)]
mod tests;

pub(crate) use claude::sessions;
pub(crate) use locked_handle::{GraphAttempt, LockedHandle};
pub(crate) use node::ProviderNode;
pub(crate) use provider_interrupt::{ProviderAnswers, ProviderInterrupt, ProviderInterruptItem};
pub(crate) use settings::Providers;
pub use settings::{BadProviders, ProviderSettings};

/// A runtime that executes graphs. Every call requires the lock of the handle.
#[derive(Clone)]
pub(crate) enum Provider {
    LangGraph(Arc<langgraph::LangGraph>),
    Claude(Arc<claude::Claude>),
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The outcome of a start or an answer.
#[derive(Clone, PartialEq)]
pub(crate) enum ProviderOutcome {
    Completed(Value),
    Interrupted(ProviderInterrupt),
    /// The graph was cancelled at the provider.
    Cancelled,
}

/// The state of an attempt at the provider.
#[derive(Clone, PartialEq)]
pub(crate) enum Probe {
    /// The provider has not received the attempt. It can be sent.
    NotStarted,
    /// The attempt is running. Sending it again waits for its end.
    Running,
    Settled(ProviderOutcome),
}

/// An error of a provider. Every reader of the run can see the message, so it contains no address, id or path of the
/// provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProviderError {
    pub code: &'static str,
    pub message: String,
    /// The attempt can be retried after a probe.
    pub is_transient: bool,
}

impl ProviderError {
    /// Returns an error that a retry may resolve.
    pub(crate) fn transient(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), is_transient: true }
    }

    /// Returns an error that a retry does not resolve.
    pub(crate) fn permanent(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), is_transient: false }
    }
}

/// Error codes. `docs/providers.md` documents them.
pub(crate) mod code {
    /// The connection failed or broke, or the provider responded with a server error.
    pub(crate) const UNREACHABLE: &str = "provider_unreachable";
    /// The provider rejected the credentials.
    pub(crate) const AUTH: &str = "provider_auth";
    /// The provider rejected the request, or its response cannot be parsed.
    pub(crate) const REJECTED: &str = "provider_rejected";
    /// Another run is active on the same state.
    pub(crate) const BUSY: &str = "provider_busy";
    pub(crate) const TIMEOUT: &str = "provider_timeout";
    /// The graph itself failed.
    pub(crate) const GRAPH: &str = "graph_error";
    /// The provider no longer has the state.
    pub(crate) const STATE_LOST: &str = "state_lost";
    pub(crate) const CRASHED: &str = "provider_crashed";
    pub(crate) const MISCONFIGURED: &str = "provider_misconfigured";
    pub(crate) const VERSION: &str = "provider_version";
    /// Another process has taken the lock. Further writes of this process are rejected.
    pub(crate) const LOCK_LOST: &str = "lock_lost";
    /// The data of the interrupt exceeds the size limit.
    pub(crate) const TOO_LARGE: &str = "interrupt_too_large";
}

impl Provider {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::LangGraph(_) => "langgraph",
            Self::Claude(_) => "claude",
        }
    }

    /// Returns the initial reference to the state at the provider, before the first request.
    pub(crate) fn plan(&self, handle: &LockedHandle) -> Value {
        match self {
            Self::LangGraph(langgraph) => langgraph.plan(handle),
            Self::Claude(claude) => claude.plan(handle),
        }
    }

    /// Starts the graph and waits until it is interrupted or ends. A repeated call of the same attempt continues the
    /// first one.
    pub(crate) async fn start(
        &self,
        handle: &LockedHandle,
        input: &Value,
    ) -> Result<ProviderOutcome, ProviderError> {
        match self {
            Self::LangGraph(langgraph) => langgraph.start(handle, input).await,
            Self::Claude(claude) => claude.start(handle, input).await,
        }
    }

    /// Sends the answers and waits until the graph is interrupted again or ends.
    pub(crate) async fn resume(
        &self,
        handle: &LockedHandle,
        answers: &ProviderAnswers,
    ) -> Result<ProviderOutcome, ProviderError> {
        match self {
            Self::LangGraph(langgraph) => langgraph.resume(handle, answers).await,
            Self::Claude(claude) => claude.resume(handle, answers).await,
        }
    }

    /// Returns the state of the attempt.
    pub(crate) async fn probe(&self, handle: &LockedHandle) -> Result<Probe, ProviderError> {
        match self {
            Self::LangGraph(langgraph) => langgraph.probe(handle).await,
            Self::Claude(claude) => claude.probe(handle).await,
        }
    }

    /// Stops the graph. Succeeds if it has already ended.
    pub(crate) async fn cancel(&self, handle: &LockedHandle) -> Result<(), ProviderError> {
        match self {
            Self::LangGraph(langgraph) => langgraph.cancel(handle).await,
            Self::Claude(claude) => claude.cancel(handle).await,
        }
    }

    /// Deletes the state at the provider. Succeeds if there is none.
    pub(crate) async fn forget(&self, handle: &LockedHandle) -> Result<(), ProviderError> {
        match self {
            Self::LangGraph(langgraph) => langgraph.forget(handle).await,
            Self::Claude(claude) => claude.forget(handle).await,
        }
    }
}
