//! Providers: external runtimes that execute graphs. An interrupt of a graph becomes an interrupt of its run, and the
//! answer is sent back to the provider.
//!
//! Each start and each answer is one attempt with a stable id. Before the node retries an attempt, it reads the state
//! of the attempt from the provider, so that no attempt takes effect twice.
//!
//! Add [`Providers`] to the options of the engine, and import [`EngineGraphs`] for `engine.graphs()`. A provider from
//! another crate implements [`Provider`].

#![warn(missing_docs)]

mod claude;
mod conversion;
mod graph_turn;
mod graphs;
mod langgraph;
mod locked_handle;
mod metrics;
mod node;
mod port;
mod progress;
mod provider_interrupt;
mod redaction;
mod settings;
#[cfg(test)]
mod tests;
mod turn_reports;

pub use graphs::{
    EngineGraphs, GraphError, GraphHandle, GraphProgress, GraphResume, GraphStart, GraphStatus, Graphs,
    TurnAnswer, TurnInterrupt, TurnRecord, is_provider_graph,
};
pub(crate) use locked_handle::GraphAttempt;
pub use locked_handle::LockedHandle;
pub use metrics::{ProviderMeasures, ProviderMetrics};
pub(crate) use port::AnyProvider;
pub use port::{Probe, Provider, ProviderError, ProviderOutcome, code};
pub use progress::{ProviderCall, ProviderMessage, ProviderProgress};
pub use provider_interrupt::{ProviderAnswers, ProviderInterrupt, ProviderInterruptItem};
pub use settings::{BadProviders, ProviderOptions, ProviderSettings, Providers};

/// The node type of graphs that run at a provider.
pub const NODE_TYPE: &str = "core.provider";
