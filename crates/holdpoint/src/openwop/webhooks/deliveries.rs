//! What a subscriber was told, or was not: lists, attempts, dead letters, and telling it once more.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_api::Nothing;
use holdpoint_api::webhooks::{
    self as api, DeadLetters, DeliveryList, ListDeliveries, ReplayWindow, Replayed,
};
use holdpoint_core::webhook::DeliveryState;
use holdpoint_engine::{Attempt, AttemptFilter, Delivery, DeliveryFilter, Once};

use super::translate;
use crate::app::App;
use crate::auth::{Caller, CanManageWebhooks};
use crate::body::{Body, InPath, OptionalBody, Page, Params};
use crate::error::ApiError;
use crate::idempotency::{ApiResponse, Keyed};

/// Attempts of each delivery that a list shows; one delivery shows the most that a policy and some replays allow.
const IN_LISTS: u64 = 5;
const OF_ONE: u64 = 200;

pub(super) async fn list(
    State(app): State<App>,
    CanManageWebhooks(caller): CanManageWebhooks,
    InPath(id): InPath<String>,
    Params(page): Params<Page>,
    Params(filter): Params<ListDeliveries>,
) -> Result<Json<DeliveryList>, ApiError> {
    let state = translate::delivery_state(filter.state.as_deref())?;
    let (found, next) = found(&app, &caller, &id, &page, state).await?;
    let mut shown = Vec::with_capacity(found.len());
    for delivery in &found {
        shown.push(translate::describe_delivery(delivery, &attempts_of(&app, delivery, IN_LISTS).await?));
    }
    Ok(Json(DeliveryList { deliveries: shown, next_cursor: next }))
}

pub(super) async fn dead_letters(
    State(app): State<App>,
    CanManageWebhooks(caller): CanManageWebhooks,
    InPath(id): InPath<String>,
    Params(page): Params<Page>,
) -> Result<Json<DeadLetters>, ApiError> {
    let (found, next) = found(&app, &caller, &id, &page, Some(DeliveryState::DeadLettered)).await?;
    let mut shown = Vec::with_capacity(found.len());
    for delivery in &found {
        let last = attempts_of(&app, delivery, 1).await?.first().map(|attempt| attempt.seq);
        shown.push(translate::dead_letter(delivery, last, app.engine.dead_letter_kept_until(delivery)));
    }
    Ok(Json(DeadLetters { deliveries: shown, next_cursor: next }))
}

/// Newest first, and where the next page begins.
async fn found(
    app: &App,
    caller: &Caller,
    id: &str,
    page: &Page,
    state: Option<DeliveryState>,
) -> Result<(Vec<Delivery>, Option<String>), ApiError> {
    app.engine.webhook(caller.tenant(), id).await?;
    let filter =
        DeliveryFilter { state, before: translate::number(page.cursor.as_deref())?, limit: page.rows()? };
    let mut found = app.engine.deliveries(caller.tenant(), id, &filter).await?;
    let more = page.cut(&mut found)?;
    let next = found.last().filter(|_| more).map(|delivery| delivery.seq.to_string());
    Ok((found, next))
}

async fn attempts_of(app: &App, delivery: &Delivery, limit: u64) -> Result<Vec<Attempt>, ApiError> {
    let filter = AttemptFilter { delivery: Some(delivery.id.clone()), before: None, limit };
    Ok(app.engine.attempts(&delivery.of.tenant, &delivery.webhook, &filter).await?)
}

/// A page of all attempts of a subscription, newest first, and whether there are more.
pub(super) async fn attempts(
    app: &App,
    caller: &Caller,
    id: &str,
    before: Option<u64>,
    page: &Page,
) -> Result<(Vec<Attempt>, bool), ApiError> {
    let filter = AttemptFilter { delivery: None, before, limit: page.rows()? };
    let mut found = app.engine.attempts(caller.tenant(), id, &filter).await?;
    let more = page.cut(&mut found)?;
    Ok((found, more))
}

pub(super) async fn show(
    State(app): State<App>,
    CanManageWebhooks(caller): CanManageWebhooks,
    InPath((id, delivery)): InPath<(String, String)>,
) -> Result<Json<api::Delivery>, ApiError> {
    app.engine.webhook(caller.tenant(), &id).await?;
    let found = app.engine.delivery(caller.tenant(), &id, &delivery).await?;
    let attempts = attempts_of(&app, &found, OF_ONE).await?;
    Ok(Json(translate::describe_delivery(&found, &attempts)))
}

pub(super) async fn replay(
    State(app): State<App>,
    CanManageWebhooks(caller): CanManageWebhooks,
    InPath((id, delivery)): InPath<(String, String)>,
    Keyed(key, OptionalBody(_)): Keyed<OptionalBody<Nothing>>,
) -> Result<ApiResponse, ApiError> {
    let respond = |row: &_| ApiResponse::json(StatusCode::ACCEPTED, &translate::delivery_alone(row));
    let replay = async |once: Option<&Once<_>>| {
        app.engine.webhook(caller.tenant(), &id).await?;
        Ok(app.engine.replay_delivery(caller.tenant(), &id, &delivery, once).await?)
    };
    key.once(&app, caller.sender(), respond, replay).await
}

pub(super) async fn replay_window(
    State(app): State<App>,
    CanManageWebhooks(caller): CanManageWebhooks,
    InPath(id): InPath<String>,
    Keyed(key, Body(body)): Keyed<Body<ReplayWindow>>,
) -> Result<ApiResponse, ApiError> {
    let window = translate::window(&body)?;
    let webhook_id = id.clone();
    let respond = move |&replayed: &u64| {
        ApiResponse::json(StatusCode::ACCEPTED, &Replayed { webhook_id: webhook_id.clone(), replayed })
    };
    let replay = async |once: Option<&Once<_>>| {
        let events = body.events.unwrap_or_default();
        Ok(app.engine.replay_window(caller.tenant(), &id, window, &events, once).await?)
    };
    key.once(&app, caller.sender(), respond, replay).await
}
