//! `holdpoint runs interrupts`: shows the interrupts of a run with their votes, side questions and decisions.

use holdpoint_api::interrupts::{InterruptDecision, InterruptRecord};

use super::{Client, Failure, Output, cell};
use crate::output::{age_since, shorten};

const HEADS: [&str; 11] =
    ["INTERRUPT", "NODE", "KIND", "STATUS", "AGE", "VOTES", "ASKS", "DECISION", "BY", "VIA", "TITLE"];

pub(super) fn run(client: &Client, output: &Output, run: &str) -> Result<(), Failure> {
    let reply = client.collect(client.interrupts().history(run), u32::MAX)?;
    output.show(&reply, |page| {
        let rows: Vec<_> = page.interrupts.iter().map(row).collect();
        output.table(&HEADS, &rows, "no interrupts")
    });
    Ok(())
}

fn row(interrupt: &InterruptRecord<'_>) -> Vec<String> {
    let count = |count: usize| cell((count > 0).then_some(count));
    let decision = interrupt.decision.as_ref();
    let outcome = |made: &InterruptDecision| made.decision.clone().or_else(|| made.action.clone());
    let via = decision.and_then(|made| made.via.as_ref());
    vec![
        cell(&interrupt.interrupt_id),
        cell(&interrupt.node_id),
        cell(interrupt.kind),
        cell(interrupt.status),
        age_since(interrupt.requested_at),
        count(interrupt.votes.len()),
        count(interrupt.asks.len()),
        cell(decision.and_then(outcome)),
        cell(decision.map(|made| &made.by)),
        cell(via.map(|via| format!("{} {}", cell(via.kind), via.id))),
        shorten(&cell(&interrupt.title), 80),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn a_row_shows_the_votes_and_the_decision_of_an_interrupt() {
        let at = "2026-05-01T10:00:00Z";
        let record = json!({
            "interruptId": "r:i1", "nodeId": "gate", "kind": "approval", "key": "k", "title": "Go?", "data": {},
            "requestedAt": at, "status": "answered", "assignees": [], "repeatedVotes": 0, "asks": [],
            "votes": [{"decidedBy": "ann", "action": "edit-accept", "at": at}],
            "decision": {
                "value": {}, "by": "ann", "at": at, "action": "edit-accept", "decision": "granted",
                "via": {"type": "key", "id": "key_1"},
            },
        });
        let row = super::row(&serde_json::from_value(record).expect("a record"));
        assert_eq!(row[5..10], ["1", "-", "granted", "ann", "key key_1"]);
    }
}
