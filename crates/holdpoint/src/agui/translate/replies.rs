//! The replies of models that are being streamed: their text, their reasoning and their calls. The client gets what the
//! complete reply adds to the chunks. After a failed attempt it keeps the wrong parts until the messages at the end of
//! the segment replace them, because it cannot open a message again.

use std::collections::BTreeMap;

use holdpoint_api::agui::Event;
use holdpoint_core::agent::{Message, ReasoningPart};
use holdpoint_core::{Event as RunEvent, NodeId, Run};
use serde_json::{Map, Value};

use crate::agui::ids;

/// The replies that are being streamed, by message id on the wire.
#[derive(Debug, Default)]
pub(super) struct StreamedReplies {
    replies: BTreeMap<String, StreamedReply>,
    /// Set if the client got content that a retry made invalid.
    needs_correction: bool,
}

#[derive(Debug, Default)]
struct StreamedReply {
    node: Option<NodeId>,
    attempt: u64,
    text: StreamedText,
    reasoning: BTreeMap<u64, StreamedText>,
    calls: BTreeMap<String, StreamedText>,
}

/// A text that is being streamed: a message, a part of the reasoning, or the arguments of a call.
#[derive(Debug, Default)]
struct StreamedText {
    text: String,
    state: TextState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TextState {
    #[default]
    New,
    Open,
    Ended,
    /// A retry made the sent text invalid.
    Void,
}

/// A piece of a text. After the last one the text ends.
#[derive(Clone, Copy)]
struct Piece<'a> {
    text: &'a str,
    last: bool,
}

/// The element of the wire that a text belongs to.
#[derive(Clone, Copy)]
enum Element<'a> {
    Text(&'a str),
    Reasoning(&'a str),
    Call { id: &'a str, name: &'a str, message: &'a str },
}

impl StreamedReplies {
    /// Translates a chunk. A chunk with the id of its reply in the metadata is part of a reply with attempts.
    pub(super) fn translate_chunk(&mut self, event: &RunEvent, run: &Run, events: &mut Vec<Event>) {
        let (RunEvent::MessageChunk { node, chunk, last, meta, .. }
        | RunEvent::ReasoningChunk { node, chunk, last, meta, .. }
        | RunEvent::ToolCallChunk { node, chunk, last, meta, .. }) = event
        else {
            return;
        };
        let reply = meta.get("messageId").and_then(Value::as_str);
        let id =
            reply.map_or_else(|| ids::text_message_id(run, node), |reply| ids::wire_id(run, node, reply));
        let streamed = self.replies.entry(id.clone()).or_default();
        streamed.node = Some(node.clone());
        streamed.begin_attempt(&id, number(meta, "attempt").unwrap_or(1), events);
        let piece = Piece { text: chunk, last: *last };
        match event {
            RunEvent::ReasoningChunk { .. } => {
                let part = number(meta, "part").unwrap_or_default();
                let name = reasoning_id(&id, part);
                let text = streamed.reasoning.entry(part).or_default();
                text.append(Element::Reasoning(&name), piece, events);
            }
            RunEvent::ToolCallChunk { call, name, .. } => {
                let call = ids::wire_id(run, node, call);
                let text = streamed.calls.entry(call.clone()).or_default();
                // The first chunk of a call has its name. Without it, the complete reply shows the call.
                if text.state != TextState::New || name.is_some() {
                    let name = name.as_deref().unwrap_or_default();
                    let element = Element::Call { id: &call, name, message: &id };
                    text.begin(element, events);
                    text.append(element, piece, events);
                }
            }
            _ => streamed.text.append(Element::Text(&id), piece, events),
        }
    }

    /// Translates a complete reply: sends what the chunks did not contain, and ends all its elements.
    pub(super) fn translate_reply(
        &mut self,
        run: &Run,
        node: &NodeId,
        message: &Message,
        events: &mut Vec<Event>,
    ) {
        let id = ids::wire_id(run, node, &message.id);
        let mut streamed = self.replies.remove(&id).unwrap_or_default();
        for (at, part) in (0..).zip(&message.reasoning).filter(|(_, part)| part.shown) {
            let mut sent = streamed.reasoning.remove(&at).unwrap_or_default();
            let name = reasoning_id(&id, at);
            self.needs_correction |= !sent.complete(Element::Reasoning(&name), &part.text, events);
            encrypted_value(&name, part, events);
        }
        self.needs_correction |= !streamed.text.complete(Element::Text(&id), &message.text(), events);
        for call in &message.calls {
            let name = ids::wire_id(run, node, &call.id);
            let mut sent = streamed.calls.remove(&name).unwrap_or_default();
            let element = Element::Call { id: &name, name: &call.name, message: &id };
            sent.begin(element, events);
            let same = sent.state == TextState::Open
                && serde_json::from_str::<Value>(&sent.text).is_ok_and(|sent| sent == call.arguments);
            if same {
                sent.end(element, events);
            } else {
                let arguments = call.arguments.to_string();
                self.needs_correction |= !sent.complete(element, &arguments, events);
            }
        }
        // Calls and parts of the reasoning that the complete reply does not have.
        self.needs_correction |= !streamed.calls.is_empty() || !streamed.reasoning.is_empty();
        streamed.end(&id, events);
    }

    /// Ends the elements of a node that has ended.
    pub(super) fn end_node(&mut self, node: &NodeId, events: &mut Vec<Event>) {
        for (id, streamed) in &mut self.replies {
            if streamed.node.as_ref() == Some(node) {
                streamed.end(id, events);
            }
        }
    }

    pub(super) fn end_all(&mut self, events: &mut Vec<Event>) {
        self.replies.iter_mut().for_each(|(id, streamed)| streamed.end(id, events));
    }

    /// Returns whether the client has content that differs from the messages.
    pub(super) fn needs_correction(&self) -> bool {
        self.needs_correction || !self.replies.is_empty()
    }
}

impl StreamedReply {
    /// Invalidates the content of earlier attempts.
    fn begin_attempt(&mut self, id: &str, attempt: u64, events: &mut Vec<Event>) {
        if self.attempt < attempt {
            self.end(id, events);
            let texts = self.reasoning.values_mut().chain(self.calls.values_mut()).chain([&mut self.text]);
            texts.filter(|text| text.state != TextState::New).for_each(|text| text.state = TextState::Void);
        }
        self.attempt = attempt;
    }

    fn end(&mut self, id: &str, events: &mut Vec<Event>) {
        for (part, text) in &mut self.reasoning {
            text.end(Element::Reasoning(&reasoning_id(id, *part)), events);
        }
        self.text.end(Element::Text(id), events);
        for (call, text) in &mut self.calls {
            text.end(Element::Call { id: call, name: "", message: id }, events);
        }
    }
}

impl StreamedText {
    /// Starts the element, if it is new.
    fn begin(&mut self, element: Element<'_>, events: &mut Vec<Event>) {
        if self.state == TextState::New {
            self.state = TextState::Open;
            element.start(events);
        }
    }

    /// Adds a piece. Ends the element after the last one.
    fn append(&mut self, element: Element<'_>, piece: Piece<'_>, events: &mut Vec<Event>) {
        let Piece { text: chunk, last } = piece;
        if !chunk.is_empty() && matches!(self.state, TextState::New | TextState::Open) {
            self.begin(element, events);
            self.text.push_str(chunk);
            events.push(element.content(chunk));
        }
        if last {
            self.end(element, events);
        }
    }

    /// Sends the rest of a text and ends the element. Returns false if the client has another text.
    #[must_use]
    fn complete(&mut self, element: Element<'_>, whole: &str, events: &mut Vec<Event>) -> bool {
        if let Some(rest) = whole.strip_prefix(self.text.as_str()) {
            self.append(element, Piece { text: rest, last: true }, events);
        }
        self.end(element, events);
        self.state != TextState::Void && self.text == whole
    }

    fn end(&mut self, element: Element<'_>, events: &mut Vec<Event>) {
        if self.state == TextState::Open {
            self.state = TextState::Ended;
            element.end(events);
        }
    }
}

impl Element<'_> {
    fn start(self, events: &mut Vec<Event>) {
        match self {
            Self::Text(id) => {
                let role = Some("assistant".into());
                events.push(Event::TextMessageStart { message_id: id.to_owned(), role, name: None });
            }
            Self::Reasoning(id) => events.extend([
                Event::ReasoningStart { message_id: id.to_owned() },
                Event::ReasoningMessageStart { message_id: id.to_owned(), role: "reasoning".into() },
            ]),
            Self::Call { id, name, message } => events.push(Event::ToolCallStart {
                tool_call_id: id.to_owned(),
                tool_call_name: name.to_owned(),
                parent_message_id: Some(message.to_owned()),
            }),
        }
    }

    fn content(self, delta: &str) -> Event {
        let delta = delta.to_owned();
        match self {
            Self::Text(id) => Event::TextMessageContent { message_id: id.to_owned(), delta },
            Self::Reasoning(id) => Event::ReasoningMessageContent { message_id: id.to_owned(), delta },
            Self::Call { id, .. } => Event::ToolCallArgs { tool_call_id: id.to_owned(), delta },
        }
    }

    fn end(self, events: &mut Vec<Event>) {
        match self {
            Self::Text(id) => events.push(Event::TextMessageEnd { message_id: id.to_owned() }),
            Self::Reasoning(id) => events.extend([
                Event::ReasoningMessageEnd { message_id: id.to_owned() },
                Event::ReasoningEnd { message_id: id.to_owned() },
            ]),
            Self::Call { id, .. } => events.push(Event::ToolCallEnd { tool_call_id: id.to_owned() }),
        }
    }
}

/// Returns the id of a part of the reasoning of a reply.
pub(in crate::agui) fn reasoning_id(reply: &str, part: u64) -> String {
    format!("{reply}:reasoning-{part}")
}

/// Sends reasoning that only its model can read as a reasoning message without text.
fn encrypted_value(id: &str, part: &ReasoningPart, events: &mut Vec<Event>) {
    let Some(encrypted) = part.encrypted().filter(|_| part.text.is_empty()) else { return };
    let element = Element::Reasoning(id);
    element.start(events);
    element.end(events);
    events.push(Event::ReasoningEncryptedValue {
        subtype: "message".into(),
        entity_id: id.to_owned(),
        encrypted_value: encrypted.to_owned(),
    });
}

fn number(meta: &Map<String, Value>, name: &str) -> Option<u64> {
    meta.get(name)?.as_u64()
}
