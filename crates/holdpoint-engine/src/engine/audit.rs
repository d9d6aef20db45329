//! Entries of the audit log about decisions: every answer and vote with a credential, refusals at governed gates, and
//! approvals that override a rule. The reasons and all details are in the log of the run.

use holdpoint_core::{Event, RunRef, ViaType};

/// The entries of a change that is not committed yet.
#[derive(Debug, PartialEq)]
pub(super) struct AuditEntries(Vec<AuditEntry>);

#[derive(Debug, PartialEq)]
struct AuditEntry {
    event: &'static str,
    principal: String,
    kind: AuditKind,
}

#[derive(Debug, PartialEq)]
enum AuditKind {
    /// A refusal or an override at a governed gate.
    Governed,
    /// An answer or a vote, with the id of its key, session or link.
    Decision { via: String },
}

impl AuditEntries {
    pub(super) fn of(events: &[Event]) -> Self {
        let logs_decisions = tracing::enabled!(target: "holdpoint::audit", tracing::Level::INFO);
        let mut entries = Vec::new();
        let mut answered_by = "";
        for event in events {
            let mut add = |principal: &str, kind| {
                entries.push(AuditEntry { event: event.name(), principal: principal.to_owned(), kind });
            };
            match event {
                Event::VoteCast { by, via, .. } | Event::InterruptResolved { by, via, .. } => {
                    answered_by = by;
                    let via = via.as_ref().filter(|via| logs_decisions && via.kind != ViaType::System);
                    if let Some(via) = via {
                        add(by, AuditKind::Decision { via: via.id.clone() });
                    }
                }
                Event::AuthorizationDecided { by, .. } => add(by, AuditKind::Governed),
                Event::ApprovalOverridden { .. } => add(answered_by, AuditKind::Governed),
                _ => {}
            }
        }
        Self(entries)
    }

    /// Writes the entries after the commit. They contain no text that principals wrote: it is private and can be
    /// long.
    pub(super) fn write(self, of: &RunRef) {
        let (tenant, run) = (&of.tenant, &of.run);
        for AuditEntry { event, principal, kind } in self.0 {
            match kind {
                AuditKind::Governed => {
                    tracing::warn!(target: "holdpoint::audit", event, principal, %tenant, %run, "at a governed gate");
                }
                AuditKind::Decision { via } => {
                    tracing::info!(target: "holdpoint::audit", event, principal, via, %tenant, %run, "decision");
                }
            }
        }
    }
}
