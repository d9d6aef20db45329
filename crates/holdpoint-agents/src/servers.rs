//! Tool servers that cannot be reached: finds the calls that need them, and stops the node until they can be reached.

use std::sync::Arc;

use futures_util::future::join_all;
use holdpoint_core::agent::ToolCall;
use holdpoint_engine::{EffectContext, Stop};

use super::setup::{Setup, runtime};
use super::tool::{ToolError, ToolOwner, ToolSpec};

/// The tools that calls can use now.
pub(super) struct AvailableTools<'a> {
    pub specs: &'a [Arc<ToolSpec>],
    /// The reason why a server could not list its tools. None if the list is complete.
    pub unreachable: Option<&'a str>,
}

impl AvailableTools<'_> {
    pub(super) fn find(&self, tool: &str) -> Option<&Arc<ToolSpec>> {
        self.specs.iter().find(|spec| spec.name == tool)
    }

    /// Returns the reason why the tool of a call is not known now, or None if the call can be processed. The interrupt
    /// about a call with an unknown outcome does not need the tool, only the approvers of the tool's connection.
    pub(super) fn missing(&self, setup: &Setup, call: &ToolCall) -> Option<String> {
        let is_askable = call.has_unknown_outcome() && setup.owner(&call.name).is_some();
        let known = call.run.is_some() || is_askable || self.find(&call.name).is_some();
        self.unreachable.filter(|_| !known).map(str::to_owned)
    }
}

/// Commits the recorded actions and stops the node until a server can be reached.
pub(super) async fn wait_for_server<T>(context: &mut EffectContext, why: String) -> Result<T, Stop> {
    context.commit_actions().await?;
    let outage_ms = runtime(context.engine()).outage_ms();
    Err(Stop::Unavailable { why, outage_ms })
}

/// Connects to the servers of calls that are about to be made. A call begins only after its server is connected.
/// Otherwise a call that began but was not sent would have an unknown outcome, and an approver would have to decide it.
pub(super) async fn reach(
    context: &EffectContext,
    owners: impl Iterator<Item = Option<&ToolOwner>>,
) -> Vec<Result<(), ToolError>> {
    let replays = context.is_replay();
    let reach = owners.map(|owner| async move {
        match owner.filter(|_| !replays) {
            Some(owner) => owner.reach().await,
            None => Ok(()),
        }
    });
    join_all(reach).await
}
