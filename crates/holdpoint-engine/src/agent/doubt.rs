//! How sure a model is of its reply, and whether somebody has to ratify it first.

use holdpoint_core::agent::{Act, Reply};
use holdpoint_core::{Decision, Kind, PEOPLE, escalation_threshold};
use serde_json::Value;

use super::setup::Setup;
use crate::approved::check_as_shown;
use crate::context::{Context, Stop};

/// The member that requires answers to be sent with a key.
const PROFILE: &str = "profile";

/// What the reply decides, of a model that says how sure it is.
pub(super) fn decided(
    context: &Context,
    setup: &Setup,
    reply: &Reply,
    confidence: Option<f64>,
) -> Option<Act> {
    let confidence = Some(confidence?);
    let (agent, decision) = (setup.definition.id.clone(), reply.message.decision());
    let decision = Box::new(Decision { agent, decision, confidence });
    let threshold = setup.definition.escalation_threshold;
    let threshold = threshold.unwrap_or_else(|| escalation_threshold(context.configurable()));
    let question = decision.escalation_below(threshold).map(|mut request| {
        request.key = Some(key(context, &reply.message.id));
        // The approvers of the agent's calls also ratify its decisions.
        if let Value::Object(data) = &mut request.data {
            let named = setup.definition.asking.people.iter();
            let named = named.filter(|(name, _)| *name == PROFILE || PEOPLE.contains(&name.as_str()));
            data.extend(named.map(|(name, value)| (name.clone(), value.clone())));
        }
        Box::new(request)
    });
    Some(Act::Decide { decision, question })
}

/// What somebody ratified, or decided instead, was said about the decision that is on record, and about no other.
pub(super) fn check_ratified(context: &Context) -> Result<(), Stop> {
    let (run, node) = (context.run(), &context.node().id);
    let mut asked = run.interrupts.iter().rev();
    let last = asked.find(|asked| asked.node == *node && asked.kind == Kind::LowConfidence);
    last.filter(|asked| !asked.is_open()).map_or(Ok(()), |asked| check_as_shown(asked))
}

fn key(context: &Context, message: &str) -> String {
    let run = context.run();
    let node = run.workflow.position(&context.node().id).unwrap_or_default();
    format!("{}:reply:{node}.{}:{message}", run.id, context.visit())
}
