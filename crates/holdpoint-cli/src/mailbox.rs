//! `holdpoint mailbox`: the queues behind the runs, for people who want to know why something does not move.

use clap::Subcommand;
use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use serde_json::{Value, json};

use super::client::{Client, encode};
use super::failure::Failure;
use super::output::{Output, age, age_cell, cell, clean, ms_since};

pub(crate) const EXAMPLES: &str = "\
Every activation of a run is a dispatch in the queue of its thread; a run that was started over HTTP stands in a \
thread named after itself. A dispatch is queued, claimed by one worker at a time, and then acked; one that failed too \
often is a dead letter. STATUS is the queue's word, RUN STATUS the run's: acked only says that a worker did its part.

Examples:
  holdpoint mailbox stats                 # how much is queued, in work, given up
  holdpoint mailbox list latest           # the activations of the newest run
  holdpoint mailbox list THREAD --status dead_letter,claimed
  holdpoint mailbox show ID
  holdpoint mailbox cancel ID             # only what is queued; its run ends with it
  holdpoint mailbox requeue ID            # only dead letters of runs that go on";

const STATUSES: [&str; 6] = ["queued", "claimed", "acked", "cancelled", "superseded", "dead_letter"];

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List the dispatches of a thread in the order in which they are served
    List {
        /// Id of a thread, or of a run, for the thread of that run; `latest` for the newest run
        #[arg(value_name = "THREAD", value_parser = NonEmptyStringValueParser::new())]
        thread: String,
        /// Only dispatches in these statuses, separated by commas
        #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = PossibleValuesParser::new(STATUSES))]
        status: Vec<String>,
        /// Show at most this many
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },
    /// Show one dispatch: where it stands, how often it was tried, what its run did with it
    Show {
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
    },
    /// Cancel a dispatch that is queued; its run ends with it. For one that is claimed, cancel the run
    Cancel {
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
    },
    /// Put a dead letter back, if its run has not ended: a new dispatch with all its attempts
    Requeue {
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
    },
    /// Count the dispatches of this tenant by status
    Stats,
}

pub(crate) fn run(client: &Client, output: &Output, action: Action) -> Result<(), Failure> {
    match action {
        Action::List { thread, status, limit } => return list(client, output, &thread, &status, limit),
        Action::Show { id } => {
            let reply = client.get(&path(&id))?;
            output.show(&reply, |dispatch| show(output, dispatch));
        }
        Action::Cancel { id } => {
            let reply = client.post(&format!("{}/cancel", path(&id)), &json!({}))?;
            output.show(&reply, |now| {
                let status = output.status(&cell(&now["status"]));
                format!("dispatch {} is {status}, and its run has ended", clean(&id))
            });
        }
        Action::Requeue { id } => {
            let reply = client.post(&format!("{}/requeue", path(&id)), &json!({}))?;
            output.show(&reply, |now| {
                let fresh = cell(&now["dispatchId"]);
                let next = output.command(&format!("mailbox show {fresh}"));
                format!("queued dispatch {fresh} in place of {}\nsee it with: {next}", clean(&id))
            });
        }
        Action::Stats => {
            let reply = client.get("/v1/mailbox/stats")?;
            output.show(&reply, |found| stats(output, found));
        }
    }
    Ok(())
}

fn path(id: &str) -> String {
    format!("/v1/dispatches/{}", encode(id))
}

fn list(
    client: &Client,
    output: &Output,
    thread: &str,
    status: &[String],
    limit: u32,
) -> Result<(), Failure> {
    let mut path = format!("/v1/threads/{}/dispatches?", encode(&client.run_id(thread)?));
    if !status.is_empty() {
        path.push_str(&format!("status={}&", encode(&status.join(","))));
    }
    let reply = client.list(&path, "dispatches", limit)?;
    output.show(&reply, |page| table(output, page));
    output.more_untyped(&reply, limit);
    Ok(())
}

fn table(output: &Output, page: &Value) -> String {
    let row = |one: &Value| {
        vec![
            cell(&one["dispatchId"]),
            cell(&one["status"]),
            attempts(one),
            cell(&one["runId"]),
            run_status(one),
            age_cell(&one["createdAt"]),
            output.fit(&cell(&one["lastError"]), 60),
        ]
    };
    let rows: Vec<_> = page["dispatches"].as_array().into_iter().flatten().map(row).collect();
    let heads = ["DISPATCH", "STATUS", "FAILED", "RUN", "RUN STATUS", "AGE", "LAST ERROR"];
    output.table(&heads, &rows, "no dispatches; those that have ended are kept for a day")
}

/// How many attempts failed, and how many there are.
fn attempts(dispatch: &Value) -> String {
    format!("{}/{}", cell(&dispatch["attemptCount"]), cell(&dispatch["maxAttempts"]))
}

fn run_status(dispatch: &Value) -> String {
    if dispatch["run"].is_null() { "unknown here".to_string() } else { cell(&dispatch["run"]["status"]) }
}

fn show(output: &Output, dispatch: &Value) -> String {
    let at = |value: &Value| match ms_since(value) {
        Some(ms) if ms < 0 => format!("{} (in {})", cell(value), age(ms)),
        Some(ms) => format!("{} ({} ago)", cell(value), age(ms)),
        None => cell(value),
    };
    let did = &dispatch["projection"];
    let claimed = match &dispatch["claimedBy"] {
        Value::Null => "-".to_string(),
        holder => format!("{}, lease until {}", cell(holder), at(&dispatch["leaseUntil"])),
    };
    let facts = [
        ("dispatch", cell(&dispatch["dispatchId"])),
        ("thread", cell(&dispatch["threadId"])),
        ("status", cell(&dispatch["status"])),
        ("claimed by", claimed),
        ("failed", format!("{} attempts", attempts(dispatch))),
        ("last error", cell(&dispatch["lastError"])),
        ("available", at(&dispatch["availableAt"])),
        ("priority", cell(&dispatch["priority"])),
        ("epoch", cell(&dispatch["dispatchEpoch"])),
        ("key", cell(&dispatch["dedupeKey"])),
        ("created", at(&dispatch["createdAt"])),
        ("changed", at(&dispatch["updatedAt"])),
        ("run", cell(&dispatch["runId"])),
        ("run status", run_status(dispatch)),
        ("reported", cell(&did["runStatus"])),
        ("termination", termination(&did["termination"])),
        ("response", output.fit(&cell(&did["response"]), 400)),
        ("run error", cell(&did["error"])),
        ("attempt", cell(&did["instanceId"])),
        ("completed", at(&did["completedAt"])),
    ];
    output.facts(&facts)
}

fn termination(reason: &Value) -> String {
    match (&reason["type"], &reason["value"]) {
        (Value::Null, _) => "-".to_string(),
        (word, Value::Null) => cell(word),
        (word, more) => format!("{}: {}", cell(word), cell(more)),
    }
}

fn stats(output: &Output, found: &Value) -> String {
    let counts = STATUSES.map(|name| vec![name.to_string(), cell(&found["counts"][name])]);
    let table = output.table(&["STATUS", "DISPATCHES"], &counts, "");
    match ms_since(&found["nextWakeupAt"]) {
        Some(ms) if ms < 0 => format!("{table}\nnext to become due: in {}", age(ms)),
        Some(_) => format!("{table}\nnext to become due: now"),
        None => table,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dispatch() -> Value {
        json!({
            "dispatchId": "d1", "threadId": "r1", "runId": "r1", "status": "acked", "priority": 128,
            "dispatchEpoch": 0, "attemptCount": 1, "maxAttempts": 5, "lastError": "timed out",
            "run": {"runId": "r1", "status": "failed"},
            "projection": {"runStatus": "done", "termination": {"type": "error", "value": "boom"},
                "response": null, "error": "boom", "instanceId": "i1", "completedAt": null},
        })
    }

    #[test]
    fn both_tracks_stand_in_one_line() {
        let output = Output::new(true);
        let text = table(&output, &json!({"dispatches": [dispatch()]}));
        assert!(text.contains("d1        acked   1/5     r1   failed"), "{text}");
        assert!(text.ends_with("timed out"), "{text}");
    }

    #[test]
    fn one_dispatch_tells_what_its_run_did_with_it() {
        let text = show(&Output::new(true), &dispatch());
        for line in [
            "run status   failed",
            "reported     done",
            "termination  error: boom",
            "failed       1/5 attempts",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        let orphan = json!({"run": null});
        assert_eq!(run_status(&orphan), "unknown here");
    }

    #[test]
    fn every_status_is_counted() {
        let text = stats(&Output::new(true), &json!({"counts": {"queued": 3}}));
        assert!(text.contains("queued       3") && text.ends_with("dead_letter  -"), "{text}");
    }
}
