//! Documents of governed gates: what is said at them, and whom they turn away. The protocol knows these members and no
//! others.

use holdpoint_core::{Event, Interrupt, Resolution, Run};
use holdpoint_engine::Recorded;
use serde_json::{Value, json};

use super::Description;

pub(super) fn describe<'a>(run: &'a Run, recorded: &'a Recorded) -> Description<'a> {
    let (name, id) = match &recorded.event {
        Event::AuthorizationDecided { interrupt, .. } => ("authorization.decided", interrupt),
        Event::ApprovalGranted { interrupt } => ("approval.granted", interrupt),
        Event::ApprovalRejected { interrupt } => ("approval.rejected", interrupt),
        Event::ApprovalOverridden { interrupt } => ("approval.overridden", interrupt),
        // The caller sends only those above.
        _ => return ("", None, Value::Null),
    };
    let Some(asked) = run.interrupt(*id) else { return (name, None, Value::Null) };
    let payload = match &recorded.event {
        Event::AuthorizationDecided { by, action, allowed, reason, .. } => json!({
            "principal": by, "action": action, "resource": run.interrupt_name(*id), "allowed": allowed,
            "reason": reason,
        }),
        Event::ApprovalGranted { .. } => {
            let granted = asked.votes.iter().filter(|vote| vote.grants()).count().max(1);
            let mut payload = said(asked);
            payload["quorumProgress"] = json!({"granted": granted, "required": asked.required_approvals()});
            payload
        }
        _ => {
            let mut payload = said(asked);
            if let Some((value, _)) = latest(asked)
                && let Some(reason) = value.get("reason")
            {
                payload["reason"] = reason.clone();
            }
            payload
        }
    };
    (name, Some(&asked.node), payload)
}

fn said(asked: &Interrupt) -> Value {
    json!({"gateId": asked.data.get("gateId"), "principal": latest(asked).map(|(_, by)| by)})
}

/// What was said last, and by whom: right after an event, that is what the event tells of.
fn latest(asked: &Interrupt) -> Option<(&Value, &str)> {
    match (asked.votes.last(), &asked.resolution) {
        (Some(vote), _) => Some((&vote.value, vote.by.as_str())),
        (None, Some(Resolution::Answered { value, by, .. })) => Some((value, by)),
        (None, Some(Resolution::TimedOut { .. }) | None) => None,
    }
}
