//! Handlers of signed links: one creates a link with a key, the others show or answer an interrupt with a link.

use std::borrow::Cow;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use holdpoint_api::grants::Permit;
use holdpoint_api::interrupts::{InterruptQuery, ResolveInterrupt};
use holdpoint_api::links::{Intent, LinkState, LinkedInterrupt, MintToken, TokenClaims, TokenMinted};
use holdpoint_api::{ErrorCode, ErrorDetails};
use holdpoint_core::{
    Answer, Command, Interrupt, InterruptId, NodeId, Principal, Refusal, Run, RunRef, TenantId, Via,
};
use holdpoint_engine::{Error, Once};

use super::{side_questions, translate};
use crate::app::App;
use crate::auth::{Caller, CanAnswer};
use crate::body::{InPath, JsonBody, OptionalBody, Params, parse_principal};
use crate::error::ApiError;
use crate::grants;
use crate::idempotency::{ApiResponse, KeyedBody, Sender};
use crate::links::{CanInspect, CanResolve, Claims, Link, LinkRequest, NewLink, link_refusal};

pub(crate) async fn mint(
    State(app): State<App>,
    CanAnswer(caller): CanAnswer,
    InPath((run, node)): InPath<(String, String)>,
    Params(addressed): Params<InterruptQuery>,
    KeyedBody(key, OptionalBody(mut body)): KeyedBody<OptionalBody<MintToken>>,
) -> Result<ApiResponse, ApiError> {
    let of = caller.run(&run)?;
    let named = translate::named_interrupt(addressed, body.interrupt_id.take())?;
    let node = NodeId::parse(&node).map_err(|_| Refusal::InterruptNotFound)?;
    if let Some(name) = body.sub.take() {
        body.sub = Some(link_subject(&app, &caller, name).await?);
    }
    let wanted = parse_request(&caller, body, app.links.life_ms_max())?;
    // Creating a link does not change the run, so the receipt is stored afterwards.
    let mint = async |_: Option<&Once<_>>| mint_link(&app, &of, &node, named.as_deref(), wanted).await;
    key.once_with_secret(&app, caller.sender(), respond_minted, mint).await
}

/// Creates a link. Returns its description, and its token and URL, which only the first response shows.
async fn mint_link(
    app: &App,
    of: &RunRef,
    node: &NodeId,
    named: Option<&str>,
    wanted: LinkRequest,
) -> Result<(TokenMinted, Option<(String, String)>), ApiError> {
    let run = app.engine.runs().get(of).await?;
    let asked = run.addressed_interrupt(node, named)?;
    let asked = run.answerable(asked.id, app.engine.now())?;
    if wanted.intent == Intent::Resolve && asked.needs_key() {
        return Err(forbidden(
            "this interrupt requires a key to answer; only links with the intent inspect can be created for it",
        ));
    }
    if !is_known(app, &of.tenant, asked, &wanted.sub).await? {
        return Err(Refusal::UnknownName(wanted.sub).into());
    }
    let minted = app.links.mint(&app.engine, of, &run, asked, wanted).await?;
    let claims = describe_claims(&minted.claims);
    let shown = TokenMinted { claims, link_id: minted.id(), token: None, url: None };
    Ok((shown, Some((minted.token, minted.url))))
}

fn respond_minted(minted: &TokenMinted, link: Option<(String, String)>) -> ApiResponse {
    let (token, url) = link.unzip();
    ApiResponse::json(StatusCode::CREATED, &TokenMinted { token, url, ..minted.clone() })
}

/// Returns false if a name is not a known principal and the interrupt lists it without a prefix: then the entry could
/// also mean a role or a group.
async fn is_known(app: &App, tenant: &TenantId, asked: &Interrupt, name: &str) -> Result<bool, ApiError> {
    Ok(!asked.lists_without_prefix(name) || app.engine.keys().has_principal(tenant, name).await?)
}

/// Returns the name in which a link answers: a stored principal of the tenant, or a new valid name.
async fn link_subject(app: &App, caller: &Caller, name: String) -> Result<String, ApiError> {
    let is_stored = name == caller.0.principal
        || (!name.is_ascii() && app.engine.keys().has_principal(caller.tenant(), &name).await?);
    if is_stored { Ok(name) } else { parse_principal("for", &name) }
}

/// Parses a request for a link. A link for another name than that of the caller requires a scope.
fn parse_request(caller: &Caller, body: MintToken, life_ms_max: u64) -> Result<LinkRequest, ApiError> {
    let (own, seconds_max) = (caller.name().to_owned(), life_ms_max / 1000);
    if body.sub.as_ref().is_some_and(|name| *name != own) && !caller.may("approvals:act-as") {
        let error = forbidden("for: a link for another principal requires the scope approvals:act-as");
        return Err(error.with(ErrorDetails::of_scope("approvals:act-as")));
    }
    let life_ms = match (body.expires_in_seconds, body.ttl_ms) {
        (None, None) => LinkRequest::LIFE_MS_DEFAULT.min(life_ms_max),
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
    Ok(LinkRequest { intent, life_ms, sub, by: own, keys })
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

/// Creates the link that the snapshot of a waiting run shows to a caller that may answer: in the name of the caller and
/// with the default lifetime.
pub(super) async fn mint_for_snapshot(
    app: &App,
    caller: &Caller,
    of: &RunRef,
    run: &Run,
) -> Result<Option<NewLink>, ApiError> {
    let Some(waiting) = run.waiting_on() else { return Ok(None) };
    let Ok(asked) = run.answerable(waiting.id, app.engine.now()) else { return Ok(None) };
    if asked.needs_key() {
        return Ok(None);
    }
    let life_ms = LinkRequest::LIFE_MS_DEFAULT.min(app.links.life_ms_max());
    let own = caller.name().to_owned();
    let keys = vec![caller.0.lineage.clone()];
    let wanted = LinkRequest { intent: Intent::Resolve, life_ms, sub: own.clone(), by: own, keys };
    match app.links.mint(&app.engine, of, run, asked, wanted).await {
        // The ids are too long for a URL: the snapshot is shown without a link.
        Err(error) if error.status() == StatusCode::UNPROCESSABLE_ENTITY => Ok(None),
        other => other.map(Some),
    }
}

/// Shows the interrupt of a link. Has no effect, because mail scanners open every link.
pub(crate) async fn inspect(
    State(app): State<App>,
    CanInspect(link): CanInspect,
) -> Result<Response, ApiError> {
    let asked = link.run.interrupt(link.interrupt);
    let open = link.run.answerable(link.interrupt, app.engine.now());
    let open = open.map_err(|refusal| link_refusal(refusal, asked))?;
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
        resume_schema: asked.resume_schema.as_deref().map(Cow::Borrowed),
        assignees: (!assignees.is_empty()).then_some(assignees),
        digest: asked.digest.as_deref().map(Cow::Borrowed),
        required_approvals: several.then(|| asked.required_approvals()),
        votes: several.then(|| translate::votes(asked)),
        asks: (!asked.side_questions.is_empty())
            .then(|| asked.side_questions.iter().map(side_questions::describe).collect()),
        permits,
    }
}

pub(crate) async fn resolve(
    State(app): State<App>,
    CanResolve(link): CanResolve,
    KeyedBody(key, JsonBody(body)): KeyedBody<JsonBody<ResolveInterrupt>>,
) -> Result<ApiResponse, ApiError> {
    let answer = answer(&app, &link, body).await?;
    let Link { claims, interrupt, .. } = link;
    // Addressed by its id: a later visit of the node may open another interrupt.
    let command = Command::Resolve { answers: [(interrupt, answer)].into() };
    let (of, node) = (claims.of.clone(), claims.node.clone());
    let respond = move |run: &Run| {
        ApiResponse::json(StatusCode::OK, &translate::describe_answer(run, &node, run.interrupt(interrupt)))
    };
    let resolve = async |once: Option<&Once<_>>| execute(&app, &of, interrupt, command, once).await;
    key.once(&app, Sender::Link(&claims.of.tenant), respond, resolve).await
}

/// Returns the answer of a link. Its principal has a name only: roles and groups belong to keys.
async fn answer(app: &App, link: &Link, body: ResolveInterrupt) -> Result<Answer, ApiError> {
    let claims = &link.claims;
    if body.interrupt_id.is_some_and(|named| named != claims.interrupt) {
        return Err(Refusal::InterruptNotFound.into());
    }
    let known = match link.run.interrupt(link.interrupt) {
        Some(asked) => is_known(app, &claims.of.tenant, asked, &claims.sub).await?,
        None => false,
    };
    Ok(Answer {
        decider_known: known,
        by_link: true,
        vouched_by: Some(claims.by.clone()),
        digest: body.digest,
        via: Some(Via::link(link.id.as_str())),
        ..Answer::new(body.resume_value.0, Principal::named(claims.sub.as_str()))
    })
}

/// Executes the command of a link. A refusal shows the state of the interrupt.
async fn execute(
    app: &App,
    of: &RunRef,
    interrupt: InterruptId,
    command: Command,
    once: Option<&Once<Run>>,
) -> Result<Arc<Run>, ApiError> {
    match app.engine.runs().execute_once(of, &[command], once).await {
        Err(Error::Refused(refusal)) => {
            let run = app.engine.runs().get(of).await?;
            Err(link_refusal(refusal, run.interrupt(interrupt)))
        }
        executed => Ok(executed?),
    }
}
