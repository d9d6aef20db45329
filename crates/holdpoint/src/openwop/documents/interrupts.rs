//! Documents of interrupts and their answers.

use std::borrow::Cow;

use holdpoint_api::Members;
use holdpoint_api::interrupts::InterruptDecision;
use holdpoint_api::payloads::{
    ApprovalReceived, ApprovalRequested, ClarificationRequested, ClarificationResolved, EventPayload,
    InterruptRequested, InterruptResolved, NodeResumed, NodeSuspended,
};
use holdpoint_core::{Event, Interrupt, InterruptId, Kind, NodeId, Resolution, Run};
use holdpoint_engine::RecordedEvent;
use serde_json::{Map, Value};

use super::{Description, redact_map};

pub(super) fn describe<'a>(run: &'a Run, recorded: &'a RecordedEvent) -> Description<'a> {
    match &recorded.event {
        Event::NodeSuspended { node, interrupt, .. } => {
            ("node.suspended", Some(node), node_suspended(run, node, *interrupt).into())
        }
        Event::NodeResumed { node, interrupt } => {
            ("node.resumed", Some(node), node_resumed(run, node, *interrupt).into())
        }
        Event::InterruptRequested { id, .. } => {
            describe_interrupt(run, *id, "interrupt.requested", |run, asked| {
                interrupt_requested(run, asked).into()
            })
        }
        Event::ApprovalRequested { interrupt } => {
            describe_interrupt(run, *interrupt, "approval.requested", |run, asked| {
                approval_requested(run, asked).into()
            })
        }
        Event::ClarificationRequested { interrupt } => {
            describe_interrupt(run, *interrupt, "clarification.requested", |run, asked| {
                clarification_requested(run, asked).into()
            })
        }
        Event::InterruptResolved { id, .. } | Event::InterruptTimedOut { id } => {
            describe_interrupt(run, *id, "interrupt.resolved", |run, asked| {
                interrupt_resolved(run, asked).into()
            })
        }
        Event::ApprovalReceived { interrupt } => {
            describe_interrupt(run, *interrupt, "approval.received", |_, asked| approval_received(asked))
        }
        Event::ClarificationResolved { interrupt } => {
            describe_interrupt(run, *interrupt, "clarification.resolved", |_, asked| {
                clarification_resolved(asked)
            })
        }
        // Not reached: the caller passes only the events above.
        _ => ("", None, EventPayload::Other(Value::Null)),
    }
}

fn describe_interrupt<'a>(
    run: &'a Run,
    id: InterruptId,
    kind: &'static str,
    payload: fn(&'a Run, &'a Interrupt) -> EventPayload<'a>,
) -> Description<'a> {
    match run.interrupt(id) {
        Some(interrupt) => (kind, Some(&interrupt.node), payload(run, interrupt)),
        None => (kind, None, EventPayload::Other(Value::Null)),
    }
}

fn member<'a>(of: &'a Value, name: &str) -> Option<Cow<'a, Value>> {
    of.get(name).map(Cow::Borrowed)
}

fn node_suspended<'a>(run: &'a Run, node: &NodeId, id: InterruptId) -> NodeSuspended<'a> {
    let asked = run.interrupt(id);
    let extra = |kind: Kind, name: &str| {
        asked.filter(|asked| asked.kind == kind).and_then(|asked| member(&asked.data, name))
    };
    // The original deadline. A fork that copied the interrupt waits longer; its snapshot shows that deadline.
    let expires_at = asked.and_then(|asked| Some(asked.requested_at.plus_ms(asked.timeout_ms?)));
    NodeSuspended {
        agent_id: extra(Kind::LowConfidence, "agentId"),
        conversation_id: extra(Kind::ConversationExchange, "conversationId"),
        custom_kind: extra(Kind::Custom, "customKind"),
        event_type: extra(Kind::ExternalEvent, "eventType"),
        expires_at: expires_at.map(Into::into),
        interrupt_id: run.interrupt_name(id),
        key: asked.map(|asked| Cow::Borrowed(&*asked.key)),
        kind: asked.map(|asked| asked.kind),
        node_id: node.clone(),
        observed: extra(Kind::LowConfidence, "observed"),
        reason: asked.and_then(|asked| reason(asked.kind)).map(Cow::Borrowed),
        threshold: extra(Kind::LowConfidence, "threshold"),
        turn_index: extra(Kind::ConversationExchange, "turnIndex"),
    }
}

/// Returns the word that distinguishes kinds for which the run has the same status.
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

fn node_resumed<'a>(run: &'a Run, node: &NodeId, id: InterruptId) -> NodeResumed<'a> {
    let resolution = run.interrupt(id).and_then(|interrupt| interrupt.resolution.as_ref());
    NodeResumed {
        interrupt_id: run.interrupt_name(id),
        node_id: node.clone(),
        resume_value: match resolution {
            Some(Resolution::Answered { value, .. }) => Some(Cow::Borrowed(value)),
            Some(Resolution::TimedOut { .. }) | None => None,
        },
    }
}

fn interrupt_requested<'a>(run: &Run, interrupt: &'a Interrupt) -> InterruptRequested<'a> {
    InterruptRequested {
        data: Cow::Borrowed(&interrupt.data),
        interrupt_id: run.interrupt_name(interrupt.id),
        key: Cow::Borrowed(&interrupt.key),
        kind: interrupt.kind,
        node_id: interrupt.node.clone(),
        requested_at: interrupt.requested_at.into(),
        run_id: run.id.clone(),
        timeout_ms: interrupt.timeout_ms,
    }
}

fn approval_requested<'a>(run: &Run, interrupt: &'a Interrupt) -> ApprovalRequested<'a> {
    ApprovalRequested {
        actions: member(&interrupt.data, "actions"),
        approvers_list: member(&interrupt.data, "approversList"),
        artifact_id: member(&interrupt.data, "artifactId"),
        artifact_type: member(&interrupt.data, "artifactType"),
        interrupt_id: run.interrupt_name(interrupt.id),
        node_id: interrupt.node.clone(),
        required_approvals: member(&interrupt.data, "requiredApprovals"),
    }
}

fn clarification_requested<'a>(run: &Run, interrupt: &'a Interrupt) -> ClarificationRequested<'a> {
    ClarificationRequested {
        interrupt_id: run.interrupt_name(interrupt.id),
        node_id: interrupt.node.clone(),
        questions: member(&interrupt.data, "questions"),
    }
}

fn interrupt_resolved<'a>(run: &Run, interrupt: &'a Interrupt) -> InterruptResolved<'a> {
    let unresolved = InterruptResolved {
        action: None,
        client_metadata: None,
        decision: None,
        edited_artifact_data: None,
        grant_id: None,
        interrupt_id: run.interrupt_name(interrupt.id),
        kind: interrupt.kind,
        node_id: interrupt.node.clone(),
        outcome: None,
        quorum: None,
        reason: None,
        refine_feedback: None,
        resolved_at: interrupt.resolution.as_ref().map(|resolution| resolution.at().into()),
        resolved_by: None,
        resume_value: None,
        run_id: run.id.clone(),
        via: interrupt.resolution.as_ref().and_then(Resolution::via),
    };
    match &interrupt.resolution {
        Some(Resolution::Answered { value, by, client_metadata, .. }) => {
            let answered = InterruptResolved {
                client_metadata: shown_metadata(run, client_metadata),
                grant_id: interrupt.is_granted().then(|| run.grant_id(interrupt.id)),
                resolved_by: Some(Cow::Borrowed(by)),
                resume_value: Some(Cow::Borrowed(value)),
                ..unresolved
            };
            match (interrupt.kind, value.get("action").and_then(Value::as_str)) {
                (Kind::Approval, Some(action)) => InterruptResolved {
                    action: Some(Cow::Borrowed(action)),
                    decision: decision_word(action).map(Cow::Borrowed),
                    edited_artifact_data: member(value, "editedArtifactData"),
                    quorum: member(value, "quorum"),
                    reason: member(value, "reason").filter(|_| interrupt.is_governed()),
                    refine_feedback: member(value, "refineFeedback"),
                    ..answered
                },
                _ => answered,
            }
        }
        Some(Resolution::TimedOut { .. }) => InterruptResolved {
            action: Some(Cow::Borrowed("timeout")),
            decision: Some(Cow::Borrowed("rejected")),
            outcome: Some(Cow::Borrowed("rejected")),
            reason: Some(Cow::Owned(Value::from("timeout"))),
            resolved_by: Some(Cow::Borrowed(TIMEOUT)),
            resume_value: Some(Cow::Owned(Value::Null)),
            ..unresolved
        },
        None => unresolved,
    }
}

/// Returns the metadata of an answer without values of sensitive variables.
pub(super) fn shown_metadata<'a>(
    run: &Run,
    metadata: &Map<String, Value>,
) -> Option<Cow<'a, Map<String, Value>>> {
    (!metadata.is_empty()).then(|| Cow::Owned(redact_map(run, metadata)))
}

/// Returns the decision of an action. A refinement is not a decision.
fn decision_word(action: &str) -> Option<&'static str> {
    match action {
        "override" => Some("overridden"),
        "reject" => Some("rejected"),
        "accept" | "edit-accept" => Some("granted"),
        _ => None,
    }
}

/// The principal of a decision that a deadline made.
const TIMEOUT: &str = "system:timeout";

/// Describes the outcome of an interrupt. Returns None if it is open.
pub(crate) fn decision(run: &Run, interrupt: &Interrupt) -> Option<InterruptDecision> {
    let resolution = interrupt.resolution.as_ref()?;
    let resolved = interrupt_resolved(run, interrupt);
    Some(InterruptDecision {
        value: resolved.resume_value.map(Cow::into_owned).unwrap_or_default(),
        by: resolved.resolved_by.map(Cow::into_owned).unwrap_or_default(),
        at: resolution.at().into(),
        action: resolved.action.map(Cow::into_owned),
        decision: resolved.decision.map(Cow::into_owned),
        reason: resolved.reason.as_deref().and_then(Value::as_str).map(str::to_owned),
        client_metadata: resolved.client_metadata.map(Cow::into_owned),
        via: resolved.via,
    })
}

fn approval_received(interrupt: &Interrupt) -> EventPayload<'_> {
    let mut answer: Vec<(Cow<'_, str>, Cow<'_, Value>)> = match &interrupt.resolution {
        Some(Resolution::Answered { value, .. }) => {
            let members = value.as_object().into_iter().flatten().filter(|(name, _)| *name != "nodeId");
            members.map(|(name, value)| (Cow::Borrowed(name.as_str()), Cow::Borrowed(value))).collect()
        }
        Some(Resolution::TimedOut { at }) => vec![
            (Cow::Borrowed("action"), Cow::Owned(Value::from("timeout"))),
            (Cow::Borrowed("decidedAt"), Cow::Owned(Value::from(at.to_string()))),
            (Cow::Borrowed("decidedBy"), Cow::Owned(Value::from(TIMEOUT))),
        ],
        None => return EventPayload::Other(Value::Null),
    };
    answer.push((Cow::Borrowed("nodeId"), Cow::Owned(Value::from(interrupt.node.as_str()))));
    answer.sort_by(|(one, _), (other, _)| one.cmp(other));
    ApprovalReceived(Members(answer)).into()
}

fn clarification_resolved(interrupt: &Interrupt) -> EventPayload<'_> {
    match &interrupt.resolution {
        Some(Resolution::Answered { value, by, .. }) => ClarificationResolved {
            answered_by: Cow::Borrowed(by),
            answers: member(value, "answers"),
            node_id: interrupt.node.clone(),
        }
        .into(),
        Some(Resolution::TimedOut { .. }) | None => EventPayload::Other(Value::Null),
    }
}
