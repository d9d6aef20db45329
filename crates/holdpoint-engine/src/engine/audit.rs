//! What operators find in the server's log about governed gates: who was turned away, and who went past a rule. Why, and
//! all the rest, is in the log of the run.

use holdpoint_core::{Event, RunRef};

/// Entries of a change that is about to be committed: what happened, and who did it.
#[derive(Debug, PartialEq)]
pub(super) struct Entries(Vec<(&'static str, String)>);

impl Entries {
    pub(super) fn of(events: &[Event]) -> Self {
        let mut entries = Vec::new();
        let mut speaker = "";
        for event in events {
            match event {
                Event::VoteCast { by, .. } | Event::InterruptResolved { by, .. } => speaker = by,
                Event::AuthorizationDecided { by, .. } => entries.push((event.name(), by.clone())),
                Event::ApprovalOverridden { .. } => entries.push((event.name(), speaker.to_owned())),
                _ => {}
            }
        }
        Self(entries)
    }

    /// Once it is on disk. What people wrote stays out: it is theirs, and it may be long.
    pub(super) fn write(self, of: &RunRef) {
        for (event, principal) in self.0 {
            let (tenant, run) = (&of.tenant, &of.run);
            tracing::warn!(target: "holdpoint::audit", event, principal, %tenant, %run, "at a governed gate");
        }
    }
}
