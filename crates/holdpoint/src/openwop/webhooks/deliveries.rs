//! Handlers that list and show deliveries, attempts and dead letters, and replay deliveries.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_api::EmptyBody;
use holdpoint_api::webhooks::{
    self as api, DeadLetters, DeliveryList, ListDeliveries, ReplayWindow, Replayed,
};
use holdpoint_core::webhook::DeliveryState;
use holdpoint_engine::{Attempt, AttemptFilter, Delivery, DeliveryFilter, Once};

use super::translate;
use crate::app::App;
use crate::auth::{Caller, CanManageWebhooks};
use crate::body::{InPath, JsonBody, OptionalBody, PageParams, Params};
use crate::error::ApiError;
use crate::idempotency::{ApiResponse, KeyedBody};

/// The maximum number of attempts per delivery in a list.
const ATTEMPTS_IN_LIST_MAX: u64 = 5;
/// The maximum number of attempts of a single delivery: enough for the largest retry policy and some replays.
const ATTEMPTS_OF_DELIVERY_MAX: u64 = 200;

pub(super) async fn list(
    State(app): State<App>,
    CanManageWebhooks(caller): CanManageWebhooks,
    InPath(id): InPath<String>,
    Params(page): Params<PageParams>,
    Params(filter): Params<ListDeliveries>,
) -> Result<Json<DeliveryList>, ApiError> {
    let state = translate::delivery_state(filter.state.as_deref())?;
    let (found, next) = find_deliveries(&app, &caller, &id, &page, state).await?;
    let mut shown = Vec::with_capacity(found.len());
    for delivery in &found {
        shown.push(translate::describe_delivery(
            delivery,
            &attempts_of(&app, delivery, ATTEMPTS_IN_LIST_MAX).await?,
        ));
    }
    Ok(Json(DeliveryList { deliveries: shown, next_cursor: next }))
}

pub(super) async fn dead_letters(
    State(app): State<App>,
    CanManageWebhooks(caller): CanManageWebhooks,
    InPath(id): InPath<String>,
    Params(page): Params<PageParams>,
) -> Result<Json<DeadLetters>, ApiError> {
    let (found, next) = find_deliveries(&app, &caller, &id, &page, Some(DeliveryState::DeadLettered)).await?;
    let mut shown = Vec::with_capacity(found.len());
    for delivery in &found {
        let last = attempts_of(&app, delivery, 1).await?.first().map(|attempt| attempt.seq);
        let kept_until = app.engine.deliveries().dead_letter_kept_until(delivery);
        shown.push(translate::dead_letter(delivery, last, kept_until));
    }
    Ok(Json(DeadLetters { deliveries: shown, next_cursor: next }))
}

/// Returns a page of deliveries, newest first, and the cursor of the next page.
async fn find_deliveries(
    app: &App,
    caller: &Caller,
    id: &str,
    page: &PageParams,
    state: Option<DeliveryState>,
) -> Result<(Vec<Delivery>, Option<String>), ApiError> {
    app.engine.webhooks().get(caller.tenant(), id).await?;
    let filter = DeliveryFilter {
        state,
        before: translate::parse_number_cursor(page.cursor.as_deref())?,
        limit: page.rows()?,
    };
    let mut found = app.engine.deliveries().list(caller.tenant(), id, &filter).await?;
    let more = page.truncate(&mut found)?;
    let next = found.last().filter(|_| more).map(|delivery| delivery.seq.to_string());
    Ok((found, next))
}

async fn attempts_of(app: &App, delivery: &Delivery, limit: u64) -> Result<Vec<Attempt>, ApiError> {
    let filter = AttemptFilter { delivery: Some(delivery.id.clone()), before: None, limit };
    Ok(app.engine.deliveries().attempts(&delivery.of.tenant, &delivery.webhook, &filter).await?)
}

/// Returns a page of the attempts of a webhook, newest first, and whether there are more.
pub(super) async fn attempts(
    app: &App,
    caller: &Caller,
    id: &str,
    before: Option<u64>,
    page: &PageParams,
) -> Result<(Vec<Attempt>, bool), ApiError> {
    let filter = AttemptFilter { delivery: None, before, limit: page.rows()? };
    let mut found = app.engine.deliveries().attempts(caller.tenant(), id, &filter).await?;
    let more = page.truncate(&mut found)?;
    Ok((found, more))
}

pub(super) async fn show(
    State(app): State<App>,
    CanManageWebhooks(caller): CanManageWebhooks,
    InPath((id, delivery)): InPath<(String, String)>,
) -> Result<Json<api::Delivery>, ApiError> {
    app.engine.webhooks().get(caller.tenant(), &id).await?;
    let found = app.engine.deliveries().get(caller.tenant(), &id, &delivery).await?;
    let attempts = attempts_of(&app, &found, ATTEMPTS_OF_DELIVERY_MAX).await?;
    Ok(Json(translate::describe_delivery(&found, &attempts)))
}

pub(super) async fn replay(
    State(app): State<App>,
    CanManageWebhooks(caller): CanManageWebhooks,
    InPath((id, delivery)): InPath<(String, String)>,
    KeyedBody(key, OptionalBody(_)): KeyedBody<OptionalBody<EmptyBody>>,
) -> Result<ApiResponse, ApiError> {
    let respond = |row: &_| ApiResponse::json(StatusCode::ACCEPTED, &translate::describe_delivery_row(row));
    let replay = async |once: Option<&Once<_>>| {
        app.engine.webhooks().get(caller.tenant(), &id).await?;
        Ok(app.engine.deliveries().replay(caller.tenant(), &id, &delivery, once).await?)
    };
    key.once(&app, caller.sender(), respond, replay).await
}

pub(super) async fn replay_window(
    State(app): State<App>,
    CanManageWebhooks(caller): CanManageWebhooks,
    InPath(id): InPath<String>,
    KeyedBody(key, JsonBody(body)): KeyedBody<JsonBody<ReplayWindow>>,
) -> Result<ApiResponse, ApiError> {
    let window = translate::window(&body)?;
    let webhook_id = id.clone();
    let respond = move |&replayed: &u64| {
        ApiResponse::json(StatusCode::ACCEPTED, &Replayed { webhook_id: webhook_id.clone(), replayed })
    };
    let replay = async |once: Option<&Once<_>>| {
        let events = body.events.unwrap_or_default();
        Ok(app.engine.deliveries().replay_window(caller.tenant(), &id, window, &events, once).await?)
    };
    key.once(&app, caller.sender(), respond, replay).await
}
