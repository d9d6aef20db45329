//! Everything about one run in one document, for somebody who is to find out what went wrong.

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use holdpoint_core::{Run, RunRef};
use holdpoint_engine::{Committed, Recorded};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

use super::documents::document;
use super::snapshot::Snapshot;
use super::wire::EventDoc;
use crate::app::App;
use crate::auth::CanReadRuns;
use crate::body::InPath;
use crate::error::ApiError;
use crate::telemetry::described_spans;

/// Events of one bundle; of a longer log the first ones.
const EVENTS_MAX: u64 = 10_000;

pub(crate) async fn show(
    State(app): State<App>,
    CanReadRuns(caller): CanReadRuns,
    InPath(run): InPath<String>,
) -> Result<Response, ApiError> {
    let of = caller.run(&run)?;
    let run = app.engine.run(&of).await?;
    let recorded = recorded(&app, &of).await?;
    let truncated = run.seq > recorded.len() as u64;
    let (events, spans) = told(&of, &run, recorded);
    let nodes: BTreeSet<&String> = events.iter().filter_map(|event| event.node_id.as_ref()).collect();
    let bundle = json!({
        "bundleVersion": "1.0",
        "generatedAt": app.engine.now().to_string(),
        "host": {"name": "holdpoint", "version": env!("CARGO_PKG_VERSION"), "vendor": "holdpoint"},
        "run": Snapshot::of(&run),
        "metrics": {"eventCount": events.len(), "nodeCount": nodes.len()},
        "events": events,
        "spans": spans,
        // Values that a definition calls sensitive, and inputs in events, are never shown.
        "redactionApplied": true,
        "redactionMode": "mask",
        "truncated": truncated,
    });
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(bundle)).into_response())
}

async fn recorded(app: &App, of: &RunRef) -> Result<Vec<Recorded>, ApiError> {
    let mut recorded: Vec<Recorded> = Vec::new();
    loop {
        let more = app.engine.events(of, recorded.len() as u64).await?;
        if more.is_empty() {
            return Ok(recorded);
        }
        recorded.extend(more);
        if recorded.len() as u64 >= EVENTS_MAX {
            recorded.truncate(usize::try_from(EVENTS_MAX).unwrap_or(usize::MAX));
            return Ok(recorded);
        }
    }
}

/// The events as readers see them, and the spans that ended with each.
fn told(of: &RunRef, run: &Run, recorded: Vec<Recorded>) -> (Vec<EventDoc>, Vec<Value>) {
    let mut fold = Run::unborn(run.id.clone(), run.workflow.clone());
    let (mut events, mut spans) = (Vec::with_capacity(recorded.len()), Vec::new());
    for one in recorded {
        fold.apply(&one.event, one.at);
        events.push(document(&fold, &one));
        let committed =
            Committed { of: of.clone(), run: Arc::new(fold), events: vec![one.event], at: one.at };
        spans.extend(described_spans(&committed));
        fold = Arc::unwrap_or_clone(committed.run);
    }
    (events, spans)
}
