//! Tools that agents can call. Each type of tool has a file below.

mod definition;
mod http;
mod mcp;
mod progress;
mod rust;
mod scripted;
mod secret;
mod set;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use holdpoint_core::agent::SuspendTicket;
use holdpoint_core::{RunRef, TenantId};
use serde_json::Value;

use holdpoint_engine::outgoing;

pub(crate) use definition::ToolDependencies;
pub use definition::{BadTools, only_for_operators};
pub(super) use definition::{declared_flaw, schema_flaw};
pub(crate) use mcp::McpServers;
pub use progress::CallReporter;
pub(crate) use progress::ReportQueue;
pub use rust::RustTool;
pub(crate) use set::{RequiredTools, ToolList, ToolOrigin, ToolOwner};
pub use set::{Tools, WorkflowTool};

/// The limit of one response or message of a server. Larger ones are rejected, not truncated.
const RECEIVED_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The description of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// At most 64 letters, digits, `_` and `-`, which all models accept.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// JSON Schema of the arguments, which are an object.
    pub parameters: Value,
    /// True if a call with an unknown outcome may be repeated.
    pub idempotent: bool,
    /// The argument that a permission rule applies to if it names no argument.
    pub primary: Option<String>,
}

/// One call of a tool, with the arguments that were approved.
#[derive(Clone, Debug)]
pub struct Call {
    /// The run of the agent.
    pub of: RunRef,
    /// The id of the call in the run.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments.
    pub arguments: Value,
    /// The same key for every attempt of this call, for services that deduplicate requests.
    pub idempotency_key: String,
    /// The answer to the interrupt about this call, if there was one.
    pub decision: Option<Value>,
    /// Reports the progress of the call.
    pub reporter: CallReporter,
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallOutcome {
    /// The result of the tool.
    Result(Value),
    /// A result with changes of the run's state.
    Changed {
        /// The result of the tool.
        result: Value,
        /// The changes, in order.
        changes: Vec<StateChange>,
    },
    /// The tool reports a failure, which the agent sees.
    Failed(Value),
    /// The tool needs input before it can continue.
    Suspended(Box<SuspendTicket>),
}

/// A change of the run's state by a call. The state is the variables of the run, which front ends show.
#[derive(Clone, Debug, PartialEq)]
pub enum StateChange {
    /// Sets a variable.
    Set(String, Value),
    /// Adds to a number. A variable that is not a number counts as zero. Concurrent additions are all counted.
    Add(String, i64),
}

type ArgumentsCheck = Box<dyn Fn(&Value) -> Result<(), String> + Send + Sync>;

/// The error of a call that was not made, or whose outcome is unknown.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ToolError {
    /// The call was not made. The agent sees the reason.
    #[error("{0}")]
    NotCalled(String),
    /// The call was not made, because the server cannot be reached now.
    #[error("{0}")]
    Unreachable(String),
    /// The outcome is unknown: the call may have been made.
    #[error("{0}")]
    Unknown(String),
}

/// The future of a call.
pub type CallFuture<'a> = Pin<Box<dyn Future<Output = Result<CallOutcome, ToolError>> + Send + 'a>>;
/// The future of a connection attempt.
pub type ReachFuture<'a> = Pin<Box<dyn Future<Output = Result<(), ToolError>> + Send + 'a>>;
/// The future of a list of tools.
pub type ListFuture<'a> = Pin<Box<dyn Future<Output = Result<Vec<Arc<ToolSpec>>, ToolError>> + Send + 'a>>;

/// A source of tools: a single tool, or a server with several tools.
pub trait Toolbox: Send + Sync {
    /// Lists the tools for agents of this tenant.
    fn list<'a>(&'a self, tenant: &'a TenantId) -> ListFuture<'a>;

    /// Makes a call. Dropping the future abandons the call; its outcome is then unknown.
    fn call<'a>(&'a self, call: &'a Call) -> CallFuture<'a>;

    /// Connects to the server, if there is one, before a call begins. If this fails, the call was not made and can be
    /// made later.
    fn reach(&self) -> ReachFuture<'_> {
        Box::pin(async { Ok(()) })
    }

    /// Returns true if neither a list nor a call waits or has effects outside the process. Such a call needs no commit
    /// before it, because it can be repeated.
    fn is_local(&self) -> bool {
        false
    }
}

/// The maximum length of a tool name.
const NAME_CHARS_MAX: usize = 64;

pub(super) fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=NAME_CHARS_MAX).contains(&text.len()) && text.chars().all(fits)
}

/// Returns the error of a call that the HTTP client did not send.
fn unsent_error(error: &outgoing::Error, why: String) -> ToolError {
    // An address that the outgoing policy forbids does not become available later.
    match error {
        outgoing::Error::Refused(_) => ToolError::NotCalled(why),
        _ => ToolError::Unreachable(why),
    }
}

/// Returns true if the HTTP client did not send the request.
fn was_never_sent(error: &outgoing::Error) -> bool {
    use outgoing::{CallStage, Error};
    match error {
        Error::Refused(_) | Error::Unresolvable { .. } | Error::ConnectFailed { .. } | Error::Tls { .. } => {
            true
        }
        Error::TimedOut { during, .. } => match during {
            CallStage::Turn | CallStage::Name | CallStage::Connection | CallStage::Handshake => true,
            CallStage::Answer | CallStage::Body => false,
        },
        Error::BodyTooLarge { .. } | Error::Broken { .. } => false,
    }
}
