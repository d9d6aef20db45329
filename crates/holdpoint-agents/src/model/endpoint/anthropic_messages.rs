//! The messages API of Anthropic.

use holdpoint_core::agent::ReasoningPart;
use serde_json::Value;

use super::super::DeltaHandler;
use super::assembly::{CallPiece, ReplyAssembly, ReplyEnd};
use super::failure::{AttemptFailure, HiddenSecrets};

mod request;
mod wire;

pub(super) use request::{MEDIA_TYPES, RESERVED, body};

/// The member of the data of reasoning with its signature.
const SIGNATURE: &str = "signature";

use wire::{Block, BlockDelta, MessageEvent, MessageHead, TokenCounts};

/// The version of the API. Definitions can send another one as a header.
pub(super) const VERSION: &str = "2023-06-01";

/// Adds an event of a stream.
pub(super) fn add_event(
    reply: &mut ReplyAssembly,
    event: MessageEvent,
    hidden: &HiddenSecrets,
    listener: DeltaHandler<'_>,
) -> Result<(), AttemptFailure> {
    match event {
        MessageEvent::MessageStart { message } => {
            add_head(reply, &message);
            Ok(())
        }
        MessageEvent::ContentBlockStart { index, content_block } => {
            add_block(reply, index, content_block, listener)
        }
        MessageEvent::ContentBlockDelta { delta: BlockDelta::Text { text }, .. } => {
            reply.add_text(text, listener)
        }
        MessageEvent::ContentBlockDelta { index, delta: BlockDelta::InputJson { partial_json } } => {
            let arguments = partial_json;
            reply.add_call(CallPiece { index: Some(index), arguments, ..CallPiece::default() }, listener)
        }
        MessageEvent::ContentBlockDelta { index, delta: BlockDelta::Thinking { thinking } } => {
            reply.add_reasoning(index, &thinking, listener)
        }
        MessageEvent::ContentBlockDelta { index, delta: BlockDelta::Signature { signature } } => {
            add_opaque(reply, index, SIGNATURE, &signature)
        }
        MessageEvent::MessageDelta { delta, usage } => {
            add_tokens(reply, usage.as_ref());
            add_stop_reason(reply, delta.stop_reason.as_deref());
            Ok(())
        }
        MessageEvent::MessageStop => {
            reply.set_done();
            Ok(())
        }
        MessageEvent::Error { error } => Err(AttemptFailure::of_reported(&error, hidden)),
        MessageEvent::ContentBlockDelta { delta: BlockDelta::Other, .. } | MessageEvent::Other => Ok(()),
    }
}

/// Adds a response that is one document.
pub(super) fn add_document(
    reply: &mut ReplyAssembly,
    document: MessageHead,
    hidden: &HiddenSecrets,
    listener: DeltaHandler<'_>,
) -> Result<(), AttemptFailure> {
    if let Some(error) = &document.error {
        return Err(AttemptFailure::of_reported(error, hidden));
    }
    add_head(reply, &document);
    for (block, index) in document.content.into_iter().flatten().zip(0..) {
        add_block(reply, index, block, listener)?;
    }
    match document.stop_reason.as_deref() {
        None => Err(AttemptFailure::bad_reply("the response has no stop reason")),
        reason => {
            add_stop_reason(reply, reason);
            Ok(())
        }
    }
}

fn add_head(reply: &mut ReplyAssembly, message: &MessageHead) {
    reply.set_model(message.model.clone());
    add_tokens(reply, message.usage.as_ref());
}

/// Adds token counts. Counts of a later event replace earlier ones. Tokens that the provider has cached count too.
fn add_tokens(reply: &mut ReplyAssembly, usage: Option<&TokenCounts>) {
    let Some(usage) = usage else { return };
    if let Some(input) = usage.input_tokens {
        let cached = [usage.cache_creation_input_tokens, usage.cache_read_input_tokens];
        let cached = cached.into_iter().flatten().fold(0, u64::saturating_add);
        reply.usage.input_tokens = input.saturating_add(cached);
    }
    reply.usage.output_tokens = usage.output_tokens.unwrap_or(reply.usage.output_tokens);
}

fn add_stop_reason(reply: &mut ReplyAssembly, reason: Option<&str>) {
    match reason {
        None => {}
        Some("max_tokens" | "model_context_window_exceeded") => reply.set_end(ReplyEnd::Length),
        Some("refusal") => reply.set_end(ReplyEnd::Refused("the model refused to reply")),
        Some(_) => reply.set_end(ReplyEnd::Complete),
    }
}

fn add_block(
    reply: &mut ReplyAssembly,
    index: u64,
    block: Block,
    listener: DeltaHandler<'_>,
) -> Result<(), AttemptFailure> {
    match block {
        Block::Text { text } => reply.add_text(text, listener),
        Block::ToolUse { id, name, input } => {
            // In a stream the input is empty here, and its JSON text follows in pieces.
            let input = input.filter(|input| input.as_object().is_none_or(|members| !members.is_empty()));
            let arguments = input.map(|input| input.to_string()).unwrap_or_default();
            reply.add_call(CallPiece { index: Some(index), id, name, arguments }, listener)
        }
        Block::Thinking { thinking, signature } => {
            reply.add_reasoning(index, &thinking, listener)?;
            add_opaque(reply, index, SIGNATURE, &signature)
        }
        Block::RedactedThinking { data } => add_opaque(reply, index, ReasoningPart::ENCRYPTED, &data),
        Block::Other => Ok(()),
    }
}

/// Adds a piece of a signature or of encrypted reasoning.
fn add_opaque(
    reply: &mut ReplyAssembly,
    index: u64,
    member: &str,
    piece: &str,
) -> Result<(), AttemptFailure> {
    if piece.is_empty() {
        return Ok(());
    }
    reply.add_reasoning_data(index, piece.len(), |data| {
        if let Value::String(text) = data.entry(member).or_insert_with(|| "".into()) {
            text.push_str(piece);
        }
    })
}
