//! The debug bundle of a run: snapshot, events and spans in one document. It can be given to third parties, so it shows
//! only ids, types, codes, states, times, numbers and the shape of values.

mod mask;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use holdpoint_api::artifacts::{BundleMetrics, DebugBundle, ShowDebugBundle};
use holdpoint_core::{Run, RunRef, Timestamp};
use holdpoint_engine::RecordedEvent;
use serde_json::Value;
use std::collections::BTreeSet;

use self::mask::mask_document;
use super::discovery::implementation;
use super::documents::document;
use super::snapshot;
use crate::app::App;
use crate::auth::CanReadRuns;
use crate::body::{InPath, Params};
use crate::error::ApiError;
use crate::json::to_json;
use crate::telemetry::{SpanBuilder, describe_span};

/// The maximum number of events in a bundle. A longer log is truncated at its end.
const EVENTS_MAX: u64 = 10_000;

pub(crate) async fn show(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(run): InPath<String>,
    Params(query): Params<ShowDebugBundle>,
) -> Result<Response, ApiError> {
    let max = parse_limit(&query)?;
    let of = caller.run(&run)?;
    let run = app.engine.runs().get(&of).await?;
    let recorded = read_events(&app, &of, max).await?;
    let bundle = describe(&of, &run, recorded, app.engine.now());
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(bundle)).into_response())
}

fn parse_limit(query: &ShowDebugBundle) -> Result<u64, ApiError> {
    match query.max_events.map(u64::try_from) {
        None => Ok(EVENTS_MAX),
        Some(Ok(max)) if max > 0 => Ok(max.min(EVENTS_MAX)),
        Some(_) => Err(ApiError::invalid("maxEvents", "must be 1 or more")),
    }
}

fn describe(of: &RunRef, run: &Run, recorded: Vec<RecordedEvent>, now: Timestamp) -> DebugBundle {
    let truncated = run.seq > recorded.len() as u64;
    let (events, spans) = render(of, run, recorded);
    let nodes: BTreeSet<&str> = events.iter().filter_map(|event| event["nodeId"].as_str()).collect();
    DebugBundle {
        bundle_version: "1.0".to_owned(),
        generated_at: now.into(),
        host: implementation(),
        run: mask_document(to_json(&snapshot::describe(run))),
        metrics: BundleMetrics { event_count: events.len(), node_count: nodes.len() },
        events: events.into_iter().map(mask_document).collect(),
        spans: spans.into_iter().map(mask_document).collect(),
        redaction_applied: true,
        redaction_mode: "mask".to_owned(),
        truncated,
        truncated_reason: truncated.then(|| "maxEvents".to_owned()),
    }
}

async fn read_events(app: &App, of: &RunRef, max: u64) -> Result<Vec<RecordedEvent>, ApiError> {
    let mut recorded: Vec<RecordedEvent> = Vec::new();
    loop {
        let more = app.engine.events().list(of, recorded.len() as u64).await?;
        if more.is_empty() {
            return Ok(recorded);
        }
        recorded.extend(more);
        if recorded.len() as u64 >= max {
            recorded.truncate(usize::try_from(max).unwrap_or(usize::MAX));
            return Ok(recorded);
        }
    }
}

/// Returns the documents of events, and the spans that ended with each event.
fn render(of: &RunRef, run: &Run, recorded: Vec<RecordedEvent>) -> (Vec<Value>, Vec<Value>) {
    let mut builder = SpanBuilder::new(of, Run::new(run.id.clone(), run.workflow.clone()));
    let (mut events, mut spans) = (Vec::with_capacity(recorded.len()), Vec::new());
    for one in recorded {
        spans.extend(builder.apply(&one.event, one.at).iter().map(|span| to_json(&describe_span(span))));
        events.push(to_json(&document(builder.run(), &one)));
    }
    (events, spans)
}
