//! Chunks of a reply that a model streams. They are for readers of the stream; only the complete message is part of
//! the thread.

use serde_json::{Map, Value, json};

use crate::NodeId;
use crate::event::Event;

/// A chunk of a streamed reply.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplyChunk {
    /// The id of the message that the chunk belongs to.
    pub message: String,
    /// The number of the attempt to generate the message, from 1. Readers must discard the
    /// chunks of earlier attempts.
    pub attempt: u32,
    /// The position of the chunk in its attempt, from 0. Chunks of all kinds are counted together.
    pub index: u32,
    /// The content of the chunk.
    pub content: ChunkContent,
}

/// The content of a chunk.
#[derive(Clone, Debug, PartialEq)]
pub enum ChunkContent {
    /// Text of the reply.
    Text {
        /// The text of the chunk.
        text: String,
        /// The metadata of the complete reply. Only the last chunk has it.
        end: Option<Map<String, Value>>,
    },
    /// Reasoning before or between the parts of the reply.
    Reasoning {
        /// The position of the part of the reasoning in the reply, from 0.
        part: u32,
        /// The text of the chunk.
        text: String,
        /// True for the last chunk of the part.
        last: bool,
    },
    /// Arguments of a tool call that the model generates. The call that counts is in the complete reply.
    Call {
        /// The id of the call.
        id: String,
        /// The name of the tool. Only the first chunk of a call has it.
        name: Option<String>,
        /// The next part of the arguments, as JSON text.
        arguments: String,
        /// True for the last chunk of a call. The calls of an agent end with its reply instead.
        last: bool,
    },
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
        let mut meta = Map::new();
        match &self.content {
            ChunkContent::Text { end, .. } => {
                meta.extend(end.iter().flatten().map(|(name, value)| (name.clone(), value.clone())));
            }
            ChunkContent::Reasoning { part, .. } => {
                meta.insert("part".to_owned(), json!(part));
            }
            ChunkContent::Call { .. } => {}
        }
        meta.insert("messageId".to_owned(), json!(self.message));
        meta.insert("attempt".to_owned(), json!(self.attempt));
        meta.insert("index".to_owned(), json!(self.index));
        meta
    }

    /// Returns the event that records the chunk with this metadata.
    pub(crate) fn into_event(self, node: NodeId, meta: Map<String, Value>) -> Event {
        match self.content {
            ChunkContent::Text { text: chunk, end } => {
                Event::MessageChunk { node, chunk, last: end.is_some(), meta }
            }
            ChunkContent::Reasoning { text: chunk, last, .. } => {
                Event::ReasoningChunk { node, chunk, last, meta }
            }
            ChunkContent::Call { id: call, name, arguments: chunk, last } => {
                Event::ToolCallChunk { node, call, name, chunk, last, meta }
            }
        }
    }
}

impl ChunkContent {
    /// Returns the text of the chunk.
    pub fn text(&self) -> &str {
        let (Self::Text { text, .. } | Self::Reasoning { text, .. } | Self::Call { arguments: text, .. }) =
            self;
        text
    }

    pub(crate) fn clear(&mut self) {
        let (Self::Text { text, .. } | Self::Reasoning { text, .. } | Self::Call { arguments: text, .. }) =
            self;
        text.clear();
    }

    /// Returns true if readers wait for the chunk: it ends a text, a part of the reasoning or a call.
    pub(crate) fn is_last(&self) -> bool {
        match self {
            Self::Text { end, .. } => end.is_some(),
            Self::Reasoning { last, .. } | Self::Call { last, .. } => *last,
        }
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
