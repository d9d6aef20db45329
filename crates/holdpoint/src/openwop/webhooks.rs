//! Handlers of webhooks: subscriptions, their changes of state and their deliveries. The engine decides when a delivery
//! is sent; `courier` renders, signs and sends it. A secret is shown once, when it is created.

mod courier;
mod deliveries;
mod render;
pub(crate) mod routes;
mod translate;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_api::EmptyBody;
use holdpoint_api::ids::WebhookEventType;
use holdpoint_api::webhooks::{
    self as api, CreateWebhook, DeleteWebhook, ListWebhookEvents, RotateWebhook, WebhookCreated,
    WebhookEvents, WebhookList,
};
use holdpoint_api::{ErrorCode, ErrorDetails};
use holdpoint_core::webhook::SubscriptionState;
use holdpoint_engine::{Error, NewWebhook, Once, Webhook, WebhookOwner, outgoing};

use crate::app::App;
use crate::auth::{Caller, CanManageWebhooks, CanSubscribe};
use crate::body::{IgnoredBody, InPath, JsonBody, OptionalBody, PageParams, Params};
use crate::error::ApiError;
use crate::idempotency::{ApiResponse, KeyedBody};

pub(crate) use courier::delivery_worker;
pub(super) use holdpoint_api::webhooks::SIGNATURE_ALGORITHMS as ALGORITHMS;
pub(super) use translate::{delivery_state, describe_owner, policy, retry_policy};

async fn create(
    State(app): State<App>,
    CanSubscribe(caller): CanSubscribe,
    KeyedBody(key, JsonBody(body)): KeyedBody<JsonBody<CreateWebhook>>,
) -> Result<ApiResponse, ApiError> {
    let new = translate::new_webhook(&caller, body)?;
    let add = async |once: Option<&Once<_>>| {
        let new = NewWebhook { once: once.cloned(), ..new };
        let (webhook, secret) = app.engine.webhooks().add(new).await.map_err(creation_error)?;
        tracing::info!(webhook = webhook.id, fingerprint = webhook.fingerprint, "webhook registered");
        Ok((webhook, Some(secret)))
    };
    key.once_with_secret(&app, caller.sender(), create_response, add).await
}

/// Describes a new subscription. Repeats its id and its events under the names that published clients read.
fn create_response(webhook: &Webhook, secret: Option<String>) -> ApiResponse {
    let created = WebhookCreated {
        webhook: translate::describe(webhook),
        subscription_id: Some(webhook.id.clone()),
        event_types: Some(webhook.filter.events.clone()),
        secret,
    };
    ApiResponse::json(StatusCode::CREATED, &created)
}

async fn rotate(
    State(app): State<App>,
    CanManageWebhooks(caller): CanManageWebhooks,
    InPath(id): InPath<String>,
    KeyedBody(key, OptionalBody(body)): KeyedBody<OptionalBody<RotateWebhook>>,
) -> Result<ApiResponse, ApiError> {
    let overlap_ms = translate::overlap_ms(body.overlap_seconds)?;
    let rotate = async |once: Option<&Once<_>>| {
        let (webhook, secret) =
            app.engine.webhooks().rotate_secret(caller.tenant(), &id, overlap_ms, once).await?;
        tracing::info!(webhook = webhook.id, fingerprint = webhook.fingerprint, "webhook secret rotated");
        Ok((webhook, Some(secret)))
    };
    key.once_with_secret(&app, caller.sender(), rotate_response, rotate).await
}

fn rotate_response(webhook: &Webhook, secret: Option<String>) -> ApiResponse {
    let webhook = translate::describe(webhook);
    let rotated = WebhookCreated { webhook, subscription_id: None, event_types: None, secret };
    ApiResponse::json(StatusCode::OK, &rotated)
}

fn creation_error(error: Error) -> ApiError {
    match error {
        Error::Target(outgoing::Error::Refused(refused)) => super::translate::refused_url("url", &refused),
        Error::Target(_) => {
            ApiError::rejected_url("url", "host name does not resolve to an address; check the URL")
        }
        Error::TooMany(_) => {
            let message = "this tenant has the maximum number of webhooks; remove one first";
            ApiError::new(ErrorCode::TooManyWebhooks, message)
        }
        other => other.into(),
    }
}

async fn list(
    State(app): State<App>,
    CanManageWebhooks(caller): CanManageWebhooks,
    Params(page): Params<PageParams>,
) -> Result<Json<WebhookList>, ApiError> {
    let mut found = app.engine.webhooks().list(caller.tenant(), page.cursor.as_deref(), page.rows()?).await?;
    let more = page.truncate(&mut found)?;
    let next_cursor = found.last().filter(|_| more).map(|last| last.id.clone());
    Ok(Json(WebhookList { webhooks: found.iter().map(translate::describe).collect(), next_cursor }))
}

async fn show(
    State(app): State<App>,
    CanManageWebhooks(caller): CanManageWebhooks,
    InPath(id): InPath<String>,
) -> Result<Json<api::Webhook>, ApiError> {
    let webhook = app.engine.webhooks().get(caller.tenant(), &id).await?;
    Ok(Json(translate::describe(&webhook)))
}

async fn remove(
    State(app): State<App>,
    CanManageWebhooks(caller): CanManageWebhooks,
    InPath(id): InPath<String>,
    Params(of): Params<DeleteWebhook>,
    KeyedBody(key, IgnoredBody): KeyedBody<IgnoredBody>,
) -> Result<ApiResponse, ApiError> {
    translate::own_tenant(&caller, of.tenant_id.as_deref())?;
    // Continues if the caller disconnects: after the row is deleted, the webhook must also be removed from memory.
    let removing = tokio::spawn(async move {
        let remove = async |once: Option<&Once<()>>| {
            let removed = app.engine.webhooks().remove(caller.tenant(), &id, once).await?;
            removed.then_some(()).ok_or_else(ApiError::no_subscription)
        };
        key.once(&app, caller.sender(), |()| ApiResponse::empty(), remove).await
    });
    removing.await.map_err(ApiError::internal)?
}

async fn pause(
    State(app): State<App>,
    CanManageWebhooks(caller): CanManageWebhooks,
    InPath(id): InPath<String>,
    KeyedBody(key, OptionalBody(_)): KeyedBody<OptionalBody<EmptyBody>>,
) -> Result<ApiResponse, ApiError> {
    let pause =
        async |once: Option<&Once<_>>| Ok(app.engine.webhooks().pause(caller.tenant(), &id, once).await?);
    key.once(&app, caller.sender(), |hook: &_| state_response(SubscriptionState::Paused, hook), pause).await
}

/// Resumes a webhook. The caller becomes its owner.
async fn resume(
    State(app): State<App>,
    CanSubscribe(caller): CanSubscribe,
    InPath(id): InPath<String>,
    KeyedBody(key, OptionalBody(_)): KeyedBody<OptionalBody<EmptyBody>>,
) -> Result<ApiResponse, ApiError> {
    let owner = Some(WebhookOwner::from(&*caller.0));
    let resume = async |once: Option<&Once<_>>| {
        Ok(app.engine.webhooks().resume(caller.tenant(), &id, owner, once).await?)
    };
    key.once(&app, caller.sender(), |hook: &_| state_response(SubscriptionState::Active, hook), resume).await
}

/// Describes a webhook in the requested state, or responds with a conflict if it could not change to that state.
fn state_response(requested: SubscriptionState, webhook: &Webhook) -> ApiResponse {
    if webhook.state == requested {
        return ApiResponse::json(StatusCode::OK, &translate::describe(webhook));
    }
    let message = match webhook.state {
        SubscriptionState::DeadLettered => {
            "the receiver responded that its address is gone; register a new webhook"
        }
        SubscriptionState::Active | SubscriptionState::Paused | SubscriptionState::Failed => {
            "only an active webhook can be paused; this one is not active"
        }
    };
    let error = ApiError::new(ErrorCode::WrongSubscriptionState, message)
        .with(ErrorDetails::of_state(webhook.state.as_str()));
    ApiResponse::json(StatusCode::CONFLICT, &error.body())
}

/// Lists changes of state or attempts of a webhook, without content and address of the deliveries.
async fn events(
    State(app): State<App>,
    CanManageWebhooks(caller): CanManageWebhooks,
    InPath(id): InPath<String>,
    Params(page): Params<PageParams>,
    Params(query): Params<ListWebhookEvents>,
) -> Result<Json<WebhookEvents>, ApiError> {
    app.engine.webhooks().get(caller.tenant(), &id).await?;
    list_events(&app, &caller, &id, &page, &query).await.map(Json)
}

/// Lists the events of a webhook or of a trigger.
pub(super) async fn list_events(
    app: &App,
    caller: &Caller,
    id: &str,
    page: &PageParams,
    query: &ListWebhookEvents,
) -> Result<WebhookEvents, ApiError> {
    let kind = translate::event_type(query.kind.as_deref())?;
    let cursor = translate::parse_number_cursor(page.cursor.as_deref())?;
    match kind {
        WebhookEventType::StateChanged => changes(app, caller, id, cursor.unwrap_or_default(), page).await,
        WebhookEventType::Attempted => attempts(app, caller, id, cursor, page).await,
    }
}

async fn changes(
    app: &App,
    caller: &Caller,
    id: &str,
    after: u64,
    page: &PageParams,
) -> Result<WebhookEvents, ApiError> {
    let mut found = app.engine.webhooks().changes(caller.tenant(), id, after, page.rows()?).await?;
    let more = page.truncate(&mut found)?;
    let next_cursor = found.last().filter(|_| more).map(|change| change.seq.to_string());
    let events = found.iter().map(|change| translate::describe_change(id, change)).collect();
    Ok(WebhookEvents { events, next_cursor })
}

async fn attempts(
    app: &App,
    caller: &Caller,
    id: &str,
    before: Option<u64>,
    page: &PageParams,
) -> Result<WebhookEvents, ApiError> {
    let (found, more) = deliveries::attempts(app, caller, id, before, page).await?;
    let next_cursor = found.last().filter(|_| more).map(|attempt| attempt.seq.to_string());
    let events = found.iter().map(|attempt| translate::describe_attempt_event(id, attempt)).collect();
    Ok(WebhookEvents { events, next_cursor })
}
