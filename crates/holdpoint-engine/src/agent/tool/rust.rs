//! Tools that are Rust code of whoever embeds the engine.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use holdpoint_core::TenantId;

use super::{Call, Calling, Listing, Returned, ToolError, ToolSpec, Toolbox};

type Outcome = Pin<Box<dyn Future<Output = Result<Returned, ToolError>> + Send>>;

/// One tool that is a function.
pub struct RustTool {
    spec: Arc<ToolSpec>,
    body: Box<dyn Fn(Call) -> Outcome + Send + Sync>,
}

impl fmt::Debug for RustTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RustTool").field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl RustTool {
    pub fn new<F, O>(spec: ToolSpec, body: F) -> Self
    where
        F: Fn(Call) -> O + Send + Sync + 'static,
        O: Future<Output = Result<Returned, ToolError>> + Send + 'static,
    {
        Self { spec: Arc::new(spec), body: Box::new(move |call| Box::pin(body(call))) }
    }
}

impl Toolbox for RustTool {
    fn list<'a>(&'a self, _: &'a TenantId) -> Listing<'a> {
        Box::pin(async { Ok(vec![self.spec.clone()]) })
    }

    fn call<'a>(&'a self, call: &'a Call) -> Calling<'a> {
        (self.body)(call.clone())
    }
}
