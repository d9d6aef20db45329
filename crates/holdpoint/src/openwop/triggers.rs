//! Handlers of triggers: subscriptions that start runs, their deliveries and their events.

pub(crate) mod routes;
mod translate;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use holdpoint_api::triggers::{
    self as api, CreateTrigger, PreviewTrigger, TriggerDeliveryList, TriggerList, TriggerPreview,
};
use holdpoint_api::webhooks::{ListDeliveries, ListWebhookEvents, WebhookEvents};
use holdpoint_api::{EmptyBody, ErrorCode, ErrorDetails};
use holdpoint_core::webhook::{DeliveryState, SubscriptionState};
use holdpoint_engine::{Error, NewTrigger, Once, Trigger, TriggerDelivery, WebhookOwner};

use super::webhooks;
use crate::app::App;
use crate::auth::{CanManageTriggers, CanOwnTriggers};
use crate::body::{IgnoredBody, InPath, JsonBody, OptionalBody, PageParams, Params};
use crate::dispatch_options::PRIORITIZE;
use crate::error::ApiError;
use crate::idempotency::{ApiResponse, KeyedBody};

async fn create(
    State(app): State<App>,
    CanOwnTriggers(caller): CanOwnTriggers,
    KeyedBody(key, JsonBody(body)): KeyedBody<JsonBody<CreateTrigger>>,
) -> Result<ApiResponse, ApiError> {
    let new = translate::new_trigger(&caller, body, app.engine.now())?;
    let add = async |once: Option<&Once<_>>| {
        let new = NewTrigger { once: once.cloned(), ..new };
        app.engine.triggers().add(new).await.map_err(explain_failure)
    };
    let respond = |made: &Trigger| ApiResponse::json(StatusCode::CREATED, &translate::describe(made));
    key.once(&app, caller.sender(), respond, add).await
}

fn explain_failure(error: Error) -> ApiError {
    match error {
        // The message does not contain the id: a caller may have sent a secret by mistake.
        Error::NotFound("workflow") => ApiError::invalid("workflowId", "no such workflow in this tenant"),
        Error::TooMany(_) => {
            let message = "this tenant has the maximum number of triggers, or of triggers for this type of event; delete one first";
            ApiError::new(ErrorCode::TooManyTriggers, message)
        }
        other => other.into(),
    }
}

async fn preview(
    State(app): State<App>,
    CanManageTriggers(_): CanManageTriggers,
    Params(query): Params<PreviewTrigger>,
) -> Result<Json<TriggerPreview>, ApiError> {
    let instants = translate::preview(&query, app.engine.now())?;
    Ok(Json(TriggerPreview { instants: instants.into_iter().map(Into::into).collect() }))
}

async fn list(
    State(app): State<App>,
    CanManageTriggers(caller): CanManageTriggers,
    Params(page): Params<PageParams>,
) -> Result<Json<TriggerList>, ApiError> {
    let mut found = app.engine.triggers().list(caller.tenant(), page.cursor.as_deref(), page.rows()?).await?;
    let more = page.truncate(&mut found)?;
    let next_cursor = found.last().filter(|_| more).map(|last| last.id.clone());
    Ok(Json(TriggerList { triggers: found.iter().map(translate::describe).collect(), next_cursor }))
}

async fn show(
    State(app): State<App>,
    CanManageTriggers(caller): CanManageTriggers,
    InPath(id): InPath<String>,
) -> Result<Json<api::Trigger>, ApiError> {
    let trigger = app.engine.triggers().get(caller.tenant(), &id).await?;
    Ok(Json(translate::describe(&trigger)))
}

async fn remove(
    State(app): State<App>,
    CanManageTriggers(caller): CanManageTriggers,
    InPath(id): InPath<String>,
    KeyedBody(key, IgnoredBody): KeyedBody<IgnoredBody>,
) -> Result<ApiResponse, ApiError> {
    let remove = async |once: Option<&Once<()>>| {
        let removed = app.engine.triggers().remove(caller.tenant(), &id, once).await?;
        removed.then_some(()).ok_or_else(|| Error::NotFound("trigger").into())
    };
    key.once(&app, caller.sender(), |()| ApiResponse::empty(), remove).await
}

async fn pause(
    State(app): State<App>,
    CanManageTriggers(caller): CanManageTriggers,
    InPath(id): InPath<String>,
    KeyedBody(key, OptionalBody(_)): KeyedBody<OptionalBody<EmptyBody>>,
) -> Result<ApiResponse, ApiError> {
    let pause =
        async |once: Option<&Once<_>>| Ok(app.engine.triggers().pause(caller.tenant(), &id, once).await?);
    key.once(&app, caller.sender(), respond_paused, pause).await
}

/// Describes a paused trigger, or responds with a conflict if it has failed.
fn respond_paused(trigger: &Trigger) -> ApiResponse {
    if trigger.state == SubscriptionState::Paused {
        return ApiResponse::json(StatusCode::OK, &translate::describe(trigger));
    }
    let message = "only an active trigger can be paused; this one is not active";
    let error = ApiError::new(ErrorCode::WrongSubscriptionState, message)
        .with(ErrorDetails::of_state(trigger.state.as_str()));
    ApiResponse::json(StatusCode::CONFLICT, &error.body())
}

/// Resumes a trigger. The caller becomes its owner and needs the rights to start its runs.
async fn resume(
    State(app): State<App>,
    CanOwnTriggers(caller): CanOwnTriggers,
    InPath(id): InPath<String>,
    KeyedBody(key, OptionalBody(_)): KeyedBody<OptionalBody<EmptyBody>>,
) -> Result<ApiResponse, ApiError> {
    let owner = Some(WebhookOwner::from(&*caller.0));
    let resume = async |once: Option<&Once<_>>| {
        let found = app.engine.triggers().get(caller.tenant(), &id).await?;
        if found.spec.dispatch.is_urgent() {
            caller.clone().require_scope(PRIORITIZE)?;
        }
        Ok(app.engine.triggers().resume(caller.tenant(), &id, owner, once).await?)
    };
    let respond = |trigger: &Trigger| ApiResponse::json(StatusCode::OK, &translate::describe(trigger));
    key.once(&app, caller.sender(), respond, resume).await
}

async fn deliveries(
    State(app): State<App>,
    CanManageTriggers(caller): CanManageTriggers,
    InPath(id): InPath<String>,
    Params(page): Params<PageParams>,
    Params(filter): Params<ListDeliveries>,
) -> Result<Json<TriggerDeliveryList>, ApiError> {
    app.engine.triggers().get(caller.tenant(), &id).await?;
    let filter = translate::delivery_filter(&filter, &page)?;
    let mut found = app.engine.triggers().deliveries(caller.tenant(), &id, &filter).await?;
    let more = page.truncate(&mut found)?;
    let next_cursor = found.last().filter(|_| more).map(|last| last.id.clone());
    let deliveries = found.iter().map(translate::describe_delivery).collect();
    Ok(Json(TriggerDeliveryList { deliveries, next_cursor }))
}

async fn requeue(
    State(app): State<App>,
    CanManageTriggers(caller): CanManageTriggers,
    InPath((id, delivery)): InPath<(String, String)>,
    KeyedBody(key, OptionalBody(_)): KeyedBody<OptionalBody<EmptyBody>>,
) -> Result<ApiResponse, ApiError> {
    let requeue = async |once: Option<&Once<_>>| {
        app.engine.triggers().get(caller.tenant(), &id).await?;
        Ok(app.engine.triggers().requeue(caller.tenant(), &id, &delivery, once).await?)
    };
    key.once(&app, caller.sender(), respond_requeued, requeue).await
}

/// Describes a queued delivery, or responds with a conflict if it has not failed.
fn respond_requeued(delivery: &TriggerDelivery) -> ApiResponse {
    if delivery.state == DeliveryState::Queued {
        return ApiResponse::json(StatusCode::ACCEPTED, &translate::describe_delivery(delivery));
    }
    let message = "only a dead letter can be requeued; this delivery is none";
    let error = ApiError::new(ErrorCode::WrongSubscriptionState, message)
        .with(ErrorDetails::of_state(delivery.state.as_str()));
    ApiResponse::json(StatusCode::CONFLICT, &error.body())
}

/// Lists changes of state or attempts of a trigger, without content.
async fn events(
    State(app): State<App>,
    CanManageTriggers(caller): CanManageTriggers,
    InPath(id): InPath<String>,
    Params(page): Params<PageParams>,
    Params(query): Params<ListWebhookEvents>,
) -> Result<Json<WebhookEvents>, ApiError> {
    app.engine.triggers().get(caller.tenant(), &id).await?;
    webhooks::list_events(&app, &caller, &id, &page, &query).await.map(Json)
}
