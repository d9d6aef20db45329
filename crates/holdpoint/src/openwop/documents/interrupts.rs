//! Documents of questions and answers.

use holdpoint_api::interrupts::InterruptDecision;
use holdpoint_core::{Event, Interrupt, InterruptId, Kind, NodeId, Resolution, Run};
use holdpoint_engine::Recorded;
use serde_json::{Value, json};

use super::Description;
use super::voices::put_via;

pub(super) fn describe<'a>(run: &'a Run, recorded: &'a Recorded) -> Description<'a> {
    match &recorded.event {
        Event::NodeSuspended { node, interrupt, .. } => {
            ("node.suspended", Some(node), suspension(run, node, *interrupt))
        }
        Event::NodeResumed { node, interrupt } => {
            ("node.resumed", Some(node), resumption(run, node, *interrupt))
        }
        Event::InterruptRequested { id, .. } => of_interrupt(run, *id, "interrupt.requested", requested),
        Event::ApprovalRequested { interrupt } => {
            of_interrupt(run, *interrupt, "approval.requested", approval_requested)
        }
        Event::ClarificationRequested { interrupt } => {
            of_interrupt(run, *interrupt, "clarification.requested", clarification_requested)
        }
        Event::InterruptResolved { id, .. } | Event::InterruptTimedOut { id } => {
            of_interrupt(run, *id, "interrupt.resolved", resolved)
        }
        Event::ApprovalReceived { interrupt } => {
            of_interrupt(run, *interrupt, "approval.received", approval_received)
        }
        Event::ClarificationResolved { interrupt } => {
            of_interrupt(run, *interrupt, "clarification.resolved", clarification_resolved)
        }
        // The caller sends only those above.
        _ => ("", None, Value::Null),
    }
}

fn of_interrupt<'a>(
    run: &'a Run,
    id: InterruptId,
    kind: &'static str,
    payload: fn(&Run, &Interrupt) -> Value,
) -> Description<'a> {
    match run.interrupt(id) {
        Some(interrupt) => (kind, Some(&interrupt.node), payload(run, interrupt)),
        None => (kind, None, Value::Null),
    }
}

fn suspension(run: &Run, node: &NodeId, id: InterruptId) -> Value {
    let mut payload = json!({"nodeId": node, "interruptId": run.interrupt_name(id)});
    if let Some(interrupt) = run.interrupt(id) {
        payload["kind"] = json!(interrupt.kind.as_str());
        payload["key"] = json!(interrupt.key);
        if let Some(reason) = reason(interrupt.kind) {
            payload["reason"] = json!(reason);
        }
        for member in extras(interrupt.kind) {
            if let Some(value) = interrupt.data.get(member) {
                payload[*member] = value.clone();
            }
        }
        // As it was asked: a fork that has taken it over waits longer, which its snapshot says.
        if let Some(at) = interrupt.timeout_ms.map(|ms| interrupt.requested_at.plus_ms(ms)) {
            payload["expiresAt"] = json!(at.to_string());
        }
    }
    payload
}

/// Where a status is shared, what tells the kinds apart.
fn reason(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::LowConfidence => Some("low-confidence"),
        Kind::ConversationExchange => Some("conversation-input"),
        Kind::Approval
        | Kind::Clarification
        | Kind::ExternalEvent
        | Kind::Custom
        | Kind::ConversationStart
        | Kind::ConversationClose => None,
    }
}

/// Members of the data that are told with the suspension.
fn extras(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::ExternalEvent => &["eventType"],
        Kind::Custom => &["customKind"],
        Kind::LowConfidence => &["agentId", "threshold", "observed"],
        Kind::ConversationExchange => &["conversationId", "turnIndex"],
        Kind::Approval | Kind::Clarification | Kind::ConversationStart | Kind::ConversationClose => &[],
    }
}

fn resumption(run: &Run, node: &NodeId, id: InterruptId) -> Value {
    let mut payload = json!({"nodeId": node, "interruptId": run.interrupt_name(id)});
    if let Some(Resolution::Answered { value, .. }) =
        run.interrupt(id).and_then(|interrupt| interrupt.resolution.as_ref())
    {
        payload["resumeValue"] = value.clone();
    }
    payload
}

fn requested(run: &Run, interrupt: &Interrupt) -> Value {
    let mut payload = json!({
        "runId": run.id, "nodeId": interrupt.node, "interruptId": run.interrupt_name(interrupt.id),
        "kind": interrupt.kind.as_str(), "key": interrupt.key, "data": interrupt.data,
        "requestedAt": interrupt.requested_at.to_string(),
    });
    if let Some(ms) = interrupt.timeout_ms {
        payload["timeoutMs"] = json!(ms);
    }
    payload
}

fn approval_requested(run: &Run, interrupt: &Interrupt) -> Value {
    let mut payload = json!({
        "nodeId": interrupt.node, "interruptId": run.interrupt_name(interrupt.id),
    });
    for member in ["artifactId", "artifactType", "actions", "approversList", "requiredApprovals"] {
        if let Some(value) = interrupt.data.get(member) {
            payload[member] = value.clone();
        }
    }
    payload
}

fn clarification_requested(run: &Run, interrupt: &Interrupt) -> Value {
    json!({
        "nodeId": interrupt.node, "interruptId": run.interrupt_name(interrupt.id),
        "questions": interrupt.data.get("questions"),
    })
}

fn resolved(run: &Run, interrupt: &Interrupt) -> Value {
    let mut payload = json!({
        "runId": run.id, "nodeId": interrupt.node, "interruptId": run.interrupt_name(interrupt.id),
        "kind": interrupt.kind.as_str(),
    });
    put_via(&mut payload, interrupt.resolution.as_ref().and_then(Resolution::via).as_ref());
    match &interrupt.resolution {
        Some(Resolution::Answered { value, by, at, .. }) => {
            payload["resumeValue"] = value.clone();
            payload["resolvedAt"] = json!(at.to_string());
            payload["resolvedBy"] = json!(by);
            if interrupt.is_granted() {
                payload["grantId"] = json!(run.grant_id(interrupt.id));
            }
            if let (Kind::Approval, Some(action)) =
                (interrupt.kind, value.get("action").and_then(Value::as_str))
            {
                payload["action"] = json!(action);
                let reason = interrupt.is_governed().then_some("reason");
                for member in ["refineFeedback", "editedArtifactData", "quorum"].into_iter().chain(reason) {
                    if let Some(value) = value.get(member) {
                        payload[member] = value.clone();
                    }
                }
                // Asking for a better version is neither.
                match action {
                    "override" => payload["decision"] = json!("overridden"),
                    "reject" => payload["decision"] = json!("rejected"),
                    "accept" | "edit-accept" => payload["decision"] = json!("granted"),
                    _ => {}
                }
            }
        }
        Some(Resolution::TimedOut { at }) => {
            payload["resumeValue"] = Value::Null;
            payload["resolvedAt"] = json!(at.to_string());
            payload["resolvedBy"] = json!(TIMEOUT);
            for (member, value) in [
                ("action", "timeout"),
                ("decision", "rejected"),
                ("outcome", "rejected"),
                ("reason", "timeout"),
            ] {
                payload[member] = json!(value);
            }
        }
        None => {}
    }
    payload
}

/// Who "decided" when nobody did.
const TIMEOUT: &str = "system:timeout";

/// How an interrupt ended, for whoever looks back: what was said, by whom, when, and what it came to.
pub(crate) fn decision(run: &Run, interrupt: &Interrupt) -> Option<InterruptDecision> {
    let resolution = interrupt.resolution.as_ref()?;
    let told = resolved(run, interrupt);
    let text = |member: &str| told.get(member).and_then(Value::as_str).map(str::to_owned);
    Some(InterruptDecision {
        value: told["resumeValue"].clone(),
        by: text("resolvedBy").unwrap_or_default(),
        at: resolution.at().into(),
        action: text("action"),
        decision: text("decision"),
        reason: text("reason"),
        via: resolution.via(),
    })
}

fn approval_received(_run: &Run, interrupt: &Interrupt) -> Value {
    match &interrupt.resolution {
        Some(Resolution::Answered { value, .. }) => {
            let mut payload = value.clone();
            payload["nodeId"] = json!(interrupt.node);
            payload
        }
        Some(Resolution::TimedOut { at }) => {
            let node = &interrupt.node;
            json!({"nodeId": node, "action": "timeout", "decidedBy": TIMEOUT, "decidedAt": at.to_string()})
        }
        None => Value::Null,
    }
}

fn clarification_resolved(_run: &Run, interrupt: &Interrupt) -> Value {
    match &interrupt.resolution {
        Some(Resolution::Answered { value, by, .. }) => {
            json!({"nodeId": interrupt.node, "answers": value.get("answers"), "answeredBy": by})
        }
        Some(Resolution::TimedOut { .. }) | None => Value::Null,
    }
}
