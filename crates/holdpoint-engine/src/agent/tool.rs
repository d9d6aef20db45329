//! Tools: what agents can call. One file below for each kind.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use holdpoint_core::agent::SuspendTicket;
use holdpoint_core::{RunRef, TenantId};
use serde_json::Value;

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
    /// The tool says that it failed; that is for the agent to know.
    Failed(Value),
    /// The tool wants something of somebody first.
    Suspended(Box<SuspendTicket>),
}

/// A call that could not be made, or whose result did not come back.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ToolError {
    /// It surely was not made: the agent is told.
    #[error("{0}")]
    NotCalled(String),
    /// Nobody knows whether it was made.
    #[error("{0}")]
    Unknown(String),
}

pub type Calling<'a> = Pin<Box<dyn Future<Output = Result<Returned, ToolError>> + Send + 'a>>;
pub type Listing<'a> = Pin<Box<dyn Future<Output = Result<Vec<Arc<ToolSpec>>, ToolError>> + Send + 'a>>;

/// Where tools come from: one tool, or a server that has several.
pub trait Toolbox: Send + Sync {
    /// What there is, for agents of this tenant.
    fn list<'a>(&'a self, tenant: &'a TenantId) -> Listing<'a>;

    /// Dropped before it is done, the call is given up; whether it was made is then not known.
    fn call<'a>(&'a self, call: &'a Call) -> Calling<'a>;
}

pub(crate) struct Tools(Vec<Arc<dyn Toolbox>>, Vec<String>);

impl Tools {
    pub(crate) async fn list(&self, tenant: &TenantId) -> Result<Vec<Arc<ToolSpec>>, ToolError> {
        let mut all = Vec::new();
        for one in &self.0 {
            all.extend(one.list(tenant).await?);
        }
        Ok(all)
    }

    pub(crate) async fn call(&self, call: &Call) -> Result<Returned, ToolError> {
        let at = self.1.iter().position(|name| *name == call.name).unwrap();
        self.0[at].call(call).await
    }
}

pub(crate) fn from_definition(
    tools: &Value,
    _base: Option<&std::path::Path>,
    _outgoing: &crate::outgoing::Outgoing,
    rust: &std::collections::BTreeMap<String, Arc<dyn Toolbox>>,
) -> Result<Tools, super::AgentFlaw> {
    let names: Vec<String> =
        tools.as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap().to_owned()).collect();
    Ok(Tools(names.iter().map(|n| rust[n].clone()).collect(), names))
}
