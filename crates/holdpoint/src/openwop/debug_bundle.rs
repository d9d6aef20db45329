//! Everything about one run in one document, for somebody who is to find out what went wrong. It is made to be handed
//! on: what people and nodes said is hidden, its shape is not.

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use holdpoint_core::{Run, RunRef};
use holdpoint_engine::Recorded;
use serde_json::{Value, json};
use std::collections::BTreeSet;

use super::documents::document;
use super::snapshot::Snapshot;
use super::wire::EventDoc;
use crate::app::App;
use crate::auth::CanReadRuns;
use crate::body::InPath;
use crate::error::ApiError;
use crate::telemetry::{Teller, described};

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
    let count = events.len();
    let nodes: BTreeSet<&String> = events.iter().filter_map(|event| event.node_id.as_ref()).collect();
    let bundle = json!({
        "bundleVersion": "1.0",
        "generatedAt": app.engine.now().to_string(),
        "host": {"name": "holdpoint", "version": env!("CARGO_PKG_VERSION"), "vendor": "holdpoint"},
        "run": masked(json!(Snapshot::of(&run))),
        "metrics": {"eventCount": count, "nodeCount": nodes.len()},
        "events": events.into_iter().map(|event| masked(json!(event))).collect::<Vec<Value>>(),
        "spans": spans,
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
    let mut teller = Teller::new(of, Run::unborn(run.id.clone(), run.workflow.clone()));
    let (mut events, mut spans) = (Vec::with_capacity(recorded.len()), Vec::new());
    for one in recorded {
        spans.extend(teller.tell(&one.event, one.at).iter().map(described));
        events.push(document(teller.run(), &one));
    }
    (events, spans)
}

/// Members whose values come from people, models, definitions or other systems.
const CONTENT: [&str; 20] = [
    "answers",
    "channels",
    "chunk",
    "comment",
    "configurable",
    "data",
    "editedArtifactData",
    "feedback",
    "inputs",
    "meta",
    "metadata",
    "next",
    "outputs",
    "previous",
    "questions",
    "refineFeedback",
    "resumeValue",
    "tags",
    "value",
    "variables",
];

/// Hides the texts inside of content, and leaves everything else.
fn masked(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            // Why somebody cancelled or paused is for them to tell; why a node was skipped is ours.
            let by_somebody = members.contains_key("cancelledBy") || members.contains_key("pausedBy");
            let shown = members.into_iter().map(|(name, value)| {
                let reason = by_somebody && (name == "reason" || name == "pauseReason");
                let hidden = reason || CONTENT.contains(&name.as_str());
                (name, if hidden { without_texts(value) } else { masked(value) })
            });
            Value::Object(shown.collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(masked).collect()),
        other => other,
    }
}

/// Names and numbers stay: they tell what went wrong more often than what was written.
fn without_texts(value: Value) -> Value {
    match value {
        Value::String(text) => json!(format!("[text of {} characters]", text.chars().count())),
        Value::Array(items) => Value::Array(items.into_iter().map(without_texts).collect()),
        Value::Object(members) => {
            Value::Object(members.into_iter().map(|(name, value)| (name, without_texts(value))).collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_hidden_and_its_shape_is_kept() {
        let shown = masked(json!({
            "runId": "r", "inputs": {"key": "sk-secret", "amount": 3, "list": ["a", null, true]},
            "payload": {"nodeId": "n", "outputs": {"deep": {"text": "secret"}}, "error": {"message": "why"}},
            "cancelled": {"cancelledBy": "ann", "reason": "secret"}, "skipped": {"reason": "rule"},
        }));
        let expected = json!({
            "runId": "r",
            "inputs": {"key": "[text of 9 characters]", "amount": 3, "list": ["[text of 1 characters]", null, true]},
            "payload": {
                "nodeId": "n", "outputs": {"deep": {"text": "[text of 6 characters]"}},
                "error": {"message": "why"},
            },
            "cancelled": {"cancelledBy": "ann", "reason": "[text of 6 characters]"}, "skipped": {"reason": "rule"},
        });
        assert_eq!(shown, expected);
    }
}
