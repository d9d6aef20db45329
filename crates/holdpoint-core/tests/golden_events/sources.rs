//! Golden lines of starts and messages with the source of their request.

use std::sync::Arc;

use holdpoint_core::agent::{Message, Role};
use holdpoint_core::{Event, RequestSource, RunParameters, RunRequestOrigin, Transport};

use super::{node, starts::bare_start};

pub(crate) fn events() -> Vec<Event> {
    let sources = [
        RequestSource::user(Transport::Rest),
        RequestSource::user(Transport::Agui),
        RequestSource { origin: RunRequestOrigin::A2A, transport: Transport::Chat },
        RequestSource::INTERNAL,
    ];
    let start = |source| Event::RunStarted(Arc::new(RunParameters { source: Some(source), ..bare_start() }));
    let source = Some(RequestSource::user(Transport::Rest));
    let message = Message { source, ..Message::new("m1", Role::User, "Hello") };
    let sent = Event::MessageAdded { node: node("a"), message: Box::new(message) };
    sources.into_iter().map(start).chain([sent]).collect()
}
