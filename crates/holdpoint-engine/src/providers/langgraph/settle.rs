//! What a run has come to: read off the run and the state of its thread, never off what a wait for it said.

use serde_json::Value;

use super::mapping;
use super::reference::Reference;
use super::scrub::scrubbed;
use super::server::{Run, Server, State};
use crate::providers::{Case, Outcome, Trouble, code};

/// An answer that the graph does not take; another may do.
const ANSWER_REJECTED: &str = "answer_rejected";
/// What the server calls an answer of the wrong type.
const WRONG_TYPE: &str = "ValidationError";

/// What a run that is no longer at work has come to.
pub(super) async fn settle(
    server: &Server,
    case: &Case,
    reference: Reference,
    run: &Run,
) -> Result<Outcome, Trouble> {
    match run.status.as_str() {
        "success" => {
            let state = server.state(&reference.thread).await?;
            settle_state(case, reference, state.ok_or_else(gone)?).await
        }
        "interrupted" => Ok(Outcome::Cancelled),
        "timeout" => {
            Err(Trouble::lasting(code::TIMEOUT, "the server stopped the graph, which took too long for it"))
        }
        "error" => Err(failure(server, case, &reference).await?),
        other => {
            let message = format!("a run is {:?}, which is not understood", scrubbed(other));
            Err(Trouble::lasting(code::REJECTED, message))
        }
    }
}

/// A thread in which nothing is at work. What is asked is kept before anybody is asked.
pub(super) async fn settle_state(
    case: &Case,
    reference: Reference,
    state: State,
) -> Result<Outcome, Trouble> {
    let questions = state.questions();
    if !questions.is_empty() {
        let (pause, names) = mapping::pause(questions, reference.last_asked())?;
        case.keep(reference.asking(names, case.attempt()).json()).await?;
        return Ok(Outcome::Paused(pause));
    }
    if state.next.is_empty() {
        let values =
            if state.values.is_null() { Value::Object(serde_json::Map::new()) } else { state.values };
        return Ok(Outcome::Completed(values));
    }
    let message = "the graph stopped without asking anything; breakpoints are for its authors";
    Err(Trouble::lasting(code::GRAPH, message))
}

/// The thread was there a moment ago; the next try finds out what is left.
pub(super) fn gone() -> Trouble {
    Trouble::passing(code::UNREACHABLE, "the server has lost what it was at")
}

async fn failure(server: &Server, case: &Case, reference: &Reference) -> Result<Trouble, Trouble> {
    let (kind, message) = server.failure(&reference.thread).await?;
    if kind == WRONG_TYPE && asks_for_types(server, case, reference).await? {
        let message = format!("the graph does not take this answer: {}", scrubbed(&message));
        return Ok(Trouble::lasting(ANSWER_REJECTED, message));
    }
    let message = match (kind.as_str(), message.as_str()) {
        ("", "") => "the graph failed and did not say why".to_owned(),
        (kind, "") => scrubbed(kind),
        (kind, message) => scrubbed(&format!("{kind}: {message}")),
    };
    Ok(Trouble::lasting(code::GRAPH, message))
}

/// Whether a question that was just answered is still open and says what answers look like. Else the graph has failed
/// of something else that is called the same.
async fn asks_for_types(server: &Server, case: &Case, reference: &Reference) -> Result<bool, Trouble> {
    let state = server.state(&reference.thread).await?.unwrap_or_default();
    let asked = reference.asked(case.attempt());
    Ok(state.questions().iter().any(|question| {
        question.response_schema.is_some() && asked.values().any(|name| *name == question.id)
    }))
}
