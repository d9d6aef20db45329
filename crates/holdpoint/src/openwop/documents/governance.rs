//! Documents of governed gates: decisions, and principals that a gate rejects. The protocol allows no additional
//! members.

use std::borrow::Cow;

use holdpoint_api::payloads::{AuthorizationDecided, EventPayload, GateDecided, QuorumProgress};
use holdpoint_core::{Event, Interrupt, Resolution, Run};
use holdpoint_engine::RecordedEvent;
use serde_json::Value;

use super::Description;

pub(super) fn describe<'a>(run: &'a Run, recorded: &'a RecordedEvent) -> Description<'a> {
    let (name, id) = match &recorded.event {
        Event::AuthorizationDecided { interrupt, .. } => ("authorization.decided", interrupt),
        Event::ApprovalGranted { interrupt } => ("approval.granted", interrupt),
        Event::ApprovalRejected { interrupt } => ("approval.rejected", interrupt),
        Event::ApprovalOverridden { interrupt } => ("approval.overridden", interrupt),
        // Not reached: the caller passes only the events above.
        _ => return ("", None, EventPayload::Other(Value::Null)),
    };
    let Some(asked) = run.interrupt(*id) else { return (name, None, EventPayload::Other(Value::Null)) };
    let payload = match &recorded.event {
        Event::AuthorizationDecided { by, action, allowed, reason, .. } => AuthorizationDecided {
            action: Cow::Borrowed(action),
            allowed: *allowed,
            principal: Cow::Borrowed(by),
            reason: Cow::Borrowed(reason),
            resource: run.interrupt_name(*id),
        }
        .into(),
        Event::ApprovalGranted { .. } => {
            let granted = asked.votes.iter().filter(|vote| vote.grants()).count().max(1);
            let progress = QuorumProgress { granted, required: asked.required_approvals() };
            GateDecided { quorum_progress: Some(progress), reason: None, ..gate_decided(asked) }.into()
        }
        _ => gate_decided(asked).into(),
    };
    (name, Some(&asked.node), payload)
}

fn gate_decided(asked: &Interrupt) -> GateDecided<'_> {
    let latest = latest_answer(asked);
    GateDecided {
        gate_id: asked.data.get("gateId").map(Cow::Borrowed),
        principal: latest.map(|(_, by)| Cow::Borrowed(by)),
        quorum_progress: None,
        reason: latest.and_then(|(value, _)| value.get("reason")).map(Cow::Borrowed),
    }
}

/// Returns the latest answer and its principal. In the fold right after an event, that is the answer of the event.
fn latest_answer(asked: &Interrupt) -> Option<(&Value, &str)> {
    match (asked.votes.last(), &asked.resolution) {
        (Some(vote), _) => Some((&vote.value, vote.by.as_str())),
        (None, Some(Resolution::Answered { value, by, .. })) => Some((value, by)),
        (None, Some(Resolution::TimedOut { .. }) | None) => None,
    }
}
