//! The chat completions API: chunks of a stream, or a whole document, which is read as one large chunk.

use super::super::DeltaHandler;
use super::assembly::{CallPiece, FILTERED, ReplyAssembly, ReplyEnd};
use super::failure::{AttemptFailure, HiddenSecrets};

mod reasoning;
mod request;
mod wire;

pub(super) use request::{MEDIA_TYPES, RESERVED, body};

use wire::{Choice, FunctionPiece, MessagePiece, ResponseChunk};

/// Adds a response that is one document.
pub(super) fn add_document(
    reply: &mut ReplyAssembly,
    document: ResponseChunk,
    hidden: &HiddenSecrets,
    listener: DeltaHandler<'_>,
) -> Result<(), AttemptFailure> {
    let has_choice = document.choices.iter().flatten().any(Choice::is_first);
    add_chunk(reply, document, hidden, listener)?;
    if has_choice { Ok(()) } else { Err(AttemptFailure::bad_reply("the response has no choice")) }
}

/// Adds a chunk of a stream.
pub(super) fn add_chunk(
    reply: &mut ReplyAssembly,
    chunk: ResponseChunk,
    hidden: &HiddenSecrets,
    listener: DeltaHandler<'_>,
) -> Result<(), AttemptFailure> {
    if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
        return Err(AttemptFailure::of_reported(&error, hidden));
    }
    if let Some(usage) = chunk.usage {
        reply.usage.input_tokens = usage.prompt_tokens.unwrap_or(reply.usage.input_tokens);
        reply.usage.output_tokens = usage.completion_tokens.unwrap_or(reply.usage.output_tokens);
        let details = usage.completion_tokens_details.and_then(|details| details.reasoning_tokens);
        reply.usage.reasoning_tokens = details.unwrap_or(reply.usage.reasoning_tokens);
    }
    reply.set_model(chunk.model);
    for choice in chunk.choices.into_iter().flatten().filter(Choice::is_first) {
        add_choice(reply, choice, listener)?;
    }
    Ok(())
}

fn add_choice(
    reply: &mut ReplyAssembly,
    choice: Choice,
    listener: DeltaHandler<'_>,
) -> Result<(), AttemptFailure> {
    choice.log_probabilities().for_each(|token| reply.add_token(token));
    if let Some(piece) = choice.delta.or(choice.message) {
        add_piece(reply, piece, listener)?;
    }
    match choice.finish_reason.as_deref() {
        None | Some("") => {}
        Some("content_filter") => reply.set_end(FILTERED),
        Some("error") => reply.set_end(ReplyEnd::Failed),
        Some("length") => reply.set_end(ReplyEnd::Length),
        Some(_) => reply.set_end(ReplyEnd::Complete),
    }
    Ok(())
}

fn add_piece(
    reply: &mut ReplyAssembly,
    piece: MessagePiece,
    listener: DeltaHandler<'_>,
) -> Result<(), AttemptFailure> {
    reasoning::add(reply, &piece, listener)?;
    reply.add_text(piece.text(), listener)?;
    reply.add_refusal(piece.refusal.as_deref().unwrap_or_default())?;
    for call in piece.tool_calls.into_iter().flatten() {
        let arguments = call.function.as_ref().map(FunctionPiece::arguments).unwrap_or_default();
        let name = call.function.and_then(|function| function.name);
        reply.add_call(CallPiece { index: call.index, id: call.id, name, arguments }, listener)?;
    }
    Ok(())
}
