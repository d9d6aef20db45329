//! `holdpoint runs pause`, `resume` and `cancel`.

use holdpoint_api::ids::{Drain, Status};
use holdpoint_api::runs::{BULK_CANCEL_MAX, BulkCancel, CancelRun, PauseRun, RunError};

use super::{Client, Failure, Output, cell, clean, describe_state_or, wait_until_settled};

pub(crate) const CANCEL_EXAMPLES: &str = "\
Examples:
  holdpoint runs cancel latest
  holdpoint runs cancel RUN RUN RUN --reason 'wrong order'
  holdpoint runs list --tag test --json | jq -r '.runs[].runId' | xargs holdpoint runs cancel

A run that has already ended is not an error. With several runs, each has a line; the exit code is 1
if one of them could not be cancelled.";

pub(crate) fn pause(
    client: &Client,
    output: &Output,
    run: &str,
    reason: Option<String>,
    drain: Option<&str>,
) -> Result<(), Failure> {
    let drain_policy = if drain == Some("immediate") { Drain::Immediate } else { Drain::DrainCurrentNode };
    let reply = client.send(client.runs().pause(run, &PauseRun { reason, drain_policy }))?;
    output.show(&reply, |now| {
        let status = output.status(now.status.as_str());
        let run = clean(run);
        let resume = output.command(&format!("runs resume {run}"));
        if now.draining == Some(true) {
            return format!(
                "run {run} will be {status} after its running nodes have ended\nwithdraw the pause with: {resume}"
            );
        }
        format!("run {run} is {status}\nresume it with: {resume}")
    });
    Ok(())
}

pub(crate) fn resume(client: &Client, output: &Output, run: &str) -> Result<(), Failure> {
    let reply = client.send(client.runs().resume(run))?;
    output.show(&reply, |resumed| {
        let now = describe_state_or(output, wait_until_settled(client, run).as_ref(), resumed.status);
        format!("resumed run {}; it is now {now}", clean(run))
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
        let reply = client.send(client.runs().cancel(run, &CancelRun { reason }))?;
        output.show(&reply, |now| line(output, run, Some(now.status), None));
        return Ok(());
    }
    let mut failed = 0;
    for chunk in ids.chunks(BULK_CANCEL_MAX) {
        let cancel = BulkCancel { run_ids: chunk.to_vec(), reason: reason.clone() };
        let reply = client.send(client.runs().cancel_all(&cancel))?;
        failed += reply.value.results.iter().filter(|result| !result.ok).count();
        output.show(&reply, |cancelled| {
            let results = cancelled.results.iter();
            let lines = results.map(|run| line(output, &run.run_id, run.status, run.error.as_ref()));
            lines.collect::<Vec<_>>().join("\n")
        });
    }
    match failed {
        0 => Ok(()),
        failed => Err(Failure::refused(format!("{failed} of {} runs could not be cancelled", ids.len()))),
    }
}

fn line(output: &Output, run: &str, status: Option<Status>, error: Option<&RunError<'_>>) -> String {
    let (run, shown) = (clean(run), output.status(&cell(status)));
    match error {
        Some(error) => {
            format!("run {run} was not cancelled: {} ({})", cell(&error.message), cell(&error.code))
        }
        None if status == Some(Status::Cancelled) => format!("run {run} is {shown}"),
        None => format!("run {run} is {shown}: it had already ended"),
    }
}
