//! `holdpoint runs interrupts`: what a run has asked, who said what, and what came of it.

use serde_json::Value;

use super::{Client, Failure, Output, cell, path};
use crate::output::{age_cell, shorten};

pub(super) fn run(client: &Client, output: &Output, run: &str) -> Result<(), Failure> {
    let reply = client.list(&format!("{}/interrupts?", path(run)), "interrupts", u32::MAX)?;
    output.show(&reply, |page| {
        let rows: Vec<_> = page["interrupts"].as_array().into_iter().flatten().map(row).collect();
        let heads = [
            "INTERRUPT",
            "NODE",
            "KIND",
            "STATUS",
            "ASKED",
            "VOTES",
            "ASKS",
            "DECISION",
            "BY",
            "VIA",
            "TITLE",
        ];
        output.table(&heads, &rows, "the run has asked nothing")
    });
    Ok(())
}

fn row(interrupt: &Value) -> Vec<String> {
    let count = |name: &str| match interrupt[name].as_array().map_or(0, Vec::len) {
        0 => "-".to_string(),
        count => count.to_string(),
    };
    let decision = &interrupt["decision"];
    let decided = ["decision", "action"].map(|name| &decision[name]).into_iter().find(|said| !said.is_null());
    let or_dash = |said: Option<&Value>| said.filter(|said| !said.is_null()).map_or("-".to_string(), cell);
    let mut row: Vec<String> =
        ["interruptId", "nodeId", "kind", "status"].map(|name| cell(&interrupt[name])).into();
    row.extend([age_cell(&interrupt["requestedAt"]), count("votes"), count("asks")]);
    row.extend([or_dash(decided), or_dash(Some(&decision["by"])), describe_via(&decision["via"])]);
    row.push(shorten(&cell(&interrupt["title"]), 80));
    row
}

/// Describes the credential of a decision.
fn describe_via(via: &Value) -> String {
    if via.is_null() { "-".to_string() } else { format!("{} {}", cell(&via["type"]), cell(&via["id"])) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_row_tells_what_came_of_a_question() {
        let open = json!({"nodeId": "gate", "kind": "approval", "status": "open", "votes": [{}], "asks": []});
        assert_eq!(row(&open)[5..10], ["1", "-", "-", "-", "-"]);
        let via = json!({"type": "key", "id": "key_1"});
        let decision =
            json!({"value": {}, "by": "ann", "action": "edit-accept", "decision": "granted", "via": via});
        let granted =
            json!({"nodeId": "gate", "kind": "approval", "status": "answered", "decision": decision});
        assert_eq!(row(&granted)[7..10], ["granted", "ann", "key key_1"]);
    }
}
