//! The open interrupts that a thread shows: those of its run, and those of the child runs that the run waits for.

use std::sync::Arc;

use holdpoint_api::agui;
use holdpoint_core::{Run, TenantId};
use holdpoint_engine::{Engine, Error, OpenInterrupt};

use super::{ids, interrupts};

/// Returns the open interrupts for people: first those of the run, oldest first, then those of its child runs.
pub(super) async fn open_interrupts(
    engine: &Engine,
    tenant: &TenantId,
    run: &Arc<Run>,
) -> Result<Vec<OpenInterrupt>, Error> {
    let mut open = engine.interrupts().of_family(tenant, run).await?;
    open.retain(|one| one.is_open() && one.interrupt().is_some_and(interrupts::is_for_people));
    Ok(open)
}

/// Describes open interrupts. `run` is the run of the thread; interrupts of other runs get the id of their subagent.
pub(super) fn describe_all(run: &Run, open: &[OpenInterrupt]) -> Vec<agui::Interrupt> {
    let described = open.iter().filter_map(|one| {
        let subagent_run_id = (one.run.id != run.id).then(|| one.run.id.to_string());
        Some(agui::Interrupt { subagent_run_id, ..interrupts::describe(&one.run, one.interrupt()?) })
    });
    described.collect()
}

/// Returns the id of an open interrupt on the wire.
pub(super) fn wire_id(open: &OpenInterrupt) -> String {
    ids::interrupt_id(&open.run.id, open.id)
}
