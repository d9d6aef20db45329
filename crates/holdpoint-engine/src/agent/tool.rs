//! Tools: what agents can call. One file below for each kind.

mod cut;
mod definition;
mod http;
mod mcp;
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

use crate::outgoing;

pub(crate) use cut::cut;
pub(crate) use definition::Workbench;
pub use definition::{BadTools, only_for_operators};
pub(super) use definition::{declared_flaw, schema_flaw};
pub(crate) use mcp::Programs;
pub use rust::RustTool;
pub(crate) use set::{Needed, Origin, Owner, Survey};
pub use set::{Tools, WorkflowTool};

/// What is known of a tool before it is called.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Letters, digits, `_` and `-`, at most 64: what models take.
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments, an object.
    pub parameters: Value,
    /// A call in doubt may be made again.
    pub idempotent: bool,
    /// The argument that rules mean who name none.
    pub primary: Option<String>,
}

/// One call, with its arguments as somebody allowed them.
#[derive(Clone, Debug)]
pub struct Call {
    pub of: RunRef,
    pub id: String,
    pub name: String,
    pub arguments: Value,
    /// The same at every attempt of this call: for services that do things once under a key.
    pub idempotency_key: String,
    /// What was decided about it, if somebody was asked.
    pub decision: Option<Value>,
}

/// What a call comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Returned {
    Result(Value),
    /// A result, and what it changes in the state of the run.
    Changed {
        result: Value,
        changes: Vec<Change>,
    },
    /// The tool says that it failed; that is for the agent to know.
    Failed(Value),
    /// The tool wants something of somebody first.
    Suspended(Box<SuspendTicket>),
}

/// What a call changes in the state of its run: the run's variables, which front ends are shown.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    Set(String, Value),
    /// To a number; what is none counts as zero. Calls that are made at once are all counted.
    Add(String, i64),
}

type Check = Box<dyn Fn(&Value) -> Result<(), String> + Send + Sync>;

/// A call that could not be made, or whose result did not come back.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ToolError {
    /// It surely was not made: the agent is told.
    #[error("{0}")]
    NotCalled(String),
    /// It surely was not made, because the server is away: it may come back.
    #[error("{0}")]
    Unreachable(String),
    /// Nobody knows whether it was made.
    #[error("{0}")]
    Unknown(String),
}

pub type Calling<'a> = Pin<Box<dyn Future<Output = Result<Returned, ToolError>> + Send + 'a>>;
pub type Reaching<'a> = Pin<Box<dyn Future<Output = Result<(), ToolError>> + Send + 'a>>;
pub type Listing<'a> = Pin<Box<dyn Future<Output = Result<Vec<Arc<ToolSpec>>, ToolError>> + Send + 'a>>;

/// Where tools come from: one tool, or a server that has several.
pub trait Toolbox: Send + Sync {
    /// What there is, for agents of this tenant.
    fn list<'a>(&'a self, tenant: &'a TenantId) -> Listing<'a>;

    /// Dropped before it is done, the call is given up; whether it was made is then not known.
    fn call<'a>(&'a self, call: &'a Call) -> Calling<'a>;

    /// Reaches the server before a call is made, where there is one. A call that is not begun is not lost.
    fn reach(&self) -> Reaching<'_> {
        Box::pin(async { Ok(()) })
    }

    /// Whether neither a list nor a call waits for anything or reaches anybody. Nothing has to be on disk before such a call
    /// is made, for it can be made again without anybody noticing.
    fn is_inside(&self) -> bool {
        false
    }
}

/// Characters of a tool's name.
const NAME_CHARS_MAX: usize = 64;

pub(super) fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=NAME_CHARS_MAX).contains(&text.len()) && text.chars().all(fits)
}

/// The error of a call that our HTTP client never sent.
fn unsent(error: &outgoing::Error, why: String) -> ToolError {
    // An address that the operator's policy refuses stays refused.
    match error {
        outgoing::Error::Refused(_) => ToolError::NotCalled(why),
        _ => ToolError::Unreachable(why),
    }
}

/// A call of our HTTP client that surely never reached anybody.
fn never_sent(error: &outgoing::Error) -> bool {
    use outgoing::{Error, Stage};
    match error {
        Error::Refused(_) | Error::Unresolvable { .. } | Error::ConnectFailed { .. } | Error::Tls { .. } => {
            true
        }
        Error::TimedOut { during, .. } => match during {
            Stage::Turn | Stage::Name | Stage::Connection | Stage::Handshake => true,
            Stage::Answer | Stage::Body => false,
        },
        Error::BodyTooLarge { .. } | Error::Broken { .. } => false,
    }
}
