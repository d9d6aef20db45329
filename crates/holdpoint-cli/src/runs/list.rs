//! `holdpoint runs list`: lists runs.

use clap::Args;
use clap::builder::PossibleValuesParser;
use holdpoint_api::ids::Status;
use holdpoint_api::runs::{ListRuns, RunSummary};

use super::{Client, Failure, Output, cell};
use crate::output::{age_since, remove_empty_columns};
use crate::values;

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint runs list --status failed --since 24h
  holdpoint runs list --workflow release --tag urgent --limit 500
  holdpoint runs list --since 2026-05-01 --until 2026-06-01T12:00:00Z
  holdpoint runs list --parent RUN                  # the child runs of a run
  holdpoint runs list --status paused --json | jq -r '.runs[].runId'";

const TITLE_CHARS_MAX: usize = 60;

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only runs with this status
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
    /// Only child runs of this run; `latest` is the newest run
    #[arg(long, value_name = "RUN")]
    parent: Option<String>,
    /// Only runs created at or after this time: an instant, a day, or a time span before now (90s, 15m, 12h, 30d, 2w)
    #[arg(long, value_name = "WHEN", value_parser = values::instant)]
    since: Option<String>,
    /// Only runs created before this time
    #[arg(long, value_name = "WHEN", value_parser = values::instant)]
    until: Option<String>,
    /// Maximum number of runs to show
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

pub(crate) fn run(client: &Client, output: &Output, args: ListArgs) -> Result<(), Failure> {
    let filter = ListRuns {
        status: args.status,
        workflow_id: args.workflow,
        scope_id: args.scope,
        parent_run_id: args.parent.map(|run| client.run_id(&run)).transpose()?,
        tag: args.tag,
        created_after: args.since,
        created_before: args.until,
    };
    let reply = client.collect(client.runs().list(&filter), args.limit)?;
    output.show(&reply, |page| table(output, &page.runs));
    output.more(&reply, args.limit);
    Ok(())
}

/// Returns a table of runs without empty columns. The status of a completed hold is its outcome. The error of a run
/// that failed at a deadline is `timed_out`.
fn table(output: &Output, runs: &[RunSummary]) -> String {
    let hold_outcome = |run: &RunSummary| run.outcome.filter(|_| run.status == Status::Completed);
    let failure_outcome = |run: &RunSummary| run.outcome.filter(|_| run.status != Status::Completed);
    let row = |run: &RunSummary| {
        vec![
            cell(&run.run_id),
            cell(&run.workflow_id),
            hold_outcome(run).map_or_else(|| cell(run.status), cell),
            age_since(run.created_at),
            age_since(run.updated_at),
            cell(&run.scope_id),
            cell(&run.parent_run_id),
            failure_outcome(run).map_or_else(|| cell(&run.error_code), cell),
            output.fit(&cell(&run.title), TITLE_CHARS_MAX),
        ]
    };
    let mut heads = vec!["RUN", "WORKFLOW", "STATUS", "AGE", "CHANGED", "SCOPE", "PARENT", "ERROR", "TITLE"];
    let mut rows: Vec<_> = runs.iter().map(row).collect();
    remove_empty_columns(&mut heads, &mut rows, &["SCOPE", "PARENT", "ERROR", "TITLE"]);
    output.table(&heads, &rows, "no runs")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn listed(status: &str, members: &Value) -> String {
        let mut run = json!({
            "runId": "r", "workflowId": "f", "status": status, "createdAt": "2026-05-01T10:00:00Z",
            "updatedAt": "2026-05-01T10:00:00Z",
        });
        run.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        table(&Output::json(), &[serde_json::from_value(run).unwrap()])
    }

    #[test]
    fn scope_parent_and_error_have_a_column_if_a_run_has_one() {
        assert!(!listed("running", &json!({})).contains("PARENT"));
        let child = listed("running", &json!({"parentRunId": "up"}));
        assert!(child.contains("PARENT") && !child.contains("SCOPE"), "{child}");
        assert!(listed("failed", &json!({"errorCode": "boom"})).contains("boom"));
        let late = listed("failed", &json!({"errorCode": "approval_rejected", "outcome": "timed_out"}));
        assert!(late.contains("timed_out") && !late.contains("approval_rejected"), "{late}");
        assert_eq!(table(&Output::json(), &[]), "no runs");
    }

    #[test]
    fn a_completed_hold_is_listed_with_its_outcome_and_title() {
        for outcome in ["rejected", "timed_out", "approved", "answered"] {
            let text = listed("completed", &json!({"outcome": outcome, "title": "Go?"}));
            assert!(text.contains(outcome) && text.contains("Go?") && !text.contains("completed"), "{text}");
            assert!(!text.contains("ERROR"), "{text}");
        }
    }
}
