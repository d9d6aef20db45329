//! `holdpoint runs`: starting runs and looking at them.

use std::time::Duration;

use clap::Subcommand;
use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use serde_json::{Map, Value, json};

use super::asked;
use super::client::{Client, encode};
use super::failure::Failure;
use super::output::{Output, age, age_cell, cell, clean, ms_since};
use super::{values, watch};

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint runs start release --input version=1.4.0 --input dryRun=true
  holdpoint runs start refund --inputs @order.json --tag urgent --watch
  holdpoint runs list --status waiting-approval
  holdpoint runs show latest
  holdpoint runs cancel RUN --reason 'wrong order'";

/// How long to look whether a run has settled, so that the last word is seldom `running`.
const SETTLE_TRIES: u32 = 10;
const SETTLE_PAUSE: Duration = Duration::from_millis(50);

const STATUSES: [&str; 8] = [
    "pending",
    "running",
    "waiting-approval",
    "waiting-input",
    "waiting-external",
    "completed",
    "failed",
    "cancelled",
];

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Start a run of a workflow
    Start {
        /// The id of a registered workflow
        #[arg(value_name = "WORKFLOW")]
        workflow: String,
        /// One input; the value is JSON if it reads as JSON, else text. Repeat for more. To force text, quote it:
        /// --input 'version="1.4"'
        #[arg(long = "input", value_name = "NAME=VALUE", value_parser = values::pair)]
        pairs: Vec<(String, Value)>,
        /// All inputs as one JSON object: the text itself, @file, or - for standard input
        #[arg(long, value_name = "JSON|@FILE|-")]
        inputs: Option<String>,
        /// A tag on the run. Repeat for more
        #[arg(long = "tag", value_name = "TAG")]
        tags: Vec<String>,
        /// Then watch the run to its end
        #[arg(long)]
        watch: bool,
    },
    /// List runs, the newest first
    List {
        /// Only runs in this status
        #[arg(long, value_name = "STATUS", value_parser = PossibleValuesParser::new(STATUSES))]
        status: Option<String>,
        /// Only runs of this workflow
        #[arg(long, value_name = "ID")]
        workflow: Option<String>,
        /// Show at most this many
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },
    /// Show one run: where it stands, what it waits for, why it failed
    Show {
        /// The run, or `latest` for the newest
        #[arg(value_name = "RUN", value_parser = NonEmptyStringValueParser::new())]
        run: String,
    },
    /// Print the events of a run as they happen, until it ends
    Watch {
        /// The run, or `latest` for the newest
        #[arg(value_name = "RUN", value_parser = NonEmptyStringValueParser::new())]
        run: String,
    },
    /// Cancel a run; what it waits for is cancelled with it
    Cancel {
        /// The run, or `latest` for the newest
        #[arg(value_name = "RUN", value_parser = NonEmptyStringValueParser::new())]
        run: String,
        /// Why, for the record
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

pub(crate) fn run(client: &Client, output: &Output, action: Action) -> Result<(), Failure> {
    match action {
        Action::Start { workflow, pairs, inputs, tags, watch } => {
            let inputs = values::inputs(inputs.as_deref(), pairs)?;
            start(client, output, &json!({"workflowId": workflow, "inputs": inputs, "tags": tags}), watch)
        }
        Action::List { status, workflow, limit } => list(client, output, status, workflow, limit),
        Action::Show { run } => {
            let reply = client.get(&path(&client.run_id(&run)?))?;
            output.show(&reply, |snapshot| show(output, snapshot));
            Ok(())
        }
        Action::Watch { run } => watch::run(client, output, &client.run_id(&run)?),
        Action::Cancel { run, reason } => {
            let body: Map<String, Value> =
                reason.into_iter().map(|text| ("reason".into(), json!(text))).collect();
            let run = client.run_id(&run)?;
            let reply = client.post(&format!("{}/cancel", path(&run)), &Value::Object(body))?;
            output.show(&reply, |now| {
                format!("run {} is {}", clean(&run), output.status(&cell(&now["status"])))
            });
            Ok(())
        }
    }
}

pub(crate) fn path(run: &str) -> String {
    format!("/v1/runs/{}", encode(run))
}

fn start(client: &Client, output: &Output, body: &Value, then_watch: bool) -> Result<(), Failure> {
    let reply = client.post("/v1/runs", body)?;
    let run = cell(&reply.value["runId"]);
    if then_watch {
        output.show(&reply, |_| format!("started run {run}"));
        return watch::run(client, output, &run);
    }
    output.show(&reply, |created| {
        let now = settled(client, &run).unwrap_or_else(|| created.clone());
        let ended = matches!(now["status"].as_str(), Some("completed" | "failed" | "cancelled"));
        let next = match ended {
            true => format!("see it with: {}", output.command(&format!("runs show {run}"))),
            false => format!("follow it with: {}", output.command(&format!("runs watch {run}"))),
        };
        format!("started run {run}: {}\n{next}", standing(output, &now))
    });
    Ok(())
}

/// The run once it waits or has ended, or as it is after a moment. None when this key may not look: what was done
/// before is done all the same.
pub(crate) fn settled(client: &Client, run: &str) -> Option<Value> {
    let mut tries = 0;
    loop {
        let snapshot = client.get(&path(run)).ok()?.value;
        tries += 1;
        if !matches!(snapshot["status"].as_str(), Some("pending" | "running")) || tries == SETTLE_TRIES {
            return Some(snapshot);
        }
        std::thread::sleep(SETTLE_PAUSE);
    }
}

/// Where a run stands, in a few words: its status, and at which node it waits or why it failed.
pub(crate) fn standing(output: &Output, run: &Value) -> String {
    let status = output.status(&cell(&run["status"]));
    match (&run["interrupt"]["nodeId"], &run["error"]) {
        (Value::String(node), _) => format!("{status} at {}", clean(node)),
        (_, Value::Null) => status,
        (_, error) => format!("{status} ({}: {})", cell(&error["code"]), cell(&error["message"])),
    }
}

fn list(
    client: &Client,
    output: &Output,
    status: Option<String>,
    workflow: Option<String>,
    limit: u32,
) -> Result<(), Failure> {
    let mut path = "/v1/runs?".to_string();
    for (name, value) in [("status", status), ("workflowId", workflow)] {
        path.extend(value.map(|value| format!("{name}={}&", encode(&value))));
    }
    let reply = client.list(&path, "runs", limit)?;
    let row = |run: &Value| {
        let mut row: Vec<String> = ["runId", "workflowId", "status"].map(|name| cell(&run[name])).into();
        row.extend(["createdAt", "updatedAt"].map(|name| age_cell(&run[name])));
        row
    };
    output.show(&reply, |page| {
        let rows: Vec<_> = page["runs"].as_array().into_iter().flatten().map(row).collect();
        output.table(&["RUN", "WORKFLOW", "STATUS", "AGE", "CHANGED"], &rows, "no runs")
    });
    output.more(&reply, limit);
    Ok(())
}

fn show(output: &Output, run: &Value) -> String {
    let at = |name: &str| match ms_since(&run[name]) {
        Some(ms) => format!("{} ({} ago)", cell(&run[name]), age(ms)),
        None => cell(&run[name]),
    };
    let error = match &run["error"] {
        Value::Null => "-".to_string(),
        error => format!("{}: {}", cell(&error["code"]), cell(&error["message"])),
    };
    let not_empty = |name: &str| match run[name].as_object() {
        Some(map) if !map.is_empty() => output.fit(&cell(&run[name]), 400),
        _ => "-".to_string(),
    };
    let facts = [
        ("run", cell(&run["runId"])),
        ("workflow", cell(&run["workflowId"])),
        ("status", cell(&run["status"])),
        ("error", error),
        ("owner", format!("{}/{}", cell(&run["owner"]["tenant"]), cell(&run["owner"]["principal"]))),
        ("node", cell(&run["currentNodeId"])),
        ("started", at("startedAt")),
        ("completed", at("completedAt")),
        ("tags", cell(&run["tags"])),
        ("metadata", not_empty("metadata")),
        ("variables", not_empty("variables")),
    ];
    let nodes = run["nodeStates"].as_object().into_iter().flatten();
    let rows: Vec<_> = nodes.map(|(node, state)| vec![clean(node), cell(&state["status"])]).collect();
    let parts =
        [output.facts(&facts), output.table(&["NODE", "STATUS"], &rows, ""), asked::text(output, run)];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_run_says_what_it_waits_for_and_how_to_answer() {
        let snapshot = json!({
            "runId": "r1", "workflowId": "release", "status": "waiting-approval",
            "owner": {"tenant": "default", "principal": "admin"},
            "nodeStates": {"gate": {"status": "suspended"}}, "variables": {}, "tags": [],
            "interrupt": {"nodeId": "gate", "kind": "approval", "data": {"title": "Ship?"}},
        });
        let text = show(&Output::new(true), &snapshot);
        assert!(text.contains("status    waiting-approval"), "{text}");
        assert!(text.contains("gate  suspended"), "{text}");
        assert!(text.ends_with("title  Ship?\nanswer with: holdpoint answer r1 gate accept"), "{text}");
        assert!(!text.contains("variables"), "{text}");
    }

    #[test]
    fn a_run_stands_at_its_node_or_has_failed_for_a_reason() {
        let output = Output::new(true);
        let waiting = json!({"status": "waiting-input", "interrupt": {"nodeId": "ask"}});
        assert_eq!(standing(&output, &waiting), "waiting-input at ask");
        let failed = json!({"status": "failed", "error": {"code": "boom", "message": "why"}});
        assert_eq!(standing(&output, &failed), "failed (boom: why)");
        assert_eq!(standing(&output, &json!({"status": "running"})), "running");
    }
}
