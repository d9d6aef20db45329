//! Checks a call against the rules of its tool's connection before it is made.

use holdpoint_core::agent::ToolCall;
use holdpoint_core::permission::Behaviour;
use serde_json::Value;

use super::tool::{Owner, ToolSpec};
use crate::context::EffectContext;

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
