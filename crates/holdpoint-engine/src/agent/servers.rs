//! Servers of tools that are away: which calls wait for them, and which do not.

use std::sync::Arc;

use futures_util::future::join_all;
use holdpoint_core::agent::ToolCall;

use super::setup::Setup;
use super::tool::{Owner, ToolError, ToolSpec};
use crate::context::{EffectContext, Stop};

/// The tools that calls can use now, and why there may be others.
pub(super) struct Offer<'a> {
    pub specs: &'a [Arc<ToolSpec>],
    /// Why a server could not be asked for its tools.
    pub away: Option<&'a str>,
}

impl Offer<'_> {
    pub(super) fn find(&self, tool: &str) -> Option<&Arc<ToolSpec>> {
        self.specs.iter().find(|spec| spec.name == tool)
    }

    /// Returns why the tool of a call cannot be known now. The question about a call in doubt needs no tool, but it needs
    /// the approvers of the tool's connection.
    pub(super) fn missing(&self, setup: &Setup, call: &ToolCall) -> Option<String> {
        let is_askable = call.is_in_doubt() && setup.owner(&call.name).is_some();
        let known = call.run.is_some() || is_askable || self.find(&call.name).is_some();
        self.away.filter(|_| !known).map(str::to_owned)
    }
}

/// Stops until a server is back. What was done so far is written down.
pub(super) async fn wait_for_server<T>(context: &mut EffectContext, why: String) -> Result<T, Stop> {
    context.write_down().await?;
    Err(Stop::Unavailable(why))
}

/// Reaches the servers of calls that are about to be made. A call is not begun before that: of one that was begun and not
/// made, somebody would have to say what became of it.
pub(super) async fn reach(
    context: &EffectContext,
    owners: impl Iterator<Item = Option<&Owner>>,
) -> Vec<Result<(), ToolError>> {
    let replays = context.replays();
    let reach = owners.map(|owner| async move {
        match owner.filter(|_| !replays) {
            Some(owner) => owner.reach().await,
            None => Ok(()),
        }
    });
    join_all(reach).await
}
