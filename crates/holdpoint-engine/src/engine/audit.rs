//! Entries of the server's log about decisions: every answer and vote with a credential, refusals at governed gates,
//! and approvals that went past a rule. Why, and all the rest, is in the log of the run.

use holdpoint_core::{Event, RunRef, ViaType};

/// Entries of a change that is about to be committed.
#[derive(Debug, PartialEq)]
pub(super) struct Entries(Vec<Entry>);

#[derive(Debug, PartialEq)]
struct Entry {
    event: &'static str,
    principal: String,
    kind: Kind,
}

#[derive(Debug, PartialEq)]
enum Kind {
    /// A refusal or an override at a governed gate.
    Governed,
    /// An answer or a vote, and the id of its key, session or link.
    Decision { via: String },
}

impl Entries {
    pub(super) fn of(events: &[Event]) -> Self {
        let logs_decisions = tracing::enabled!(target: "holdpoint::audit", tracing::Level::INFO);
        let mut entries = Vec::new();
        let mut speaker = "";
        for event in events {
            let mut add = |principal: &str, kind| {
                entries.push(Entry { event: event.name(), principal: principal.to_owned(), kind });
            };
            match event {
                Event::VoteCast { by, via, .. } | Event::InterruptResolved { by, via, .. } => {
                    speaker = by;
                    let via = via.as_ref().filter(|via| logs_decisions && via.kind != ViaType::System);
                    if let Some(via) = via {
                        add(by, Kind::Decision { via: via.id.clone() });
                    }
                }
                Event::AuthorizationDecided { by, .. } => add(by, Kind::Governed),
                Event::ApprovalOverridden { .. } => add(speaker, Kind::Governed),
                _ => {}
            }
        }
        Self(entries)
    }

    /// Once it is on disk. What people wrote stays out: it is theirs, and it may be long.
    pub(super) fn write(self, of: &RunRef) {
        let (tenant, run) = (&of.tenant, &of.run);
        for Entry { event, principal, kind } in self.0 {
            match kind {
                Kind::Governed => {
                    tracing::warn!(target: "holdpoint::audit", event, principal, %tenant, %run, "at a governed gate");
                }
                Kind::Decision { via } => {
                    tracing::info!(target: "holdpoint::audit", event, principal, via, %tenant, %run, "decision");
                }
            }
        }
    }
}
