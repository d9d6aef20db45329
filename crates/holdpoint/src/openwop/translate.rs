//! Between the protocol and the core: pure functions, no decisions.

use holdpoint_api::ErrorCode;
use holdpoint_api::interrupts::{AnswerOutcome, InterruptQuery, InterruptResolved, Vote};
use holdpoint_api::runs::CreateRun;
use holdpoint_core::{Heard, Interrupt, NodeId, Run, Start};
use holdpoint_engine::outgoing::Refused;
use serde_json::Value;

use crate::auth::Caller;
use crate::error::ApiError;
use crate::reserved;

pub(crate) fn start(caller: &Caller, body: CreateRun) -> Result<Start, ApiError> {
    if body.tenant_id.is_some_and(|tenant| tenant != caller.tenant().as_str()) {
        let message = "tenantId: this key belongs to another tenant";
        return Err(ApiError::new(ErrorCode::Forbidden, message));
    }
    reserved::check_scope("scopeId", body.scope_id.as_deref())?;
    Ok(Start {
        inputs: body.inputs.unwrap_or_default().0,
        configurable: body.configurable.unwrap_or_default().0,
        tags: body.tags.unwrap_or_default(),
        metadata: body.metadata.unwrap_or_default().0,
        scope: body.scope_id,
        callback_url: body.callback_url,
        ..caller.start()
    })
}

/// Why nothing will be sent to a URL, without the names in it: what a caller mistakes for a URL may be a secret.
pub(crate) fn refused_url(field: &str, refused: &Refused) -> ApiError {
    let why = match refused {
        Refused::Address { special, .. } => {
            format!("leads to {} ({}), which must not be called", special.network, special.purpose)
        }
        Refused::Name(_) => "names the inside of a network, which must not be called".to_owned(),
        Refused::Denied { .. } => "leads to a network that this server's operator denies".to_owned(),
        Refused::PlainText { .. } | Refused::Scheme => "must begin with https://".to_owned(),
        Refused::UserInfo => "must not carry a user name or a password".to_owned(),
        Refused::Url(why) => (*why).to_owned(),
        Refused::Header(_) => "cannot be called".to_owned(),
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
pub(super) fn resolved(run: &Run, node: &NodeId, interrupt: Option<&str>) -> InterruptResolved {
    if let Some(name) = interrupt {
        return came_of(run, node, run.interrupt_named(name));
    }
    // An interrupt that was requested only now, because a decision led back to its node, has no answer yet.
    let undecided = run.interrupt_of_node(node).filter(|asked| asked.is_open() && asked.heard.is_some());
    // A node that waited with others for their interrupt has none of its own.
    came_of(run, node, undecided.or_else(|| run.closed_interrupt_of_node(node)))
}

/// Describes the effect of an answer to one interrupt.
pub(super) fn came_of(run: &Run, node: &NodeId, asked: Option<&Interrupt>) -> InterruptResolved {
    let heard = asked.filter(|asked| asked.is_open()).and_then(|asked| asked.heard);
    let quorum = asked.filter(|asked| asked.required_approvals() > 1);
    InterruptResolved {
        run_id: run.id.clone(),
        node_id: node.clone(),
        interrupt_id: asked.map(|asked| run.interrupt_name(asked.id)),
        status: run.status(),
        outcome: outcome(heard),
        ask_id: match heard {
            Some(Heard::Asked(ask)) => Some(ask),
            Some(Heard::Voted | Heard::Repeated) | None => None,
        },
        required_approvals: quorum.map(Interrupt::required_approvals),
        votes: quorum.map(votes),
        grant_id: asked.filter(|asked| asked.is_granted()).map(|asked| run.grant_id(asked.id)),
    }
}

fn outcome(heard: Option<Heard>) -> AnswerOutcome {
    match heard {
        None => AnswerOutcome::Resolved,
        Some(Heard::Voted) => AnswerOutcome::Voted,
        Some(Heard::Repeated) => AnswerOutcome::Repeated,
        Some(Heard::Asked(_)) => AnswerOutcome::Asked,
    }
}

/// Describes the votes so far.
pub(super) fn votes(asked: &Interrupt) -> Vec<Vote> {
    let vote = |vote: &holdpoint_core::Vote| Vote {
        decided_by: vote.by.clone(),
        acted_by: vote.value.get("actedBy").and_then(Value::as_str).map(str::to_owned),
        action: vote.action().to_owned(),
        at: vote.at.into(),
        via: vote.via.clone(),
        copied: vote.copied.then_some(true),
    };
    asked.votes.iter().map(vote).collect()
}
