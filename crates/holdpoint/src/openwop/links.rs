//! Signed links over HTTP: making one with a key; looking and answering with one and without a key.

use std::borrow::Cow;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use holdpoint_api::grants::Permit;
use holdpoint_api::interrupts::{InterruptQuery, ResolveInterrupt};
use holdpoint_api::links::{Intent, LinkState, LinkedInterrupt, MintToken, TokenClaims, TokenMinted};
use holdpoint_api::{ErrorCode, ErrorDetails};
use holdpoint_core::{
    Answer as Reply, Command, Interrupt, NodeId, Principal, Refusal, Run, RunRef, TenantId, Via,
};
use holdpoint_engine::{Error, Once};

use super::{asks, translate};
use crate::app::App;
use crate::auth::{Caller, CanAnswer};
use crate::body::{Body, InPath, OptionalBody, Params, parse_principal};
use crate::error::ApiError;
use crate::grants;
use crate::idempotency::{ApiResponse, Keyed, Sender};
use crate::links::{CanInspect, CanResolve, Claims, Link, Minted, Wanted, no_longer};

pub(crate) async fn mint(
    State(app): State<App>,
    CanAnswer(caller): CanAnswer,
    InPath((run, node)): InPath<(String, String)>,
    Params(addressed): Params<InterruptQuery>,
    Keyed(key, OptionalBody(mut body)): Keyed<OptionalBody<MintToken>>,
) -> Result<ApiResponse, ApiError> {
    let of = caller.run(&run)?;
    let named = translate::named_interrupt(addressed, body.interrupt_id.take())?;
    let node = NodeId::parse(&node).map_err(|_| Refusal::InterruptNotFound)?;
    if let Some(name) = body.sub.take() {
        body.sub = Some(addressee(&app, &caller, name).await?);
    }
    let wanted = wanted(&caller, body, app.links.life_ms_max())?;
    // Minting writes nothing to the run, so that the receipt is stored afterwards.
    let mint = async |_: Option<&Once<TokenMinted>>| {
        let run = app.engine.run(&of).await?;
        let asked = run.addressed_interrupt(&node, named.as_deref())?;
        let asked = run.answerable(asked.id, app.engine.now())?;
        if wanted.intent == Intent::Resolve && asked.needs_key() {
            return Err(forbidden(
                "this interrupt is answered with a key; only links for looking are made for it",
            ));
        }
        if !is_known(&app, &of.tenant, asked, &wanted.sub).await? {
            return Err(Refusal::UnknownName(wanted.sub).into());
        }
        let minted = app.links.mint(&app.engine, (&of, &run), asked, wanted).await?;
        let claims = describe_claims(&minted.claims);
        let shown = TokenMinted { claims, link_id: minted.id, token: None, url: None };
        Ok((shown, Some((minted.token, minted.url))))
    };
    let respond = |minted: &TokenMinted, link: Option<(String, String)>| {
        let (token, url) = link.unzip();
        ApiResponse::json(StatusCode::CREATED, &TokenMinted { token, url, ..minted.clone() })
    };
    key.once_with_secret(&app, caller.sender(), respond, mint).await
}

/// Whether there is somebody of that name, as far as it matters: where it may as well be that of a role.
async fn is_known(app: &App, tenant: &TenantId, asked: &Interrupt, name: &str) -> Result<bool, ApiError> {
    Ok(!asked.lists_plainly(name) || app.engine.has_principal(tenant, name).await?)
}

/// Returns the name that a link answers in: that of a principal of the tenant as it is stored, or a new one.
async fn addressee(app: &App, caller: &Caller, name: String) -> Result<String, ApiError> {
    let is_stored = name == caller.0.principal
        || (!name.is_ascii() && app.engine.has_principal(caller.tenant(), &name).await?);
    if is_stored { Ok(name) } else { parse_principal("for", &name) }
}

/// Answers in one's own name, unless the caller may act for others.
fn wanted(caller: &Caller, body: MintToken, life_ms_max: u64) -> Result<Wanted, ApiError> {
    let (own, seconds_max) = (caller.principal().name, life_ms_max / 1000);
    if body.sub.as_ref().is_some_and(|name| *name != own) && !caller.may("approvals:act-as") {
        let error = forbidden("for: a link in another name needs the scope approvals:act-as");
        return Err(error.with(ErrorDetails::of_scope("approvals:act-as")));
    }
    let life_ms = match (body.expires_in_seconds, body.ttl_ms) {
        (None, None) => Wanted::LIFE_MS_DEFAULT.min(life_ms_max),
        (Some(seconds), None) if (1..=seconds_max).contains(&seconds) => seconds * 1000,
        (None, Some(ms)) if (1..=life_ms_max).contains(&ms) => ms,
        (Some(_), None) => {
            return Err(ApiError::invalid("expiresInSeconds", format!("must be 1 to {seconds_max}")));
        }
        (None, Some(_)) => return Err(ApiError::invalid("ttlMs", format!("must be 1 to {life_ms_max}"))),
        (Some(_), Some(_)) => {
            return Err(ApiError::invalid(
                "ttlMs",
                "cannot be combined with expiresInSeconds; give one of them",
            ));
        }
    };
    let sub = body.sub.unwrap_or_else(|| own.clone());
    let (intent, keys) = (body.intent.unwrap_or_default(), vec![caller.0.lineage.clone()]);
    Ok(Wanted { intent, life_ms, sub, by: own, keys })
}

fn forbidden(message: &str) -> ApiError {
    ApiError::new(ErrorCode::Forbidden, message)
}

fn describe_claims(claims: &Claims) -> TokenClaims {
    TokenClaims {
        run_id: claims.of.run.clone(),
        node_id: claims.node.clone(),
        interrupt_id: claims.interrupt.clone(),
        intent: claims.intent,
        sub: claims.sub.clone(),
        expires_at: claims.expires_at.into(),
    }
}

/// The link that the snapshot of a waiting run shows to those who may answer it: in their own name, for a while.
pub(super) async fn offered(
    app: &App,
    caller: &Caller,
    of: &RunRef,
    run: &Run,
) -> Result<Option<Minted>, ApiError> {
    let Some(waiting) = run.waiting_on() else { return Ok(None) };
    let Ok(asked) = run.answerable(waiting.id, app.engine.now()) else { return Ok(None) };
    if asked.needs_key() {
        return Ok(None);
    }
    let life_ms = Wanted::LIFE_MS_DEFAULT.min(app.links.life_ms_max());
    let own = caller.principal().name;
    let keys = vec![caller.0.lineage.clone()];
    let wanted = Wanted { intent: Intent::Resolve, life_ms, sub: own.clone(), by: own, keys };
    match app.links.mint(&app.engine, (of, run), asked, wanted).await {
        // Ids that do not fit into a URL are no reason to show nothing at all.
        Err(error) if error.status() == StatusCode::UNPROCESSABLE_ENTITY => Ok(None),
        other => other.map(Some),
    }
}

/// Shows what is asked. Decides nothing, however often it is opened: scanners of mail open every link.
pub(crate) async fn inspect(
    State(app): State<App>,
    CanInspect(link): CanInspect,
) -> Result<Response, ApiError> {
    let asked = link.run.interrupt(link.interrupt);
    let open = link.run.answerable(link.interrupt, app.engine.now());
    let open = open.map_err(|refusal| no_longer(refusal, asked))?;
    let permits = grants::permits(&app.engine, &link.run, open);
    Ok(Json(describe(&link, open, permits)).into_response())
}

fn describe<'a>(link: &'a Link, asked: &'a Interrupt, permits: Option<Vec<Permit>>) -> LinkedInterrupt<'a> {
    let assignees = asked.assignees(&link.run.requesters()).entries();
    let several = asked.required_approvals() > 1;
    LinkedInterrupt {
        claims: describe_claims(&link.claims),
        state: LinkState::Open,
        kind: asked.kind,
        key: Cow::Borrowed(&asked.key),
        title: Cow::Borrowed(asked.title()),
        data: Cow::Borrowed(&asked.data),
        requested_at: asked.requested_at.into(),
        interrupt_expires_at: asked.expires_at().map(Into::into),
        timeout_ms: asked.timeout_ms,
        resume_schema: asked.resume_schema.as_ref().map(Cow::Borrowed),
        assignees: (!assignees.is_empty()).then_some(assignees),
        digest: asked.digest.as_deref().map(Cow::Borrowed),
        required_approvals: several.then(|| asked.required_approvals()),
        votes: several.then(|| translate::votes(asked)),
        asks: (!asked.asks.is_empty()).then(|| asked.asks.iter().map(asks::describe).collect()),
        permits,
    }
}

pub(crate) async fn resolve(
    State(app): State<App>,
    CanResolve(link): CanResolve,
    Keyed(key, Body(body)): Keyed<Body<ResolveInterrupt>>,
) -> Result<ApiResponse, ApiError> {
    let Link { id, claims, interrupt, run } = link;
    if body.interrupt_id.is_some_and(|named| named != claims.interrupt) {
        return Err(Refusal::InterruptNotFound.into());
    }
    let known = match run.interrupt(interrupt) {
        Some(asked) => is_known(&app, &claims.of.tenant, asked, &claims.sub).await?,
        None => false,
    };
    // The name and nothing else: roles and groups belong to keys.
    let reply = Reply {
        known,
        by_link: true,
        vouched_by: Some(claims.by.clone()),
        digest: body.digest,
        via: Some(Via::link(id)),
        ..Reply::new(body.resume_value.0, Principal::named(claims.sub.as_str()))
    };
    // By its own id: at a later visit of the node something else is asked.
    let command = Command::Resolve { answers: [(interrupt, reply)].into() };
    let (of, node) = (claims.of.clone(), claims.node.clone());
    let respond = move |run: &Run| {
        ApiResponse::json(StatusCode::OK, &translate::came_of(run, &node, run.interrupt(interrupt)))
    };
    let resolve = async |once: Option<&Once<_>>| match app.engine.execute_once(&of, &[command], once).await {
        Err(Error::Refused(refusal)) => {
            let run = app.engine.run(&of).await?;
            Err(no_longer(refusal, run.interrupt(interrupt)))
        }
        other => Ok(other?),
    };
    key.once(&app, Sender::Link(&claims.of.tenant), respond, resolve).await
}
