//! Documents of governed gates: decisions at them, and principals that they reject. The protocol knows these members and
//! no others.

use std::borrow::Cow;

use holdpoint_api::payloads::{AuthorizationDecided, EventPayload, GateDecided, QuorumProgress};
use holdpoint_core::{Event, Interrupt, Resolution, Run};
use holdpoint_engine::Recorded;
use serde_json::Value;

use super::Description;

pub(super) fn describe<'a>(run: &'a Run, recorded: &'a Recorded) -> Description<'a> {
    let (name, id) = match &recorded.event {
        Event::AuthorizationDecided { interrupt, .. } => ("authorization.decided", interrupt),
        Event::ApprovalGranted { interrupt } => ("approval.granted", interrupt),
        Event::ApprovalRejected { interrupt } => ("approval.rejected", interrupt),
        Event::ApprovalOverridden { interrupt } => ("approval.overridden", interrupt),
        // The caller sends only those above.
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
            GateDecided { quorum_progress: Some(progress), reason: None, ..decided(asked) }.into()
        }
        _ => decided(asked).into(),
    };
    (name, Some(&asked.node), payload)
}

fn decided(asked: &Interrupt) -> GateDecided<'_> {
    let latest = latest(asked);
    GateDecided {
        gate_id: asked.data.get("gateId").map(Cow::Borrowed),
        principal: latest.map(|(_, by)| Cow::Borrowed(by)),
        quorum_progress: None,
        reason: latest.and_then(|(value, _)| value.get("reason")).map(Cow::Borrowed),
    }
}

/// Returns the latest answer and its principal. Right after an event, that is the answer that the event is about.
fn latest(asked: &Interrupt) -> Option<(&Value, &str)> {
    match (asked.votes.last(), &asked.resolution) {
        (Some(vote), _) => Some((&vote.value, vote.by.as_str())),
        (None, Some(Resolution::Answered { value, by, .. })) => Some((value, by)),
        (None, Some(Resolution::TimedOut { .. }) | None) => None,
    }
}
