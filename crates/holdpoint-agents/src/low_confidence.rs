//! Records the confidence of a model in its reply, and opens an interrupt if the confidence is too low.

use holdpoint_core::agent::{AgentAction, ReplyRecord};
use holdpoint_core::{ASSIGNEE_MEMBERS, AgentDecision, Kind, escalation_threshold};
use holdpoint_engine::extension::check_as_shown;
use holdpoint_engine::{Context, Stop};
use serde_json::Value;

use super::setup::Setup;

/// The member with the interrupt profile, which can require that answers are sent with a key.
const PROFILE: &str = "profile";

/// Returns the action that records the decision of a reply. It requests ratification if the confidence is below the
/// threshold. None if the reply has no confidence.
pub(super) fn build_decision(
    context: &Context,
    setup: &Setup,
    reply: &ReplyRecord,
    confidence: Option<f64>,
) -> Option<AgentAction> {
    let confidence = Some(confidence?);
    let (agent, decision) = (setup.definition.id.clone(), reply.message.decision());
    let decision = Box::new(AgentDecision { agent, decision, confidence });
    let threshold = setup.definition.escalation_threshold;
    let threshold = threshold.unwrap_or_else(|| escalation_threshold(context.configurable()));
    let question = decision.escalation_below(threshold).map(|mut request| {
        request.key = Some(interrupt_key(context, &reply.message.id));
        // The approvers of the agent's calls also ratify its decisions.
        if let Value::Object(data) = &mut request.data {
            let named = setup.definition.approval.people.iter();
            let named =
                named.filter(|(name, _)| *name == PROFILE || ASSIGNEE_MEMBERS.contains(&name.as_str()));
            data.extend(named.map(|(name, value)| (name.clone(), value.clone())));
        }
        Box::new(request)
    });
    Some(AgentAction::Decide { decision, question })
}

/// Checks that the answer to the last low-confidence interrupt was given for the data that the interrupt showed.
pub(super) fn check_ratified(context: &Context) -> Result<(), Stop> {
    let (run, node) = (context.run(), &context.node().id);
    let mut interrupts = run.interrupts.iter().rev();
    let last = interrupts.find(|interrupt| interrupt.node == *node && interrupt.kind == Kind::LowConfidence);
    last.filter(|interrupt| !interrupt.is_open()).map_or(Ok(()), |interrupt| check_as_shown(interrupt))
}

fn interrupt_key(context: &Context, message: &str) -> String {
    let run = context.run();
    let node = run.workflow.position(&context.node().id).unwrap_or_default();
    format!("{}:reply:{node}.{}:{message}", run.id, context.visit())
}
