//! Golden lines of decisions with their credentials.

use holdpoint_core::{Event, InterruptId, Via};
use serde_json::json;

pub(crate) fn events() -> Vec<Event> {
    let (interrupt, by) = (InterruptId(1), || "ada".to_owned());
    let (value, action) = (|| json!({"action": "accept"}), || "accept".to_owned());
    vec![
        Event::InterruptResolved {
            id: interrupt,
            value: value(),
            by: by(),
            decision: None,
            via: Some(Via::key("key_1")),
            copied: false,
            client_metadata: serde_json::Map::new(),
            vote: None,
        },
        Event::InterruptResolved {
            id: interrupt,
            value: value(),
            by: by(),
            decision: None,
            via: Some(Via::event()),
            copied: false,
            client_metadata: serde_json::Map::new(),
            vote: None,
        },
        Event::VoteCast {
            interrupt,
            value: value(),
            by: by(),
            decision: None,
            via: Some(Via::session("ses_1")),
            copied: false,
            client_metadata: serde_json::Map::new(),
        },
        Event::VoteRepeated {
            interrupt,
            action: action(),
            by: by(),
            acted_by: None,
            via: Some(Via::link("lnk_1")),
        },
        Event::AskRaised {
            interrupt,
            ask: 1,
            question: "Why?".to_owned(),
            by: by(),
            acted_by: None,
            via: Some(Via::key("key_1")),
        },
        Event::AuthorizationDecided {
            interrupt,
            by: by(),
            action: "approvals:respond".to_owned(),
            allowed: false,
            reason: "takes a role".to_owned(),
            via: Some(Via::key("key_1")),
        },
    ]
}
