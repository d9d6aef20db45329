//! Providers: graphs that run somewhere else and pause for people here. What one pauses for is an interrupt of ours, and
//! whoever answers that, over whichever protocol, sends the answer on through one port.
//!
//! A provider is asked to start or to resume once for each answer, under a name that stays the same however often it is
//! tried; before anything is tried again it is asked how far it came.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

pub(crate) mod asking;
mod case;
mod claude;
mod langgraph;
mod node;
mod pause;
mod settings;
#[cfg(test)]
mod tests;

pub(crate) use case::{About, Case};
pub(crate) use claude::sessions;
pub(crate) use node::ProviderNode;
pub(crate) use pause::{Answers, Pause, PauseItem};
pub(crate) use settings::Providers;
pub use settings::{BadProviders, ProviderSettings};

/// Somewhere graphs run. All calls are made by whoever holds the handle's lock.
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

/// How far a provider came with a start or an answer.
#[derive(Clone, PartialEq)]
pub(crate) enum Outcome {
    Completed(Value),
    Paused(Pause),
    /// Somebody stopped it over there.
    Cancelled,
}

/// What a provider knows of an attempt that was begun.
#[derive(Clone, PartialEq)]
pub(crate) enum Probe {
    /// It never arrived, and can be sent.
    NotStarted,
    /// It is at work: the same call again waits for its end.
    Running,
    Settled(Outcome),
}

/// Why a provider did not do what it was asked. The text may be shown to anybody who may see the run: it names nothing
/// by which the provider could be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub code: &'static str,
    pub message: String,
    /// It may pass: asked how far it came, the provider may be tried again.
    pub passing: bool,
}

impl Trouble {
    /// May be gone at the next try.
    pub(crate) fn passing(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), passing: true }
    }

    pub(crate) fn lasting(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), passing: false }
    }
}

/// What is wrong, one word each. Documented in `docs/providers.md`.
pub(crate) mod code {
    /// No connection, or it broke, or the other side failed.
    pub(crate) const UNREACHABLE: &str = "provider_unreachable";
    /// Our credentials are refused.
    pub(crate) const AUTH: &str = "provider_auth";
    /// It does not understand us: our mistake, or another version.
    pub(crate) const REJECTED: &str = "provider_rejected";
    /// Something else is at work on the same state.
    pub(crate) const BUSY: &str = "provider_busy";
    pub(crate) const TIMEOUT: &str = "provider_timeout";
    /// The graph itself failed.
    pub(crate) const GRAPH: &str = "graph_error";
    /// The provider does not know the state any longer.
    pub(crate) const STATE_LOST: &str = "state_lost";
    pub(crate) const CRASHED: &str = "provider_crashed";
    pub(crate) const MISCONFIGURED: &str = "provider_misconfigured";
    pub(crate) const VERSION: &str = "provider_version";
    /// Another node has taken over; whatever is still done here is done in vain.
    pub(crate) const LOCK_LOST: &str = "lock_lost";
    /// What it shows is larger than it may be.
    pub(crate) const TOO_LARGE: &str = "interrupt_too_large";
}

impl Provider {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::LangGraph(_) => "langgraph",
            Self::Claude(_) => "claude",
        }
    }

    /// Where the state will be over there; before anything is sent.
    pub(crate) fn plan(&self, case: &Case) -> Value {
        match self {
            Self::LangGraph(langgraph) => langgraph.plan(case),
            Self::Claude(claude) => claude.plan(case),
        }
    }

    /// Begins, and comes back when the graph pauses or ends. Again under the same name, it waits for what was begun.
    pub(crate) async fn start(&self, case: &Case, input: &Value) -> Result<Outcome, Trouble> {
        match self {
            Self::LangGraph(langgraph) => langgraph.start(case, input).await,
            Self::Claude(claude) => claude.start(case, input).await,
        }
    }

    pub(crate) async fn resume(&self, case: &Case, answers: &Answers) -> Result<Outcome, Trouble> {
        match self {
            Self::LangGraph(langgraph) => langgraph.resume(case, answers).await,
            Self::Claude(claude) => claude.resume(case, answers).await,
        }
    }

    /// How far the attempt of this name came.
    pub(crate) async fn probe(&self, case: &Case) -> Result<Probe, Trouble> {
        match self {
            Self::LangGraph(langgraph) => langgraph.probe(case).await,
            Self::Claude(claude) => claude.probe(case).await,
        }
    }

    /// Stops what is at work. What has ended stays as it is, and that is no trouble.
    pub(crate) async fn cancel(&self, case: &Case) -> Result<(), Trouble> {
        match self {
            Self::LangGraph(langgraph) => langgraph.cancel(case).await,
            Self::Claude(claude) => claude.cancel(case).await,
        }
    }

    /// Deletes the state over there. What is gone is gone, and that is no trouble.
    pub(crate) async fn forget(&self, case: &Case) -> Result<(), Trouble> {
        match self {
            Self::LangGraph(langgraph) => langgraph.forget(case).await,
            Self::Claude(claude) => claude.forget(case).await,
        }
    }
}
