//! Checks a call against the rules of its tool's connection and against its approvals before it is made.

use holdpoint_core::Interrupt;
use holdpoint_core::agent::ToolCall;
use holdpoint_core::permission::{Behaviour, call_digest};
use serde_json::Value;

use super::tool::{Owner, ToolSpec};
use crate::context::{EffectContext, Stop};

/// The verdict of a connection's rules on a call.
pub(super) enum Clearance {
    Cleared,
    /// The call needs an approval under these rules.
    Ask,
    Deny(String),
}

/// The tool that a call is about, and the toolbox that it belongs to now. That may be another one than when the model
/// replied: servers change their tools.
pub(super) struct Target<'a> {
    pub spec: &'a ToolSpec,
    pub owner: Option<&'a Owner>,
}

impl Target<'_> {
    /// Returns what the rules of the tool's connection say of a call. An approval counts only if it was asked for under
    /// these very rules.
    pub(super) fn clearance(&self, context: &EffectContext, call: &ToolCall, arguments: &Value) -> Clearance {
        let Some((owner, rules)) = self.owner.and_then(|owner| Some((owner, owner.rules()?))) else {
            return Clearance::Cleared;
        };
        let Some(verdict) = owner.judge(arguments) else {
            return Clearance::Cleared;
        };
        let asked = call.waiting.and_then(|waiting| context.run().interrupt(waiting.interrupt));
        match verdict.behaviour {
            Behaviour::Allow => Clearance::Cleared,
            Behaviour::Ask if asked.is_some_and(|asked| rules.held_for(asked)) => Clearance::Cleared,
            Behaviour::Ask => Clearance::Ask,
            Behaviour::Deny => Clearance::Deny(verdict.explained()),
        }
    }
}

/// Returns whether a decision that the call depends on belongs to another run.
pub(super) fn is_granted_elsewhere(context: &EffectContext, call: &ToolCall) -> bool {
    context.run().usable_grants_of_call(&context.node().id, &call.id).is_err()
}

/// An approval is good for the call that was shown, and for no other.
pub(super) fn check_approved(asked: &Interrupt, call: &ToolCall, arguments: &Value) -> Result<(), Stop> {
    let shown = asked.data.get("callDigest").and_then(Value::as_str);
    if shown.is_none_or(|shown| shown == call_digest(&call.name, arguments)) {
        return Ok(());
    }
    let message = format!("call {} is not the one that was approved", call.id);
    Err(Stop::failed("approval_mismatch", message))
}

/// Returns whether the call uses grants, so that its begin must be recorded.
pub(super) fn uses_grants(context: &EffectContext, call: &ToolCall) -> bool {
    let grants = context.run().usable_grants_of_call(&context.node().id, &call.id);
    grants.is_ok_and(|grants| !grants.is_empty())
}
