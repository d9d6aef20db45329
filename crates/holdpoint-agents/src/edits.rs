//! Checks edited arguments of tool calls before the answer is recorded, so that the interrupt stays open if they are
//! rejected.

use std::time::Duration;

use holdpoint_core::agent::{ARGUMENTS_SCHEMA, Resumption, ToolCall};
use holdpoint_core::permission::Behaviour;
use holdpoint_core::workflow::Node;
use holdpoint_core::{Event, InterruptId, Refusal, Run, compile_checker};
use holdpoint_engine::Error;
use holdpoint_engine::extension::{DecidedChange, HookFuture};
use serde_json::Value;

use super::setup;

/// The member of an answer that contains the edited arguments.
const FIELD: &str = "resumeValue.editedArtifactData.arguments";

/// The longest time that an answer waits for a server to list its tools.
const TOOL_WAIT: Duration = Duration::from_secs(3);

/// An answer that changes the arguments of a call.
struct Edit<'a> {
    node: &'a Node,
    call: &'a ToolCall,
    arguments: Value,
    /// The interrupt has no schema of the arguments, so the core has not checked them.
    is_unchecked: bool,
}

/// Returns the check of the edits in a change, or None if it has none.
pub(crate) fn check(change: DecidedChange<'_>) -> Option<HookFuture<'_>> {
    let edits: Vec<Edit<'_>> = change
        .events
        .iter()
        .filter_map(|event| match event {
            Event::InterruptResolved { id, .. } => find_edit(change.run, *id),
            _ => None,
        })
        .collect();
    if edits.is_empty() {
        return None;
    }
    Some(Box::pin(async move {
        for edit in edits {
            check_edit(change, edit).await?;
        }
        Ok(())
    }))
}

/// Rejects an edit that the schema of the tool does not allow or that a rule denies. If the tool cannot be found now,
/// only the checks at the time of the call apply.
async fn check_edit(change: DecidedChange<'_>, edit: Edit<'_>) -> Result<(), Error> {
    let (engine, tenant) = (change.engine, &change.of.tenant);
    let setup = setup::load_recorded(engine, tenant, change.run, edit.node).await?;
    let Some(setup) = setup else { return Ok(()) };
    let finding = setup.tool(engine, tenant, &edit.call.name);
    let Ok(Some(spec)) = tokio::time::timeout(TOOL_WAIT, finding).await else { return Ok(()) };
    if let Ok(check) = compile_checker(&spec.parameters)
        && edit.is_unchecked
    {
        check(&edit.arguments).map_err(|why| Refusal::invalid(FIELD, why))?;
    }
    let verdict = setup.judge(&spec.name, spec.primary.as_deref(), &edit.arguments);
    if verdict.behaviour == Behaviour::Deny {
        let message = format!("{} is not allowed with these arguments: {}", spec.name, verdict.explanation());
        return Err(Refusal::invalid(FIELD, message).into());
    }
    Ok(())
}

/// Returns the edit in an answer. None if the answer changes no arguments or is not about a tool call.
fn find_edit(run: &Run, id: InterruptId) -> Option<Edit<'_>> {
    let interrupt = run.interrupt(id)?;
    let agent = run.node_state(&interrupt.node)?.agent.as_deref()?;
    let call = agent.call(interrupt.call_id()?)?;
    match call.resumption(interrupt)? {
        Resumption::Run { arguments } if arguments != *call.effective_arguments() => {
            let is_unchecked = interrupt.data.get(ARGUMENTS_SCHEMA).is_none();
            Some(Edit { node: run.workflow.node(&interrupt.node)?, call, arguments, is_unchecked })
        }
        Resumption::Run { .. } | Resumption::Result(_) | Resumption::Cancel { .. } => None,
    }
}
