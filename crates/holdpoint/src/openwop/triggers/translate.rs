//! Translates requests about triggers into types of the engine, and rows into documents. Pure.

use holdpoint_api::Object;
use holdpoint_api::triggers::{
    self as api, CreateTrigger, PREVIEW_COUNT_DEFAULT, PREVIEW_COUNT_MAX, PreviewTrigger, TriggerDispatch,
    WantedEvents, WantedSchedule,
};
use holdpoint_api::webhooks::ListDeliveries;
use holdpoint_core::trigger::{InputMapping, Schedule, TriggerSource, TriggerSpec};
use holdpoint_core::{MissedPolicy, OverlapPolicy, RunId, Timestamp, TriggerSourceName, WorkflowId, limits};
use holdpoint_engine::{NewTrigger, Trigger, TriggerDelivery, TriggerDeliveryFilter, WebhookOwner};

use crate::auth::Caller;
use crate::body::PageParams;
use crate::dispatch_options::{DispatchTarget, PRIORITIZE, check_options};
use crate::error::ApiError;
use crate::openwop::webhooks::{delivery_state, describe_owner, policy, retry_policy};

/// The scopes that the owner needs whenever a run starts.
const REQUIRED_SCOPES: [&str; 2] = ["triggers:manage", "runs:create"];

pub(super) fn new_trigger(
    caller: &Caller,
    body: CreateTrigger,
    now: Timestamp,
) -> Result<NewTrigger, ApiError> {
    if body.dedup_enabled == Some(false) {
        return Err(ApiError::invalid(
            "dedupEnabled",
            "must be true or absent; a trigger always deduplicates",
        ));
    }
    let workflow = body.workflow_id.ok_or_else(|| ApiError::invalid("workflowId", "is required"))?;
    let workflow = WorkflowId::parse(&workflow)
        .map_err(|_| ApiError::invalid("workflowId", "no such workflow in this tenant"))?;
    let source = source(body.source.as_deref(), body.schedule, body.event)?;
    let tags = body.tags.unwrap_or_default();
    check_tags(&tags)?;
    if let Some(dispatch) = &body.dispatch
        && (dispatch.delay_ms.is_some() || dispatch.available_at.is_some())
    {
        return Err(ApiError::invalid("dispatch", "can have only priority and maxAttempts"));
    }
    let dispatch = check_options(caller, body.dispatch, DispatchTarget::NewRun, now)?;
    let mut required_scopes = REQUIRED_SCOPES.map(str::to_owned).to_vec();
    if dispatch.is_urgent() {
        required_scopes.push(PRIORITIZE.to_owned());
    }
    let spec = TriggerSpec {
        workflow,
        source,
        inputs: InputMapping(body.input_mapping.unwrap_or_default().0),
        tags,
        dispatch,
        retry: retry_policy(body.retry_policy)?,
        created_by: caller.owner().principal,
        required_scopes,
    };
    let owner = Some(WebhookOwner::from(&*caller.0));
    Ok(NewTrigger { tenant: caller.tenant().clone(), spec, owner, once: None })
}

fn source(
    name: Option<&str>,
    schedule: Option<WantedSchedule>,
    event: Option<WantedEvents>,
) -> Result<TriggerSource, ApiError> {
    let known = TriggerSourceName::ALL.map(TriggerSourceName::as_str).join(" or ");
    let named = name.and_then(TriggerSourceName::parse);
    let missing = |field| Err(ApiError::invalid(field, "is required by the source"));
    let surplus = |field| Err(ApiError::invalid(field, "does not belong to the source; leave it out"));
    match (named, schedule, event) {
        (None, _, _) => Err(ApiError::invalid("source", format!("must be {known}"))),
        (Some(TriggerSourceName::Schedule), _, Some(_)) => surplus("event"),
        (Some(TriggerSourceName::Event), Some(_), _) => surplus("schedule"),
        (Some(TriggerSourceName::Schedule), None, None) => missing("schedule"),
        (Some(TriggerSourceName::Event), None, None) => missing("event"),
        (Some(TriggerSourceName::Schedule), Some(schedule), None) => schedule_source(schedule),
        (Some(TriggerSourceName::Event), None, Some(event)) => Ok(TriggerSource::Event {
            event_type: event.event_type,
            correlation: event.correlation.unwrap_or_default().0,
            payload: event.payload.unwrap_or_default().0,
        }),
    }
}

fn schedule_source(wanted: WantedSchedule) -> Result<TriggerSource, ApiError> {
    let missed = match wanted.missed.as_deref() {
        None => MissedPolicy::Last,
        Some(name) => MissedPolicy::parse(name).ok_or_else(|| {
            let known = MissedPolicy::ALL.map(MissedPolicy::as_str).join(", ");
            ApiError::invalid("schedule.missed", format!("must be one of {known}"))
        })?,
    };
    let overlap = match wanted.overlap.as_deref() {
        None => OverlapPolicy::Skip,
        Some(name) => OverlapPolicy::parse(name).ok_or_else(|| {
            let known = OverlapPolicy::ALL.map(OverlapPolicy::as_str).join(", ");
            ApiError::invalid("schedule.overlap", format!("must be one of {known}"))
        })?,
    };
    let time_zone = wanted.time_zone.unwrap_or_else(|| "UTC".to_owned());
    Ok(TriggerSource::Schedule { cron: wanted.cron, time_zone, missed, overlap })
}

fn check_tags(tags: &[String]) -> Result<(), ApiError> {
    if tags.len() <= limits::TAGS_MAX && tags.iter().all(|tag| tag.chars().count() <= limits::TAG_CHARS_MAX) {
        return Ok(());
    }
    let message =
        format!("must be at most {} of at most {} characters", limits::TAGS_MAX, limits::TAG_CHARS_MAX);
    Err(ApiError::invalid("tags", message))
}

/// Returns the next instants of a schedule.
pub(super) fn preview(query: &PreviewTrigger, now: Timestamp) -> Result<Vec<Timestamp>, ApiError> {
    let count = query.count.unwrap_or(PREVIEW_COUNT_DEFAULT);
    if !(1..=PREVIEW_COUNT_MAX).contains(&count) {
        return Err(ApiError::invalid("count", format!("must be 1 to {PREVIEW_COUNT_MAX}")));
    }
    let cron = query.cron.as_deref().ok_or_else(|| ApiError::invalid("cron", "is required"))?;
    let schedule = Schedule::parse(cron, query.time_zone.as_deref().unwrap_or("UTC"))
        .map_err(|bad| ApiError::invalid(bad.field.trim_start_matches("schedule."), bad.message))?;
    Ok(schedule.preview(now, usize::try_from(count).unwrap_or(usize::MAX)))
}

pub(super) fn describe(trigger: &Trigger) -> api::Trigger {
    let spec = &trigger.spec;
    let (schedule, event) = match &spec.source {
        TriggerSource::Schedule { cron, time_zone, missed, overlap } => {
            let (cron, time_zone) = (cron.clone(), time_zone.clone());
            (Some(api::Schedule { cron, time_zone, missed: *missed, overlap: *overlap }), None)
        }
        TriggerSource::Event { event_type, correlation, payload } => {
            let (correlation, payload) = (Object(correlation.clone()), Object(payload.clone()));
            (None, Some(api::EventSource { event_type: event_type.clone(), correlation, payload }))
        }
    };
    let dispatch =
        TriggerDispatch { priority: spec.dispatch.priority, max_attempts: spec.dispatch.max_attempts };
    api::Trigger {
        subscription_id: trigger.id.clone(),
        tenant_id: trigger.tenant.clone(),
        source: spec.source_name(),
        workflow_id: spec.workflow.clone(),
        schedule,
        event,
        input_mapping: Object(spec.inputs.0.clone()),
        tags: spec.tags.clone(),
        dispatch: Some(dispatch).filter(|dispatch| *dispatch != TriggerDispatch::default()),
        retry_policy: policy(&spec.retry),
        dedup_enabled: true,
        state: trigger.state,
        reason: trigger.reason,
        created_by: spec.created_by.clone(),
        owner: trigger.owner.as_ref().map(describe_owner),
        next_fire_at: trigger.next.map(Into::into),
        last_run_id: trigger.last_run.as_deref().and_then(|run| RunId::parse(run).ok()),
        created_at: trigger.created_at.into(),
        updated_at: trigger.updated_at.into(),
    }
}

pub(super) fn delivery_filter(
    filter: &ListDeliveries,
    page: &PageParams,
) -> Result<TriggerDeliveryFilter, ApiError> {
    let state = delivery_state(filter.state.as_deref())?;
    Ok(TriggerDeliveryFilter { state, before: page.cursor.clone(), limit: page.rows()? })
}

/// Describes a delivery without the content of its event.
pub(super) fn describe_delivery(delivery: &TriggerDelivery) -> api::TriggerDelivery {
    api::TriggerDelivery {
        delivery_id: delivery.id.clone(),
        subscription_id: delivery.trigger.clone(),
        state: delivery.state,
        run_id: delivery.run.clone(),
        attempt: delivery.attempt,
        dedup_key: delivery.dedup_key.clone(),
        sent_by: delivery.sent_by.clone(),
        error: delivery.error.clone(),
        created_at: delivery.created_at.into(),
        next_attempt_at: delivery.ended_at.is_none().then(|| delivery.due.into()),
        ended_at: delivery.ended_at.map(Into::into),
    }
}
