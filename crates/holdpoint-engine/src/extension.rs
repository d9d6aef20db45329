//! The extension point of the engine. An extension adds node types, checks changes before they are committed, offers
//! workflows and does periodic work. The crates `holdpoint-agents`, `holdpoint-providers` and `holdpoint-samples` use
//! this module and the public API, and so can any other crate. A few methods that only they need are hidden.
//!
//! 1. Implement [`Node`](crate::Node) or [`PureNode`](crate::PureNode) for each node type.
//! 2. Implement [`Extension`] and add the node types in [`Extension::add_nodes`].
//! 3. Add the extension with [`Options::extension`](crate::Options::extension).
//! 4. Node code and callers get the extension from the engine with [`Engine::extension`].
//!
//! ```
//! use holdpoint_engine::extension::{Extension, NodeTypes};
//! use holdpoint_engine::{Context, Engine, Options, Outputs, PureNode, Stop};
//!
//! struct Greet;
//!
//! impl PureNode for Greet {
//!     fn run(&self, _context: &mut Context) -> Result<Outputs, Stop> {
//!         Ok(Outputs::from_iter([("text".to_owned(), "hello".into())]))
//!     }
//! }
//!
//! #[derive(Debug)]
//! struct Greetings;
//!
//! impl Extension for Greetings {
//!     fn add_nodes(&self, types: &mut NodeTypes) {
//!         types.pure("acme.greet", Greet);
//!     }
//! }
//!
//! # async fn open(folder: &std::path::Path) -> Result<(), holdpoint_engine::Error> {
//! let engine = Engine::open(Options::from(folder.join("holdpoint.db")).extension(Greetings)).await?;
//! assert!(engine.extension::<Greetings>().is_some());
//! # Ok(())
//! # }
//! ```
//!
//! An extension that keeps state outside of the database, such as a session at another server, stores a reference to
//! it in a handle: [`Engine::handles`]. A run has at most one handle. The upkeep of `holdpoint-providers` ends every handle
//! that expires, so that an engine with that extension has no handles of other extensions.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use holdpoint_core::{Event, Run, RunRef, TenantId, WorkflowId};
use serde_json::Value;

use crate::engine::Engine;
use crate::error::Error;

pub use crate::approval_check::{APPROVED_BY, check_as_shown};
pub use crate::engine::HandleLock;
pub use crate::nodes::http::{call_failed, call_refused};
pub use crate::nodes::{NodeTypes, config_count, config_flaw, config_ms, config_text, unknown_config};
pub use crate::operator::{KeyRef, RequirementSource, SecretText};
pub use crate::run_end::{RunEndWatch, wait_for_run_end};
pub use crate::store::handles::Handle;
pub use crate::truncate::{RESULT_BYTES_MAX, excerpt, truncate};

/// The future of an asynchronous hook.
pub type HookFuture<'a> = Pin<Box<dyn Future<Output = Result<(), Error>> + Send + 'a>>;

/// A change that is decided and not yet committed.
#[derive(Clone, Copy, Debug)]
pub struct DecidedChange<'a> {
    /// The engine.
    pub engine: &'a Engine,
    /// The tenant and the id of the run.
    pub of: &'a RunRef,
    /// The run with the events applied.
    pub run: &'a Run,
    /// The decided events.
    pub events: &'a [Event],
}

/// An addition to the engine. Every method has a default that does nothing.
pub trait Extension: Any + fmt::Debug + Send + Sync {
    /// Adds the node types of the extension. A type with the name of an existing one replaces it.
    fn add_nodes(&self, types: &mut NodeTypes) {
        let _ = types;
    }

    /// Checks the events of a start, a command or a timer before they are committed. Returns `None` if there is nothing
    /// to check. An error rejects the change; the run stays as it was. The engine calls it again for the same command
    /// after a conflict. It does not call it for external events, forks and the results of nodes.
    fn check_change<'a>(&'a self, change: DecidedChange<'a>) -> Option<HookFuture<'a>> {
        let _ = change;
        None
    }

    /// Returns the definition of a workflow that the extension offers to a tenant. The engine registers it when its
    /// first run starts, unless the tenant has a workflow with this id.
    fn offered_workflow(&self, tenant: &TenantId, id: &WorkflowId) -> Option<Value> {
        let _ = (tenant, id);
        None
    }

    /// Does periodic work. The worker calls it about once per minute in a separate task. Returns `None` if there is no
    /// work.
    fn upkeep<'a>(&'a self, engine: &'a Engine) -> Option<HookFuture<'a>> {
        let _ = engine;
        None
    }
}

/// The extensions of an engine, in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extensions(Vec<Arc<dyn Extension>>);

impl Extensions {
    /// Adds an extension. It replaces an earlier extension of the same type.
    pub(crate) fn add<E: Extension>(&mut self, extension: Arc<E>) {
        self.0.retain(|known| !(known.as_ref() as &dyn Any).is::<E>());
        self.0.push(extension);
    }

    pub(crate) fn get<E: Extension>(&self) -> Option<&E> {
        self.0.iter().find_map(|known| (known.as_ref() as &dyn Any).downcast_ref())
    }

    pub(crate) async fn check(&self, change: DecidedChange<'_>) -> Result<(), Error> {
        for check in self.0.iter().filter_map(|known| known.check_change(change)) {
            check.await?;
        }
        Ok(())
    }

    pub(crate) fn offered_workflow(&self, tenant: &TenantId, id: &WorkflowId) -> Option<Value> {
        self.0.iter().find_map(|known| known.offered_workflow(tenant, id))
    }

    pub(crate) async fn upkeep(&self, engine: &Engine) {
        for upkeep in self.0.iter().filter_map(|known| known.upkeep(engine)) {
            if let Err(error) = upkeep.await {
                tracing::warn!(%error, "the upkeep of an extension failed; retrying later");
            }
        }
    }
}

impl Engine {
    /// Returns an extension by its type, or `None` if the engine was opened without it.
    pub fn extension<E: Extension>(&self) -> Option<&E> {
        self.0.extensions.get()
    }
}
