//! Chunks of a reply that the model streams. They are for readers of the stream; only the complete message is part of
//! the thread.

use serde_json::{Map, Value, json};

/// A chunk of a streamed reply.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplyChunk {
    /// The id of the message that the chunk belongs to.
    pub message: String,
    /// The number of the attempt to generate the message, from 1. Readers must discard the
    /// chunks of earlier attempts.
    pub attempt: u32,
    /// The position of the chunk in its attempt, from 0.
    pub index: u32,
    /// The text of the chunk.
    pub text: String,
    /// The metadata of the complete reply. Only the last chunk has it.
    pub end: Option<Map<String, Value>>,
}

/// The recorded part of a reply that is not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamProgress {
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The number of recorded chunks.
    pub chunks: u32,
}

impl ReplyChunk {
    /// Returns the metadata that is recorded with the chunk.
    pub fn meta(&self) -> Map<String, Value> {
        let mut meta = self.end.clone().unwrap_or_default();
        meta.insert("messageId".to_owned(), json!(self.message));
        meta.insert("attempt".to_owned(), json!(self.attempt));
        meta.insert("index".to_owned(), json!(self.index));
        meta
    }
}

impl StreamProgress {
    /// Returns the progress after the chunk with this metadata. None if the chunk is not from an agent.
    pub fn from_meta(meta: &Map<String, Value>) -> Option<Self> {
        let number = |name: &str| meta.get(name)?.as_u64().and_then(|number| u32::try_from(number).ok());
        meta.get("messageId")?;
        Some(Self { attempt: number("attempt")?, chunks: number("index")?.saturating_add(1) })
    }
}
