//! Translates requests of the protocol into commands, and runs into responses. Pure.

use holdpoint_api::ErrorCode;
use holdpoint_api::interrupts::{AnswerOutcome, InterruptQuery, InterruptResolved, Vote};
use holdpoint_api::runs::CreateRun;
use holdpoint_core::{Interrupt, NodeId, Run, StartRequest, Transport, UndecidedAnswer};
use holdpoint_engine::outgoing::OutgoingRefusal;
use serde_json::Value;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::reserved;

pub(crate) fn start(caller: &Caller, body: CreateRun) -> Result<StartRequest, ApiError> {
    if body.tenant_id.is_some_and(|tenant| tenant != caller.tenant().as_str()) {
        let message = "tenantId: this key belongs to another tenant";
        return Err(ApiError::new(ErrorCode::Forbidden, message));
    }
    reserved::check_scope("scopeId", body.scope_id.as_deref())?;
    Ok(StartRequest {
        inputs: body.inputs.unwrap_or_default().0,
        configurable: body.configurable.unwrap_or_default().0,
        tags: body.tags.unwrap_or_default(),
        metadata: body.metadata.unwrap_or_default().0,
        scope: body.scope_id,
        callback_url: body.callback_url,
        ..caller.start(Transport::Rest)
    })
}

/// Describes why the outgoing policy rejects a URL. Does not repeat the URL: a caller may have sent a secret by
/// mistake.
pub(crate) fn refused_url(field: &str, refused: &OutgoingRefusal) -> ApiError {
    let why = match refused {
        OutgoingRefusal::Address { special, .. } => {
            format!("resolves to {} ({}), which must not be called", special.network, special.purpose)
        }
        OutgoingRefusal::Name(_) => {
            "names a host of an internal network, which must not be called".to_owned()
        }
        OutgoingRefusal::Denied { .. } => {
            "resolves to a network that the operator of this server denies".to_owned()
        }
        OutgoingRefusal::PlainText { .. } | OutgoingRefusal::Scheme => "must begin with https://".to_owned(),
        OutgoingRefusal::UserInfo => "must not contain a user name or a password".to_owned(),
        OutgoingRefusal::Url(why) => (*why).to_owned(),
        OutgoingRefusal::Header(_) => "cannot be called".to_owned(),
    };
    ApiError::rejected_url(field, why)
}

/// Returns the interrupt id of the query or of the body. Both may be given if they are the same.
pub(super) fn named_interrupt(
    query: InterruptQuery,
    body: Option<String>,
) -> Result<Option<String>, ApiError> {
    match (query.interrupt_id, body) {
        (Some(query), Some(body)) if query != body => {
            Err(ApiError::invalid("interruptId", "must be the same in the query and in the body"))
        }
        (query, body) => Ok(query.or(body)),
    }
}

/// Describes the effect of an answer to a node, from the run right after it.
pub(super) fn describe_node_answer(run: &Run, node: &NodeId, interrupt: Option<&str>) -> InterruptResolved {
    if let Some(name) = interrupt {
        return describe_answer(run, node, run.interrupt_named(name));
    }
    // A decision may have led back to its node: the interrupt that it opened has no answer yet.
    let undecided =
        run.interrupt_of_node(node).filter(|asked| asked.is_open() && asked.undecided_answer.is_some());
    // A node that waited for the interrupt of another node has none of its own.
    describe_answer(run, node, undecided.or_else(|| run.closed_interrupt_of_node(node)))
}

/// Describes the effect of an answer to one interrupt.
pub(super) fn describe_answer(run: &Run, node: &NodeId, asked: Option<&Interrupt>) -> InterruptResolved {
    let undecided = asked.filter(|asked| asked.is_open()).and_then(|asked| asked.undecided_answer);
    let quorum = asked.filter(|asked| asked.required_approvals() > 1);
    InterruptResolved {
        run_id: run.id.clone(),
        node_id: node.clone(),
        interrupt_id: asked.map(|asked| run.interrupt_name(asked.id)),
        status: run.status(),
        outcome: outcome(undecided),
        ask_id: match undecided {
            Some(UndecidedAnswer::Asked(ask)) => Some(ask),
            Some(UndecidedAnswer::Voted | UndecidedAnswer::Repeated) | None => None,
        },
        required_approvals: quorum.map(Interrupt::required_approvals),
        votes: quorum.map(votes),
        grant_id: asked.filter(|asked| asked.is_granted()).map(|asked| run.grant_id(asked.id)),
    }
}

fn outcome(undecided: Option<UndecidedAnswer>) -> AnswerOutcome {
    match undecided {
        None => AnswerOutcome::Resolved,
        Some(UndecidedAnswer::Voted) => AnswerOutcome::Voted,
        Some(UndecidedAnswer::Repeated) => AnswerOutcome::Repeated,
        Some(UndecidedAnswer::Asked(_)) => AnswerOutcome::Asked,
    }
}

/// Describes the votes so far.
pub(super) fn votes(asked: &Interrupt) -> Vec<Vote> {
    let vote = |vote: &holdpoint_core::Vote| Vote {
        decided_by: vote.by.clone(),
        acted_by: vote.value.get("actedBy").and_then(Value::as_str).map(str::to_owned),
        action: vote.action().to_owned(),
        at: vote.at.into(),
        client_metadata: Some(vote.client_metadata.clone()).filter(|metadata| !metadata.is_empty()),
        via: vote.via.clone(),
        copied: vote.copied.then_some(true),
    };
    asked.votes.iter().map(vote).collect()
}
