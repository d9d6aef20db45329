//! Webhooks over HTTP: subscriptions, what became of them, and what they were told. The engine delivers; here requests
//! become subscriptions and rows become answers. A secret is shown once, when it is made.

mod deliveries;
mod render;
pub(crate) mod routes;
mod translate;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_api::Nothing;
use holdpoint_api::ids::WebhookEventType;
use holdpoint_api::webhooks::{
    self as api, CreateWebhook, DeleteWebhook, ListWebhookEvents, RotateWebhook, WebhookCreated,
    WebhookEvents, Webhooks,
};
use holdpoint_api::{ErrorCode, ErrorDetails};
use holdpoint_core::webhook::SubscriptionState;
use holdpoint_engine::{Done, Engine, Error, Webhook, WebhookOwner, outgoing};

use crate::app::App;
use crate::auth::{CanManageWebhooks, CanSubscribe};
use crate::body::{Body, InPath, NoBody, OptionalBody, Page, Params};
use crate::error::ApiError;
use crate::idempotency::{Answer, Did, Sent};

pub(super) use holdpoint_api::webhooks::SIGNATURE_ALGORITHMS as ALGORITHMS;
pub(crate) use render::Bodies;
pub(super) use translate::policy;

async fn create(
    State(app): State<App>,
    CanSubscribe(caller): CanSubscribe,
    Sent(sending, Body(body)): Sent<Body<CreateWebhook>>,
) -> Result<Answer, ApiError> {
    let new = translate::new_webhook(&caller, body)?;
    let mut made = None;
    let add = async |engine: Engine| {
        let (webhook, secret) = engine.add_webhook(new).await.map_err(not_added)?;
        tracing::info!(webhook = webhook.id, fingerprint = webhook.fingerprint, "a webhook was registered");
        made = Some((webhook.clone(), secret));
        Ok(Did::Webhook(Box::new(webhook)))
    };
    let answer = sending.carry_out(&app, &caller, added, add).await?;
    Ok(with_secret(answer, made, describe_new))
}

/// Adds a new secret to the answer, unless the request was carried out before.
fn with_secret(
    answer: Answer,
    made: Option<(Webhook, String)>,
    describe: fn(&Webhook) -> WebhookCreated,
) -> Answer {
    match made {
        Some((webhook, secret)) if !answer.replayed => {
            Answer::json(answer.status, &WebhookCreated { secret: Some(secret), ..describe(&webhook) })
        }
        _ => answer,
    }
}

/// A new subscription, with the names of its id and its events that published clients read.
fn describe_new(webhook: &Webhook) -> WebhookCreated {
    WebhookCreated {
        subscription_id: Some(webhook.id.clone()),
        event_types: Some(webhook.filter.events.clone()),
        ..describe_rotated(webhook)
    }
}

fn describe_rotated(webhook: &Webhook) -> WebhookCreated {
    WebhookCreated {
        webhook: translate::describe(webhook),
        subscription_id: None,
        event_types: None,
        secret: None,
    }
}

async fn rotate(
    State(app): State<App>,
    CanManageWebhooks(caller): CanManageWebhooks,
    InPath(id): InPath<String>,
    Sent(sending, OptionalBody(body)): Sent<OptionalBody<RotateWebhook>>,
) -> Result<Answer, ApiError> {
    let overlap_ms = translate::overlap_ms(body.overlap_seconds)?;
    let mut made = None;
    let rotate = async |engine: Engine| {
        let (webhook, secret) = engine.rotate_webhook_secret(caller.tenant(), &id, overlap_ms).await?;
        tracing::info!(webhook = webhook.id, fingerprint = webhook.fingerprint, "a webhook has a new secret");
        made = Some((webhook.clone(), secret));
        Ok(Did::Webhook(Box::new(webhook)))
    };
    let answer = sending.carry_out(&app, &caller, rotated, rotate).await?;
    Ok(with_secret(answer, made, describe_rotated))
}

/// Without the secret: a request that is sent again gets everything else.
fn rotated(done: Done<'_>) -> Answer {
    let Done::Webhook(webhook) = done else { return Answer::nothing() };
    Answer::json(StatusCode::OK, &describe_rotated(webhook))
}

/// Without the secret: a request that is sent again gets everything else.
fn added(done: Done<'_>) -> Answer {
    let (Done::WebhookAdded { webhook, .. } | Done::Webhook(webhook)) = done else {
        return Answer::nothing();
    };
    Answer::json(StatusCode::CREATED, &describe_new(webhook))
}

fn not_added(error: Error) -> ApiError {
    match error {
        Error::Target(outgoing::Error::Refused(refused)) => super::translate::refused_url("url", &refused),
        Error::Target(_) => {
            ApiError::rejected_url("url", "host name does not resolve to an address; check the URL")
        }
        Error::TooMany(_) => {
            let message = "this tenant has as many webhooks as it may have; remove one first";
            ApiError::new(ErrorCode::TooManyWebhooks, message)
        }
        other => other.into(),
    }
}

async fn list(
    State(app): State<App>,
    CanManageWebhooks(caller): CanManageWebhooks,
    Params(page): Params<Page>,
) -> Result<Json<Webhooks>, ApiError> {
    let mut found = app.engine.webhooks(caller.tenant(), page.cursor.as_deref(), page.rows()?).await?;
    let more = page.cut(&mut found)?;
    let next_cursor = found.last().filter(|_| more).map(|last| last.id.clone());
    Ok(Json(Webhooks { webhooks: found.iter().map(translate::describe).collect(), next_cursor }))
}

async fn show(
    State(app): State<App>,
    CanManageWebhooks(caller): CanManageWebhooks,
    InPath(id): InPath<String>,
) -> Result<Json<api::Webhook>, ApiError> {
    let webhook = app.engine.webhook(caller.tenant(), &id).await?;
    Ok(Json(translate::describe(&webhook)))
}

async fn remove(
    State(app): State<App>,
    CanManageWebhooks(caller): CanManageWebhooks,
    InPath(id): InPath<String>,
    Params(of): Params<DeleteWebhook>,
    Sent(sending, NoBody): Sent<NoBody>,
) -> Result<Answer, ApiError> {
    translate::own_tenant(&caller, of.tenant_id.as_deref())?;
    // Goes on when the caller goes away: what is removed on disk must not be delivered to from memory.
    let removing = tokio::spawn(async move {
        let remove = async |engine: Engine| match engine.remove_webhook(caller.tenant(), &id).await? {
            true => Ok(Did::WebhookRemoved(id.clone())),
            false => Err(ApiError::no_subscription()),
        };
        sending.carry_out(&app, &caller, |_| Answer::nothing(), remove).await
    });
    removing.await.map_err(ApiError::internal)?
}

async fn pause(
    State(app): State<App>,
    CanManageWebhooks(caller): CanManageWebhooks,
    InPath(id): InPath<String>,
    Sent(sending, OptionalBody(_)): Sent<OptionalBody<Nothing>>,
) -> Result<Answer, ApiError> {
    let pause =
        async |engine: Engine| Ok(Did::Webhook(Box::new(engine.pause_webhook(caller.tenant(), &id).await?)));
    sending.carry_out(&app, &caller, |done| turned(SubscriptionState::Paused, done), pause).await
}

/// The caller becomes the owner of a webhook that stood still.
async fn resume(
    State(app): State<App>,
    CanSubscribe(caller): CanSubscribe,
    InPath(id): InPath<String>,
    Sent(sending, OptionalBody(_)): Sent<OptionalBody<Nothing>>,
) -> Result<Answer, ApiError> {
    let owner = Some(WebhookOwner::from(&*caller.0));
    let resume = async |engine: Engine| {
        Ok(Did::Webhook(Box::new(engine.resume_webhook(caller.tenant(), &id, owner).await?)))
    };
    sending.carry_out(&app, &caller, |done| turned(SubscriptionState::Active, done), resume).await
}

/// One that cannot be turned stays as it is, and says so.
fn turned(wanted: SubscriptionState, done: Done<'_>) -> Answer {
    let Done::Webhook(webhook) = done else { return Answer::nothing() };
    if webhook.state == wanted {
        return Answer::json(StatusCode::OK, &translate::describe(webhook));
    }
    let message = match webhook.state {
        SubscriptionState::DeadLettered => "its address is gone for good; register a new webhook",
        SubscriptionState::Active | SubscriptionState::Paused | SubscriptionState::Failed => {
            "only an active webhook is paused; this one stands still already"
        }
    };
    let error = ApiError::new(ErrorCode::WrongSubscriptionState, message)
        .with(ErrorDetails::of_state(webhook.state.as_str()));
    Answer::json(StatusCode::CONFLICT, &error.body())
}

/// What became of it: changes of its state, or its attempts. Neither tells what was sent or where to.
async fn events(
    State(app): State<App>,
    CanManageWebhooks(caller): CanManageWebhooks,
    InPath(id): InPath<String>,
    Params(page): Params<Page>,
    Params(wanted): Params<ListWebhookEvents>,
) -> Result<Json<WebhookEvents>, ApiError> {
    app.engine.webhook(caller.tenant(), &id).await?;
    let (events, next) = match translate::event_type(wanted.kind.as_deref())? {
        WebhookEventType::StateChanged => {
            let after = translate::number(page.cursor.as_deref())?.unwrap_or_default();
            let mut found = app.engine.webhook_changes(caller.tenant(), &id, after, page.rows()?).await?;
            let more = page.cut(&mut found)?;
            let next = found.last().filter(|_| more).map(|change| change.seq);
            (found.iter().map(|change| translate::describe_change(&id, change)).collect(), next)
        }
        WebhookEventType::Attempted => {
            let before = translate::number(page.cursor.as_deref())?;
            let (found, more) = deliveries::attempts(&app, &caller, &id, before, &page).await?;
            let next = found.last().filter(|_| more).map(|attempt| attempt.seq);
            (found.iter().map(|attempt| translate::attempted(&id, attempt)).collect(), next)
        }
    };
    Ok(Json(WebhookEvents { events, next_cursor: next.map(|seq| seq.to_string()) }))
}
