//! What a model says while it still speaks: pieces of the message to come, and how far they have got. The message itself
//! is what counts; pieces are for those who read along.

use serde_json::{Map, Value, json};

/// A piece of a reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// The id of the message that it will be part of.
    pub message: String,
    /// Which try to say the message, from 1. Pieces of earlier ones are void.
    pub attempt: u32,
    /// Its place among the pieces of its attempt, from 0.
    pub index: u32,
    pub text: String,
    /// Of the last piece: what is known of the whole.
    pub end: Option<Map<String, Value>>,
}

/// How much of a reply is on record that is not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    pub attempt: u32,
    pub pieces: u32,
}

impl Piece {
    pub fn meta(&self) -> Map<String, Value> {
        let mut meta = self.end.clone().unwrap_or_default();
        meta.insert("messageId".to_owned(), json!(self.message));
        meta.insert("attempt".to_owned(), json!(self.attempt));
        meta.insert("index".to_owned(), json!(self.index));
        meta
    }
}

impl Told {
    /// With this piece, which is nothing unless an agent said it.
    pub fn with(meta: &Map<String, Value>) -> Option<Self> {
        let number = |name: &str| meta.get(name)?.as_u64().and_then(|number| u32::try_from(number).ok());
        meta.get("messageId")?;
        Some(Self { attempt: number("attempt")?, pieces: number("index")?.saturating_add(1) })
    }
}
