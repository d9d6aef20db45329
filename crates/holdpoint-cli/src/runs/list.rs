//! `holdpoint runs list`.

use clap::Args;
use clap::builder::PossibleValuesParser;
use holdpoint_core::Status;
use serde_json::Value;

use super::{Client, Failure, Output, cell, encode};
use crate::output::age_cell;
use crate::values;

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint runs list --status failed --since 24h
  holdpoint runs list --workflow release --tag urgent --limit 500
  holdpoint runs list --since 2026-05-01 --until 2026-06-01T12:00:00Z
  holdpoint runs list --parent RUN                  # the runs that a run has started
  holdpoint runs list --status paused --json | jq -r '.runs[].runId'";

const TITLE_CHARS_MAX: usize = 60;

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only runs in this status
    #[arg(long, value_name = "STATUS", value_parser = PossibleValuesParser::new(Status::ALL.map(Status::as_str)))]
    status: Option<String>,
    /// Only runs of this workflow
    #[arg(long, value_name = "ID")]
    workflow: Option<String>,
    /// Only runs of this scope
    #[arg(long, value_name = "SCOPE")]
    scope: Option<String>,
    /// Only runs with this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Only runs that this run has started; `latest` is the newest run
    #[arg(long, value_name = "RUN")]
    parent: Option<String>,
    /// Only runs created at or after: an instant, a day, or so long ago (90s, 15m, 12h, 30d, 2w)
    #[arg(long, value_name = "WHEN", value_parser = values::instant)]
    since: Option<String>,
    /// Only runs created before, written alike
    #[arg(long, value_name = "WHEN", value_parser = values::instant)]
    until: Option<String>,
    /// Show at most this many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

pub(crate) fn run(client: &Client, output: &Output, asked: List) -> Result<(), Failure> {
    let parent = asked.parent.map(|run| client.run_id(&run)).transpose()?;
    let mut path = "/v1/runs?".to_string();
    for (name, value) in [
        ("status", asked.status),
        ("workflowId", asked.workflow),
        ("scopeId", asked.scope),
        ("tag", asked.tag),
        ("parentRunId", parent),
        ("createdAfter", asked.since),
        ("createdBefore", asked.until),
    ] {
        path.extend(value.map(|value| format!("{name}={}&", encode(&value))));
    }
    let reply = client.list(&path, "runs", asked.limit)?;
    output.show(&reply, |page| table(output, page));
    output.more_untyped(&reply, asked.limit);
    Ok(())
}

/// Title, scope, parent and error have a column only where there is one. A hold has its outcome in place of its status.
fn table(output: &Output, page: &Value) -> String {
    let runs: Vec<&Value> = page["runs"].as_array().into_iter().flatten().collect();
    let mut heads = vec!["RUN", "WORKFLOW", "STATUS", "AGE", "CHANGED"];
    let mut more = Vec::new();
    for (head, name) in
        [("SCOPE", "scopeId"), ("PARENT", "parentRunId"), ("ERROR", "errorCode"), ("TITLE", "title")]
    {
        if runs.iter().any(|run| !run[name].is_null()) {
            heads.push(head);
            more.push(name);
        }
    }
    let row = |run: &&Value| {
        let is_completed_hold = run["status"] == "completed" && run["outcome"].is_string();
        let status = if is_completed_hold { "outcome" } else { "status" };
        let mut row: Vec<String> = ["runId", "workflowId", status].map(|name| cell(&run[name])).into();
        row.extend(["createdAt", "updatedAt"].map(|name| age_cell(&run[name])));
        let shown = |name: &str| match &run["outcome"] {
            Value::String(_) if name == "errorCode" && !is_completed_hold => cell(&run["outcome"]),
            _ if name == "title" => output.fit(&cell(&run[name]), TITLE_CHARS_MAX),
            _ => cell(&run[name]),
        };
        row.extend(more.iter().map(|name| shown(name)));
        row
    };
    let rows: Vec<_> = runs.iter().map(row).collect();
    output.table(&heads, &rows, "no runs")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn scope_parent_and_error_are_shown_where_there_are_any() {
        let output = Output::new(true);
        let plain = json!({"runId": "r", "workflowId": "f", "status": "running"});
        assert!(!table(&output, &json!({"runs": [plain]})).contains("PARENT"));
        let child = json!({"runId": "r.1", "workflowId": "f", "status": "running", "parentRunId": "r"});
        let text = table(&output, &json!({"runs": [plain, child]}));
        assert!(text.contains("PARENT") && !text.contains("SCOPE"), "{text}");
        let failed = json!({"runId": "r", "workflowId": "f", "status": "failed", "errorCode": "boom"});
        assert!(table(&output, &json!({"runs": [failed]})).contains("boom"));
        let silent = json!({"runId": "r", "workflowId": "f", "status": "failed", "errorCode": "approval_rejected", "outcome": "timed_out"});
        let text = table(&output, &json!({"runs": [silent]}));
        assert!(text.contains("timed_out") && !text.contains("approval_rejected"), "{text}");
        assert_eq!(table(&output, &json!({"runs": []})), "no runs");
    }

    #[test]
    fn a_rejected_hold_is_listed_as_rejected_with_its_title() {
        let hold = |outcome: &str| json!({"runId": "r", "workflowId": "holdpoint-hold", "status": "completed", "outcome": outcome, "title": "Go?"});
        for outcome in ["rejected", "timed_out", "approved", "answered"] {
            let text = table(&Output::new(true), &json!({"runs": [hold(outcome)]}));
            assert!(text.contains(outcome) && text.contains("Go?") && !text.contains("completed"), "{text}");
            assert!(!text.contains("ERROR"), "{text}");
        }
    }
}
