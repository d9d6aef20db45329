//! The open interrupts that a thread shows: those of its run, and those of the child runs that the run waits for.

use std::sync::Arc;

use holdpoint_api::agui;
use holdpoint_core::{ChildInterrupt, ChildRunState, Interrupt, Run, RunId, TenantId};
use holdpoint_engine::{Engine, Error, OpenInterrupt};

use super::ids;
use super::interrupts::{self, TOOL_CALL};

/// The reason of an interrupt of a tool call that the thread does not show: a call of a child run that no call of the
/// thread started.
const CALL_OF_CHILD: &str = "holdpoint:tool_call";

/// Returns the open interrupts that the thread of a run shows: first those of the run, oldest first, then those of its
/// child runs.
pub(super) async fn open_interrupts(
    engine: &Engine,
    tenant: &TenantId,
    run: &Arc<Run>,
) -> Result<Vec<OpenInterrupt>, Error> {
    let mut open = engine.interrupts().of_family(tenant, run).await?;
    open.retain(|one| {
        one.is_open() && one.interrupt().is_some_and(|asked| is_shown(&run.id, &one.run, asked))
    });
    Ok(open)
}

/// Returns whether the thread of the run `root` shows an interrupt. The client executes only the client tools of the
/// run of the thread; a person answers those of child runs.
pub(super) fn is_shown(root: &RunId, run: &Run, asked: &Interrupt) -> bool {
    run.id != *root || interrupts::is_for_people(asked)
}

/// Returns the record of an interrupt of a child run in the run of the thread.
pub(super) fn record_of<'r>(
    run: &'r Run,
    open: &OpenInterrupt,
) -> Option<(&'r ChildRunState, &'r ChildInterrupt)> {
    run.child_interrupts().find(|(child, one)| one.id == open.id && *one.run(&child.run) == open.run.id)
}

/// Describes open interrupts. `run` is the run of the thread.
pub(super) fn describe_all(run: &Run, open: &[OpenInterrupt]) -> Vec<agui::Interrupt> {
    open.iter().filter_map(|one| describe(run, one)).collect()
}

/// Describes an open interrupt. One of a child run has the id of its subagent. The thread does not show the tool calls
/// of a child run, so that the interrupt of such a call has the id of the call of the thread that started the child run.
fn describe(run: &Run, open: &OpenInterrupt) -> Option<agui::Interrupt> {
    let mut described = interrupts::describe(&open.run, open.interrupt()?);
    if open.run.id == run.id {
        return Some(described);
    }
    described.subagent_run_id = Some(open.run.id.to_string());
    let is_call = described.tool_call_id.take().is_some() || described.reason == TOOL_CALL;
    if is_call {
        let (child, _) = record_of(run, open)?;
        described.tool_call_id = child.call.as_ref().map(|call| ids::wire_id(run, &child.node, call));
    }
    if described.reason == TOOL_CALL && described.tool_call_id.is_none() {
        CALL_OF_CHILD.clone_into(&mut described.reason);
    }
    Some(described)
}

/// Returns the id of an open interrupt on the wire.
pub(super) fn wire_id(open: &OpenInterrupt) -> String {
    ids::interrupt_id(&open.run.id, open.id)
}
