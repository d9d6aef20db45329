//! `holdpoint runs pause`, `resume` and `cancel`.

use serde_json::{Map, Value, json};

use super::{Client, Failure, Output, cell, clean, path, settled, standing};

/// What one request takes.
const BULK_MAX: usize = 100;

pub(crate) const CANCEL_EXAMPLES: &str = "\
Examples:
  holdpoint runs cancel latest
  holdpoint runs cancel RUN RUN RUN --reason 'wrong order'
  holdpoint runs list --tag test --json | jq -r '.runs[].runId' | xargs holdpoint runs cancel

A run that has ended stays as it is, and that is no error: look at its line. With several runs
each is told by itself; the exit code is 1 when one of them could not be cancelled.";

pub(crate) fn pause(
    client: &Client,
    output: &Output,
    run: &str,
    reason: Option<String>,
    drain: Option<String>,
) -> Result<(), Failure> {
    let mut body = said(reason);
    body.extend(drain.map(|policy| ("drainPolicy".to_string(), json!(policy))));
    let reply = client.post(&format!("{}:pause", path(run)), &Value::Object(body))?;
    output.show(&reply, |now| {
        let status = output.status(&cell(&now["status"]));
        let resume = output.command(&format!("runs resume {}", clean(run)));
        match now["draining"].as_bool() {
            Some(true) => format!(
                "run {} will be {status} once the nodes at work have ended\nwithdraw the pause with: {resume}",
                clean(run)
            ),
            _ => format!("run {} is {status}\nlet it go on with: {resume}", clean(run)),
        }
    });
    Ok(())
}

pub(crate) fn resume(client: &Client, output: &Output, run: &str) -> Result<(), Failure> {
    let reply = client.post(&format!("{}:resume", path(run)), &json!({}))?;
    output.show(&reply, |resumed| {
        let now = settled(client, run).unwrap_or_else(|| resumed.clone());
        format!("run {} goes on; it is now {}", clean(run), standing(output, &now))
    });
    Ok(())
}

pub(crate) fn cancel(
    client: &Client,
    output: &Output,
    runs: &[String],
    reason: Option<String>,
) -> Result<(), Failure> {
    let mut ids = Vec::new();
    for run in runs {
        let id = client.run_id(run)?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    if let [run] = &ids[..] {
        let reply = client.post(&format!("{}/cancel", path(run)), &Value::Object(said(reason)))?;
        output.show(&reply, |now| line(output, run, now));
        return Ok(());
    }
    let mut failed = 0;
    for some in ids.chunks(BULK_MAX) {
        let mut body = said(reason.clone());
        body.insert("runIds".to_string(), json!(some));
        let reply = client.post("/v1/runs:bulk-cancel", &Value::Object(body))?;
        let results = reply.value["results"].as_array().cloned().unwrap_or_default();
        failed += some.len() - results.iter().filter(|result| result["ok"] == true).count().min(some.len());
        output.show(&reply, |_| {
            let lines = results.iter().map(|result| line(output, &cell(&result["runId"]), result));
            lines.collect::<Vec<_>>().join("\n")
        });
    }
    match failed {
        0 => Ok(()),
        failed => Err(Failure::refused(format!("{failed} of {} runs could not be cancelled", ids.len()))),
    }
}

fn line(output: &Output, run: &str, result: &Value) -> String {
    let run = clean(run);
    match (&result["error"], result["status"].as_str()) {
        (Value::Null, Some("cancelled")) => format!("run {run} is {}", output.status("cancelled")),
        (Value::Null, status) => {
            format!("run {run} is {}: it had ended before", output.status(status.unwrap_or("-")))
        }
        (error, _) => {
            format!("run {run} was not cancelled: {} ({})", cell(&error["message"]), cell(&error["code"]))
        }
    }
}

fn said(reason: Option<String>) -> Map<String, Value> {
    reason.into_iter().map(|text| ("reason".to_string(), json!(text))).collect()
}
