//! Judges edits of calls before the answers that make them are recorded, so that the approval can still be given.

use std::time::Duration;

use holdpoint_core::agent::{ARGUMENTS_SCHEMA, Resumption, ToolCall};
use holdpoint_core::permission::Behaviour;
use holdpoint_core::workflow::Node;
use holdpoint_core::{Event, InterruptId, Refusal, Run, RunRef, checker};
use serde_json::Value;

use super::setup;
use crate::engine::Engine;
use crate::error::Error;

/// The member of an answer that has the arguments.
const FIELD: &str = "resumeValue.editedArtifactData.arguments";

/// An answer does not wait longer than this for a server to list its tools.
const TOOL_WAIT: Duration = Duration::from_secs(3);

/// An answer that changes the arguments of a call.
struct Edit<'a> {
    node: &'a Node,
    call: &'a ToolCall,
    arguments: Value,
    /// The interrupt has no schema that the core could check the arguments with.
    is_unchecked: bool,
}

/// Rejects edits that the tool does not take or that a rule denies. `run` has the events. Where the tool cannot be found
/// now, both are found out when the call is made, as they always are.
pub(crate) async fn check(engine: &Engine, of: &RunRef, run: &Run, events: &[Event]) -> Result<(), Error> {
    for event in events {
        let Event::InterruptResolved { id, .. } = event else { continue };
        let Some(edit) = edit(run, *id) else { continue };
        let Some(setup) = setup::recorded(engine, &of.tenant, run, edit.node).await? else { continue };
        let finding = setup.tool(engine, &of.tenant, &edit.call.name);
        let Ok(Some(spec)) = tokio::time::timeout(TOOL_WAIT, finding).await else { continue };
        if let Ok(check) = checker(&spec.parameters)
            && edit.is_unchecked
        {
            check(&edit.arguments).map_err(|why| Refusal::invalid(FIELD, why))?;
        }
        let verdict = setup.judge(&spec.name, spec.primary.as_deref(), &edit.arguments);
        if verdict.behaviour == Behaviour::Deny {
            let message =
                format!("{} is not allowed with these arguments: {}", spec.name, verdict.explained());
            return Err(Refusal::invalid(FIELD, message).into());
        }
    }
    Ok(())
}

/// Returns the edit that an answer is. None if it changes nothing, or is about something else than a call.
fn edit(run: &Run, id: InterruptId) -> Option<Edit<'_>> {
    let asked = run.interrupt(id)?;
    let agent = run.node_state(&asked.node)?.agent.as_deref()?;
    let call = agent.call(asked.call_id()?)?;
    match call.resumption(asked)? {
        Resumption::Run { arguments } if arguments != *call.effective_arguments() => {
            let is_unchecked = asked.data.get(ARGUMENTS_SCHEMA).is_none();
            Some(Edit { node: run.workflow.node(&asked.node)?, call, arguments, is_unchecked })
        }
        Resumption::Run { .. } | Resumption::Result(_) | Resumption::Cancel { .. } => None,
    }
}
