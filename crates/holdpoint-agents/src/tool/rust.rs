//! Tools that are Rust functions of the program that embeds the engine.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use holdpoint_core::TenantId;

use super::{Call, CallFuture, CallOutcome, ListFuture, ToolError, ToolSpec, Toolbox};

type RustToolFuture = Pin<Box<dyn Future<Output = Result<CallOutcome, ToolError>> + Send>>;

/// A tool that is a Rust function.
pub struct RustTool {
    spec: Arc<ToolSpec>,
    body: Box<dyn Fn(Call) -> RustToolFuture + Send + Sync>,
}

impl fmt::Debug for RustTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RustTool").field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl RustTool {
    /// Creates a tool from its description and its function.
    pub fn new<F, O>(spec: ToolSpec, body: F) -> Self
    where
        F: Fn(Call) -> O + Send + Sync + 'static,
        O: Future<Output = Result<CallOutcome, ToolError>> + Send + 'static,
    {
        Self { spec: Arc::new(spec), body: Box::new(move |call| Box::pin(body(call))) }
    }
}

impl Toolbox for RustTool {
    fn list<'a>(&'a self, _: &'a TenantId) -> ListFuture<'a> {
        Box::pin(async { Ok(vec![self.spec.clone()]) })
    }

    fn call<'a>(&'a self, call: &'a Call) -> CallFuture<'a> {
        (self.body)(call.clone())
    }
}
