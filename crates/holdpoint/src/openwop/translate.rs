//! Between the protocol and the core: pure functions, no decisions.

use axum::http::StatusCode;
use holdpoint_api::runs::CreateRun;
use holdpoint_core::{Heard, Interrupt, NodeId, Run, Start, Vote};
use holdpoint_engine::outgoing::Refused;
use serde_json::{Value, json};

use crate::auth::Caller;
use crate::error::ApiError;
use crate::reserved;

pub(crate) fn start(caller: &Caller, body: CreateRun) -> Result<Start, ApiError> {
    if body.tenant_id.is_some_and(|tenant| tenant != caller.tenant().as_str()) {
        let message = "tenantId: this key belongs to another tenant";
        return Err(ApiError::new(StatusCode::FORBIDDEN, "forbidden", message));
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

/// What came of an answer to a node, told from the fold right after it.
pub(crate) fn resolved(run: &Run, node: &NodeId, interrupt: Option<&str>) -> Value {
    if let Some(name) = interrupt {
        return came_of(run, node, run.interrupt_named(name));
    }
    // One that was asked only now, because a decision led back to its node, has heard nothing yet.
    let undecided = run.interrupt_of_node(node).filter(|asked| asked.is_open() && asked.heard.is_some());
    // A node that waited with others for their question has none of its own.
    came_of(run, node, undecided.or_else(|| run.closed_interrupt_of_node(node)))
}

/// What came of an answer to one interrupt.
pub(crate) fn came_of(run: &Run, node: &NodeId, asked: Option<&Interrupt>) -> Value {
    let heard = asked.filter(|asked| asked.is_open()).and_then(|asked| asked.heard);
    let mut shown =
        json!({"runId": run.id, "nodeId": node, "status": run.status().as_str(), "outcome": outcome(heard)});
    let Some(asked) = asked else { return shown };
    shown["interruptId"] = json!(run.interrupt_name(asked.id));
    if let Some(Heard::Asked(ask)) = heard {
        shown["askId"] = json!(ask);
    }
    if asked.is_granted() {
        shown["grantId"] = json!(run.grant_id(asked.id));
    }
    if asked.required_approvals() > 1 {
        shown["requiredApprovals"] = json!(asked.required_approvals());
        shown["votes"] = votes(asked);
    }
    shown
}

fn outcome(heard: Option<Heard>) -> &'static str {
    match heard {
        None => "resolved",
        Some(Heard::Voted) => "voted",
        Some(Heard::Repeated) => "repeated",
        Some(Heard::Asked(_)) => "asked",
    }
}

/// Who has spoken so far, and what they said.
pub(crate) fn votes(asked: &Interrupt) -> Value {
    let vote = |vote: &Vote| {
        let mut shown = json!({"decidedBy": vote.by, "action": vote.action(), "at": vote.at.to_string()});
        if vote.copied {
            shown["copied"] = json!(true);
        }
        if let Some(acting) = vote.value.get("actedBy") {
            shown["actedBy"] = acting.clone();
        }
        if let Some(via) = &vote.via {
            shown["via"] = json!(via);
        }
        shown
    };
    asked.votes.iter().map(vote).collect()
}
