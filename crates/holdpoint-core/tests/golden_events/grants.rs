//! Golden lines of uses of grants, and of copied decisions.

use holdpoint_core::{Event, Fork, ForkMode, InterruptId, RunParameters, Timestamp};
use serde_json::json;

use super::starts::bare_start;
use super::{node, run};

pub(super) fn events() -> Vec<Event> {
    let (interrupt, by) = (InterruptId(1), || "ada".to_owned());
    let fork = Fork {
        source: run("r0"),
        origin: run("r0"),
        from_seq: 0,
        mode: ForkMode::Replay,
        at: Some(Timestamp(7)),
        artifacts: None,
        copied: Some(12),
    };
    let grants = vec!["r0:i1".to_owned()];
    vec![
        Event::NodeStarted { node: node("pay"), uses: vec![interrupt] },
        Event::ToolBegun {
            node: node("agent"),
            call: "c1".to_owned(),
            arguments: None,
            uses: vec![interrupt, InterruptId(2)],
        },
        Event::InterruptResolved {
            id: interrupt,
            value: json!({"action": "accept"}),
            by: by(),
            decision: None,
            vote: None,
            copied: true,
            client_metadata: serde_json::Map::new(),
            via: None,
        },
        Event::VoteCast {
            interrupt,
            value: json!({"action": "accept"}),
            by: by(),
            decision: None,
            copied: true,
            client_metadata: serde_json::Map::new(),
            via: None,
        },
        Event::RunStarted(std::sync::Arc::new(RunParameters { fork: Some(fork), grants, ..bare_start() })),
    ]
}
