//! The port of a provider: the operations that a runtime of graphs must offer. LangGraph Server and the Claude Agent SDK
//! implement it here; other crates can implement it too and add their provider with
//! [`Providers::add`](crate::Providers::add).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use holdpoint_core::agent::ReasoningVisibility;
use holdpoint_engine::{OperatorApproval, Tenants};
use serde_json::Value;

use crate::{LockedHandle, ProviderAnswers, ProviderInterrupt};

/// A runtime that executes graphs. The engine holds the lock of the handle during every call, so that at most one process
/// of the cluster calls a provider about a graph.
///
/// A provider can report its progress during a call with [`LockedHandle::report`]. Reports are optional: only the
/// outcome counts.
///
/// A start or an answer is one attempt. Its id, [`LockedHandle::attempt`], is the same for every retry. After a crash the
/// engine first calls [`Provider::probe`], and sends the attempt again only if it has no result.
pub trait Provider: Send + Sync + 'static {
    /// Returns the name of the provider for the log.
    fn name(&self) -> &str;

    /// Returns the tenants that may use the provider.
    fn tenants(&self) -> &Tenants;

    /// Returns the requirements of the operator for the approvals of its graphs.
    fn approval(&self) -> Option<&OperatorApproval> {
        None
    }

    /// Returns the visibility of the reasoning that the provider reports. Hidden reasoning is not recorded.
    fn reasoning(&self) -> ReasoningVisibility {
        ReasoningVisibility::Hidden
    }

    /// Returns the initial reference to the state at the provider, before the first request.
    fn plan(&self, handle: &LockedHandle) -> Value;

    /// Starts the graph and waits until it is interrupted or ends. A repeated call of the same attempt continues the
    /// first one.
    fn start(
        &self,
        handle: &LockedHandle,
        input: &Value,
    ) -> impl Future<Output = Result<ProviderOutcome, ProviderError>> + Send;

    /// Starts a further turn with this input on the state that the last turn left, and waits until the graph is
    /// interrupted or ends. The last turn may have failed or been cancelled. A repeated call of the same attempt
    /// continues the first one. Fails with [`code::STATE_LOST`] if [`LockedHandle::has_executed`] is true and the
    /// provider has no state; otherwise the graph starts from its beginning.
    fn next_turn(
        &self,
        handle: &LockedHandle,
        input: &Value,
    ) -> impl Future<Output = Result<ProviderOutcome, ProviderError>> + Send;

    /// Sends the answers and waits until the graph is interrupted again or ends.
    fn resume(
        &self,
        handle: &LockedHandle,
        answers: &ProviderAnswers,
    ) -> impl Future<Output = Result<ProviderOutcome, ProviderError>> + Send;

    /// Returns the state of the attempt.
    fn probe(&self, handle: &LockedHandle) -> impl Future<Output = Result<Probe, ProviderError>> + Send;

    /// Stops the graph. Succeeds if it has already ended.
    fn cancel(&self, handle: &LockedHandle) -> impl Future<Output = Result<(), ProviderError>> + Send;

    /// Deletes the state at the provider. Succeeds if there is none.
    fn forget(&self, handle: &LockedHandle) -> impl Future<Output = Result<(), ProviderError>> + Send;
}

/// The outcome of a start or an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ProviderOutcome {
    /// The graph ended with this output.
    Completed(Value),
    /// The graph waits for an answer.
    Interrupted(ProviderInterrupt),
    /// The graph was cancelled at the provider.
    Cancelled,
}

/// The state of an attempt at the provider.
#[derive(Clone, Debug, PartialEq)]
pub enum Probe {
    /// The provider has not received the attempt. It can be sent.
    NotStarted,
    /// The attempt is running. Sending it again waits for its end.
    Running,
    /// The attempt has ended.
    Settled(ProviderOutcome),
}

/// An error of a provider. Every reader of the run can see the message, so it contains no address, id or path of the
/// provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderError {
    /// The code; see [`code`].
    pub code: &'static str,
    /// The message.
    pub message: String,
    /// True if the attempt can be retried after a probe.
    pub is_transient: bool,
}

impl ProviderError {
    /// Returns an error that a retry may resolve.
    pub fn transient(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), is_transient: true }
    }

    /// Returns an error that a retry does not resolve.
    pub fn permanent(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), is_transient: false }
    }
}

/// Error codes. `docs/providers.md` documents them.
pub mod code {
    /// The connection failed or broke, or the provider responded with a server error.
    pub const UNREACHABLE: &str = "provider_unreachable";
    /// The provider rejected the credentials.
    pub const AUTH: &str = "provider_auth";
    /// The provider rejected the request, or its response cannot be parsed.
    pub const REJECTED: &str = "provider_rejected";
    /// Another run is active on the same state.
    pub const BUSY: &str = "provider_busy";
    /// The provider did not answer in time.
    pub const TIMEOUT: &str = "provider_timeout";
    /// The graph itself failed.
    pub const GRAPH: &str = "graph_error";
    /// The provider no longer has the state.
    pub const STATE_LOST: &str = "state_lost";
    /// The process of the provider ended unexpectedly.
    pub const CRASHED: &str = "provider_crashed";
    /// The settings of the provider are wrong.
    pub const MISCONFIGURED: &str = "provider_misconfigured";
    /// The version of the provider is not supported.
    pub const VERSION: &str = "provider_version";
    /// Another process has taken the lock. Further writes of this process are rejected.
    pub const LOCK_LOST: &str = "lock_lost";
    /// The data of the interrupt exceeds the size limit.
    pub const TOO_LARGE: &str = "interrupt_too_large";
}

type ProviderFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, ProviderError>> + Send + 'a>>;

/// The object-safe form of [`Provider`].
pub(crate) trait ErasedProvider: Send + Sync {
    fn name(&self) -> &str;
    fn tenants(&self) -> &Tenants;
    fn approval(&self) -> Option<&OperatorApproval>;
    fn reasoning(&self) -> ReasoningVisibility;
    fn plan(&self, handle: &LockedHandle) -> Value;
    fn start<'a>(&'a self, handle: &'a LockedHandle, input: &'a Value)
    -> ProviderFuture<'a, ProviderOutcome>;
    fn next_turn<'a>(
        &'a self,
        handle: &'a LockedHandle,
        input: &'a Value,
    ) -> ProviderFuture<'a, ProviderOutcome>;
    fn resume<'a>(
        &'a self,
        handle: &'a LockedHandle,
        answers: &'a ProviderAnswers,
    ) -> ProviderFuture<'a, ProviderOutcome>;
    fn probe<'a>(&'a self, handle: &'a LockedHandle) -> ProviderFuture<'a, Probe>;
    fn cancel<'a>(&'a self, handle: &'a LockedHandle) -> ProviderFuture<'a, ()>;
    fn forget<'a>(&'a self, handle: &'a LockedHandle) -> ProviderFuture<'a, ()>;
}

/// A provider of any type.
pub(crate) type AnyProvider = Arc<dyn ErasedProvider>;

impl fmt::Debug for dyn ErasedProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl<T: Provider> ErasedProvider for T {
    fn name(&self) -> &str {
        Provider::name(self)
    }

    fn tenants(&self) -> &Tenants {
        Provider::tenants(self)
    }

    fn approval(&self) -> Option<&OperatorApproval> {
        Provider::approval(self)
    }

    fn reasoning(&self) -> ReasoningVisibility {
        Provider::reasoning(self)
    }

    fn plan(&self, handle: &LockedHandle) -> Value {
        Provider::plan(self, handle)
    }

    fn start<'a>(
        &'a self,
        handle: &'a LockedHandle,
        input: &'a Value,
    ) -> ProviderFuture<'a, ProviderOutcome> {
        Box::pin(Provider::start(self, handle, input))
    }

    fn next_turn<'a>(
        &'a self,
        handle: &'a LockedHandle,
        input: &'a Value,
    ) -> ProviderFuture<'a, ProviderOutcome> {
        Box::pin(Provider::next_turn(self, handle, input))
    }

    fn resume<'a>(
        &'a self,
        handle: &'a LockedHandle,
        answers: &'a ProviderAnswers,
    ) -> ProviderFuture<'a, ProviderOutcome> {
        Box::pin(Provider::resume(self, handle, answers))
    }

    fn probe<'a>(&'a self, handle: &'a LockedHandle) -> ProviderFuture<'a, Probe> {
        Box::pin(Provider::probe(self, handle))
    }

    fn cancel<'a>(&'a self, handle: &'a LockedHandle) -> ProviderFuture<'a, ()> {
        Box::pin(Provider::cancel(self, handle))
    }

    fn forget<'a>(&'a self, handle: &'a LockedHandle) -> ProviderFuture<'a, ()> {
        Box::pin(Provider::forget(self, handle))
    }
}
