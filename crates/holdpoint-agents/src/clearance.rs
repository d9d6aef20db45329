//! Checks a call against the rules of its tool's connection and against its approvals before it is made.

use holdpoint_core::Interrupt;
use holdpoint_core::agent::ToolCall;
use holdpoint_core::permission::{Behaviour, call_digest};
use holdpoint_engine::{EffectContext, Stop};
use serde_json::Value;

use super::tool::{ToolOwner, ToolSpec};

/// The result of checking a call against the rules of its connection.
pub(super) enum Clearance {
    Cleared,
    /// The call needs an approval under these rules.
    Ask,
    Deny(String),
}

/// The tool of a call, and the toolbox that has the tool now. At the time of the model's reply another toolbox may have
/// had it, because servers change their tools.
pub(super) struct CallTarget<'a> {
    pub spec: &'a ToolSpec,
    pub owner: Option<&'a ToolOwner>,
}

impl CallTarget<'_> {
    /// Checks a call against the rules of the tool's connection. An approval is valid only if its interrupt was
    /// opened under exactly these rules.
    pub(super) fn clearance(&self, context: &EffectContext, call: &ToolCall, arguments: &Value) -> Clearance {
        let Some((owner, rules)) = self.owner.and_then(|owner| Some((owner, owner.rules()?))) else {
            return Clearance::Cleared;
        };
        let Some(verdict) = owner.judge(arguments) else {
            return Clearance::Cleared;
        };
        let interrupt = call.interrupt.and_then(|waiting| context.run().interrupt(waiting.id));
        match verdict.behaviour {
            Behaviour::Allow => Clearance::Cleared,
            Behaviour::Ask if interrupt.is_some_and(|interrupt| rules.match_interrupt(interrupt)) => {
                Clearance::Cleared
            }
            Behaviour::Ask => Clearance::Ask,
            Behaviour::Deny => Clearance::Deny(verdict.explanation()),
        }
    }
}

/// Returns true if a decision that the call depends on belongs to another run.
pub(super) fn is_granted_elsewhere(context: &EffectContext, call: &ToolCall) -> bool {
    context.run().usable_grants_of_call(&context.node().id, &call.id).is_err()
}

/// Checks that the approval was given for this call with these arguments.
pub(super) fn check_approved(interrupt: &Interrupt, call: &ToolCall, arguments: &Value) -> Result<(), Stop> {
    let shown = interrupt.data.get("callDigest").and_then(Value::as_str);
    if shown.is_none_or(|shown| shown == call_digest(&call.name, arguments)) {
        return Ok(());
    }
    let message = format!("call {} is not the one that was approved", call.id);
    Err(Stop::failed("approval_mismatch", message))
}

/// Returns true if the call uses grants. A `Begin` action must be recorded for such a call.
pub(super) fn uses_grants(context: &EffectContext, call: &ToolCall) -> bool {
    let grants = context.run().usable_grants_of_call(&context.node().id, &call.id);
    grants.is_ok_and(|grants| !grants.is_empty())
}
