//! Translates chat requests into commands, and the status of a graph into outcomes. Pure.

use axum::http::StatusCode;
use holdpoint_api::chat::{
    Chat, ChatError, ChatHistory, ChatInterrupt, ChatOutcome, ChatStanding, ChatState, ChatTurn,
    ChatTurnAnswer, ChatTurnInterrupt, WAIT_MS_DEFAULT, WAIT_MS_MAX,
};
use holdpoint_api::{ErrorCode, ErrorDetails};
use holdpoint_core::{RunId, StrictValue, limits};
use holdpoint_providers::{GraphError, GraphHandle, GraphStatus, TurnInterrupt, TurnRecord};
use serde_json::{Map, Value};

use crate::body::PageParams;
use crate::error::ApiError;

/// A request to start a graph or to answer its interrupt.
#[derive(Debug)]
pub(super) enum ChatCommand {
    Start {
        graph: String,
        state_key: Option<String>,
        input: Value,
        turn_id: Option<String>,
    },
    /// The next turn of a graph that the request does not name.
    NextTurn {
        state_key: String,
        input: Value,
        turn_id: String,
    },
    Resume {
        state_key: String,
        id: String,
        value: Value,
        graph: Option<String>,
        /// The interrupt that the caller saw, as kind and data.
        to: Option<(String, Value)>,
    },
}

pub(super) fn parse_command(chat: Chat) -> Result<ChatCommand, ApiError> {
    let named = [
        ("stateKey", &chat.state_key),
        ("resumeId", &chat.resume_id),
        ("graph", &chat.graph),
        ("turnId", &chat.turn_id),
    ];
    for (field, text) in named {
        if let Some(text) = text {
            check_name(field, text)?;
        }
    }
    if chat.resume_value.is_none() && chat.resume_id.is_none() {
        return parse_start(chat);
    }
    let given = chat.input.map(|_| "input").or(chat.messages.map(|_| "messages"));
    if let Some(field) = given.or(chat.turn_id.map(|_| "turnId")) {
        let message = "cannot be combined with resumeValue; leave it out of a resume";
        return Err(ApiError::invalid(field, message));
    }
    let missing = |field: &str| {
        ApiError::invalid(field, "is missing; a resume requires stateKey, resumeValue and resumeId")
    };
    let state_key = chat.state_key.ok_or_else(|| missing("stateKey"))?;
    let id = chat.resume_id.ok_or_else(|| missing("resumeId"))?;
    let value = chat.resume_value.ok_or_else(|| missing("resumeValue"))?.0;
    check_size("resumeValue", &value, limits::RESUME_VALUE_BYTES_MAX)?;
    let to = chat.interrupt.map(|shown| (shown.kind, shown.data.0));
    Ok(ChatCommand::Resume { state_key, id, value, graph: chat.graph, to })
}

fn parse_start(chat: Chat) -> Result<ChatCommand, ApiError> {
    if chat.interrupt.is_some() {
        return Err(ApiError::invalid(
            "interrupt",
            "is allowed only in a resume; send resumeValue and resumeId with it",
        ));
    }
    if chat.turn_id.is_some() && chat.state_key.is_none() {
        return Err(ApiError::invalid("stateKey", "is missing; a turnId names a turn of a stateKey"));
    }
    let has_input = chat.input.is_some() || chat.messages.is_some();
    let input = match (chat.input, chat.messages) {
        (Some(input), None) => input.0,
        (None, Some(messages)) => {
            let messages: Vec<Value> = messages.into_iter().map(|message| message.0).collect();
            Map::from_iter([("messages".to_owned(), Value::Array(messages))]).into()
        }
        (None, None) => Map::new().into(),
        (Some(_), Some(_)) => {
            return Err(ApiError::invalid("messages", "cannot be combined with input; give one of them"));
        }
    };
    match (chat.graph, chat.state_key, chat.turn_id) {
        (Some(graph), _, _) if graph.starts_with("native:") && !input.is_object() => {
            let message = "must be an object: its members are the inputs of the workflow";
            Err(ApiError::invalid("input", message))
        }
        (Some(graph), state_key, turn_id) => Ok(ChatCommand::Start { graph, state_key, input, turn_id }),
        (None, Some(_), Some(_)) if !has_input => {
            Err(ApiError::invalid("input", "is missing; a turn has input or messages"))
        }
        (None, Some(state_key), Some(turn_id)) => Ok(ChatCommand::NextTurn { state_key, input, turn_id }),
        (None, ..) => {
            let message = "is missing; name the graph to start, such as native:content-review, or send turnId and \
                input for the next turn of a stateKey, or resumeValue and resumeId";
            Err(ApiError::invalid("graph", message))
        }
    }
}

/// Parses the cursor of a history: the run of the last turn of the previous page.
pub(super) fn parse_cursor(cursor: Option<&str>) -> Result<Option<RunId>, ApiError> {
    let cursor = cursor.map(RunId::parse).transpose();
    cursor.map_err(|_| ApiError::invalid("cursor", "is invalid; send the nextCursor of a response"))
}

/// Describes a page of turns.
pub(super) fn history(
    state_key: String,
    mut turns: Vec<TurnRecord>,
    page: &PageParams,
) -> Result<ChatHistory, ApiError> {
    let more = page.truncate(&mut turns)?;
    let next_cursor = turns.last().filter(|_| more).map(|last| last.run.to_string());
    let turns = turns.into_iter().map(|turn| describe_turn(&state_key, turn)).collect();
    Ok(ChatHistory { state_key, turns, next_cursor })
}

fn describe_turn(state_key: &str, turn: TurnRecord) -> ChatTurn {
    ChatTurn {
        run_id: turn.run,
        turn_id: turn.turn_id,
        input: turn.input,
        outcome: describe(state_key.to_owned(), turn.status),
        interrupts: turn.interrupts.into_iter().map(describe_interrupt).collect(),
        started_at: turn.started_at.into(),
        ended_at: turn.ended_at.map(Into::into),
    }
}

fn describe_interrupt(asked: TurnInterrupt) -> ChatTurnInterrupt {
    let TurnInterrupt { kind, data, requested_at, answer, timed_out } = asked;
    let answer = answer.map(|answer| ChatTurnAnswer {
        value: answer.value,
        by: answer.by,
        at: answer.at.into(),
        resume_id: answer.resume_id,
    });
    ChatTurnInterrupt { kind, data, requested_at: requested_at.into(), answer, timed_out }
}

fn check_name(field: &str, text: &str) -> Result<(), ApiError> {
    let most = limits::STATE_KEY_CHARS_MAX;
    if (1..=most).contains(&text.chars().count()) && !text.contains(char::is_control) {
        return Ok(());
    }
    Err(ApiError::invalid(field, format!("must be 1 to {most} characters, none of them a control character")))
}

fn check_size(field: &str, value: &Value, most: usize) -> Result<(), ApiError> {
    let bytes = value.to_string().len();
    if bytes <= most {
        return Ok(());
    }
    Err(ApiError::invalid(field, format!("has {bytes} bytes as compact JSON; at most {most} are accepted")))
}

pub(super) fn wait_ms(given: Option<u64>) -> Result<u64, ApiError> {
    match given {
        Some(ms) if ms > WAIT_MS_MAX => {
            Err(ApiError::invalid("waitMs", format!("must be 0 to {WAIT_MS_MAX} milliseconds")))
        }
        given => Ok(given.unwrap_or(WAIT_MS_DEFAULT)),
    }
}

/// Describes the outcome of a start or an answer. An answer that did not reach the provider is an error, although the
/// graph waits again.
pub(super) fn outcome(state_key: String, status: GraphStatus) -> ChatOutcome {
    match status {
        GraphStatus::Waiting { previous_error: Some(error), .. } => {
            let text =
                |member: &str| error.get(member).and_then(Value::as_str).unwrap_or_default().to_owned();
            failed(state_key, ChatError { code: text("code"), message: text("message"), retryable: true })
        }
        status => describe(state_key, status),
    }
}

fn describe(state_key: String, status: GraphStatus) -> ChatOutcome {
    let problem = |code: &str, message| ChatError { code: code.to_owned(), message, retryable: false };
    match status {
        GraphStatus::Running => in_state(ChatState::Running, state_key),
        GraphStatus::Waiting { kind, data, .. } => {
            let interrupt = Some(ChatInterrupt { kind, data: StrictValue(data) });
            ChatOutcome { interrupt, ..in_state(ChatState::NeedsInput, state_key) }
        }
        GraphStatus::Completed(output) => {
            ChatOutcome { output: Some(output), ..in_state(ChatState::Completed, state_key) }
        }
        GraphStatus::Failed(error) => failed(state_key, problem(&error.code, error.message)),
        GraphStatus::Cancelled { reason, expired } => {
            let code = if expired { "expired" } else { "cancelled" };
            let message = reason.unwrap_or_else(|| "the graph was cancelled".to_owned());
            failed(state_key, problem(code, message))
        }
    }
}

fn failed(state_key: String, error: ChatError) -> ChatOutcome {
    ChatOutcome { error: Some(error), ..in_state(ChatState::Error, state_key) }
}

fn in_state(outcome: ChatState, state_key: String) -> ChatOutcome {
    ChatOutcome { outcome, state_key, output: None, interrupt: None, error: None }
}

pub(super) fn standing(handle: GraphHandle, status: GraphStatus) -> ChatStanding {
    let last_error = match &status {
        GraphStatus::Waiting { previous_error, .. } => previous_error.clone(),
        GraphStatus::Running
        | GraphStatus::Completed(_)
        | GraphStatus::Failed(_)
        | GraphStatus::Cancelled { .. } => None,
    };
    ChatStanding {
        outcome: describe(handle.state_key, status),
        graph: handle.graph,
        created_at: handle.created_at.into(),
        expires_at: handle.expires_at.into(),
        last_error,
    }
}

/// Returns the HTTP status of an outcome. An interrupt that is too large is rejected like a request that is too large.
pub(super) fn with_status(outcome: ChatOutcome) -> Result<(StatusCode, ChatOutcome), ApiError> {
    match outcome {
        ChatOutcome { error: Some(error), .. } if error.code == ErrorCode::InterruptTooLarge.as_str() => {
            Err(ApiError::new(ErrorCode::InterruptTooLarge, error.message))
        }
        ChatOutcome { outcome: ChatState::Running, .. } => Ok((StatusCode::ACCEPTED, outcome)),
        outcome => Ok((StatusCode::OK, outcome)),
    }
}

pub(super) fn to_api_error(error: GraphError) -> ApiError {
    let code = match &error {
        GraphError::UnknownGraph(_) => ErrorCode::GraphNotFound,
        GraphError::UnknownStateKey => ErrorCode::StateKeyNotFound,
        GraphError::StateKeyInUse => ErrorCode::StateKeyInUse,
        GraphError::InFlight => ErrorCode::ResumeInFlight,
        GraphError::Ended => ErrorCode::GraphEnded,
        GraphError::Closed => ErrorCode::ConversationEnded,
        GraphError::TurnIdRequired => ErrorCode::TurnIdRequired,
        GraphError::TurnIdReused => ErrorCode::TurnIdConflict,
        GraphError::TurnInFlight => ErrorCode::TurnInFlight,
        GraphError::TurnNeedsInput => ErrorCode::TurnNeedsInput,
        GraphError::TooManyTurns(_) => ErrorCode::TooManyTurns,
        GraphError::ResumeIdReused => ErrorCode::ResumeIdConflict,
        GraphError::InterruptChanged => ErrorCode::InterruptChanged,
        GraphError::SeveralInterrupts { .. } => ErrorCode::InterruptAmbiguous,
        GraphError::Engine(_) | _ => ErrorCode::InternalError,
    };
    let api_error = ApiError::new(code, error.to_string());
    match error {
        GraphError::Engine(error) => error.into(),
        GraphError::InFlight | GraphError::TurnInFlight => api_error.retry_after_s(1),
        GraphError::SeveralInterrupts { keys, interrupts } => {
            let (keys, interrupt_ids) = (Some(keys), Some(interrupts));
            api_error.with(ErrorDetails { keys, interrupt_ids, ..Default::default() })
        }
        _ => api_error,
    }
}
