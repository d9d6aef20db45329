//! Golden lines of starts and messages with the source of their request, and of starts with dispatch options or by a
//! trigger.

use std::sync::Arc;

use holdpoint_core::agent::{Message, Role};
use holdpoint_core::mailbox::DispatchOptions;
use holdpoint_core::{
    Event, RequestSource, RunParameters, RunRequestOrigin, Timestamp, Transport, TriggerCause,
};

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
    let start_with = |dispatch| Event::RunStarted(Arc::new(RunParameters { dispatch, ..bare_start() }));
    let all = DispatchOptions {
        priority: Some(0),
        available_at: Some(Timestamp(1_700_000_000_000)),
        dedupe_key: Some("daily".to_owned()),
        max_attempts: Some(3),
    };
    let low = DispatchOptions { priority: Some(200), ..DispatchOptions::default() };
    let trigger = TriggerCause { subscription: "trg_1".to_owned(), delivery: "td_1".to_owned() };
    let source = Some(RequestSource::INTERNAL);
    let triggered = RunParameters { source, trigger: Some(Box::new(trigger)), ..bare_start() };
    let triggered = Event::RunStarted(Arc::new(triggered));
    sources.into_iter().map(start).chain([sent, start_with(all), start_with(low), triggered]).collect()
}
