//! `holdpoint mailbox`: shows and repairs the dispatch queue.

use clap::Subcommand;
use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use holdpoint_api::Instant;
use holdpoint_api::ids::RunDispatchStatus;
use holdpoint_api::mailbox::{Dispatch, ListDispatches, MailboxStats};

use super::client::Client;
use super::failure::Failure;
use super::output::{Output, age, age_since, cell, clean, elapsed_ms};

pub(crate) const EXAMPLES: &str = "\
Every activation of a run is a dispatch in the queue of its dispatch thread; a run that was started over HTTP has a \
thread with the id of the run. A dispatch is queued, claimed by one worker, and acked; after too many failed attempts it \
is a dead letter. STATUS is the status of the dispatch, RUN STATUS that of its run: the run of an acked dispatch may \
still be open.

Examples:
  holdpoint mailbox stats                 # dispatches by status
  holdpoint mailbox list latest           # the activations of the newest run
  holdpoint mailbox list THREAD --status dead_letter,claimed
  holdpoint mailbox show ID
  holdpoint mailbox cancel ID             # only a queued dispatch; also ends its run
  holdpoint mailbox requeue ID            # only a dead letter whose run has not ended";

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List the dispatches of a thread in the order of their execution
    List {
        /// Id of the thread; the id of a run means its own thread, `latest` the thread of the newest run
        #[arg(value_name = "THREAD", value_parser = NonEmptyStringValueParser::new())]
        thread: String,
        /// Only dispatches in these statuses, separated by commas
        #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = PossibleValuesParser::new(RunDispatchStatus::ALL.map(RunDispatchStatus::as_str)))]
        status: Option<Vec<String>>,
        /// Maximum number of entries to show
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },
    /// Show one dispatch: its status, its attempts and the report of its run
    Show {
        /// Id of the dispatch
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
    },
    /// Cancel a queued dispatch and end its run; for a claimed dispatch, cancel the run instead
    Cancel {
        /// Id of the dispatch
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
    },
    /// Queue a dead letter again as a new dispatch with all attempts; its run must not have ended
    Requeue {
        /// Id of the dispatch
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
    },
    /// Count the dispatches of this tenant by status
    Stats,
}

pub(crate) fn run(client: &Client, output: &Output, action: Action) -> Result<(), Failure> {
    match action {
        Action::List { thread, status, limit } => {
            let filter = ListDispatches { status: status.map(|words| words.join(",")) };
            let reply = client.collect(client.mailbox().list(&client.run_id(&thread)?, &filter), limit)?;
            output.show(&reply, |page| table(output, &page.dispatches));
            output.more(&reply, limit);
        }
        Action::Show { id } => {
            output.show(&client.send(client.mailbox().get(&id))?, |dispatch| show(output, dispatch));
        }
        Action::Cancel { id } => output.show(&client.send(client.mailbox().cancel(&id))?, |now| {
            let status = output.status(now.status.as_str());
            format!("dispatch {} is {status}, and its run has ended", clean(&id))
        }),
        Action::Requeue { id } => output.show(&client.send(client.mailbox().requeue(&id))?, |now| {
            let fresh = clean(&now.dispatch_id);
            let next = output.command(&format!("mailbox show {fresh}"));
            format!("queued dispatch {fresh} in place of {}\nsee it with: {next}", clean(&id))
        }),
        Action::Stats => {
            output.show(&client.send(client.mailbox().stats())?, |stats| describe_stats(output, stats));
        }
    }
    Ok(())
}

fn table(output: &Output, dispatches: &[Dispatch]) -> String {
    let row = |dispatch: &Dispatch| {
        let row = &dispatch.row;
        vec![
            cell(&row.dispatch_id),
            cell(row.status),
            format!("{}/{}", row.attempt_count, row.max_attempts),
            cell(&row.run_id),
            run_status(dispatch),
            age_since(row.created_at),
            output.fit(&cell(&row.last_error), 60),
        ]
    };
    let heads = ["DISPATCH", "STATUS", "FAILED", "RUN", "RUN STATUS", "AGE", "LAST ERROR"];
    let rows: Vec<_> = dispatches.iter().map(row).collect();
    output.table(
        &heads,
        &rows,
        "no dispatches; ended ones are kept for a day, and a workflow without effects has none",
    )
}

fn run_status(dispatch: &Dispatch) -> String {
    dispatch.run.as_ref().map_or_else(|| "unknown".to_owned(), |run| clean(&run.status))
}

fn show(output: &Output, dispatch: &Dispatch) -> String {
    let at = |at: Instant| match elapsed_ms(at) {
        ms if ms < 0 => format!("{at} (in {})", age(ms)),
        ms => format!("{at} ({} ago)", age(ms)),
    };
    let (row, report) = (&dispatch.row, &dispatch.row.projection);
    let claim = row
        .claimed_by
        .as_ref()
        .map(|holder| format!("{}, lease until {}", clean(holder), cell(row.lease_until.map(at))));
    output.fields(&[
        ("dispatch", cell(&row.dispatch_id)),
        ("thread", cell(&row.thread_id)),
        ("status", cell(row.status)),
        ("claimed by", claim.unwrap_or_default()),
        ("failed", format!("{}/{} attempts", row.attempt_count, row.max_attempts)),
        ("last error", cell(&row.last_error)),
        ("available", at(row.available_at)),
        ("priority", row.priority.to_string()),
        ("epoch", row.dispatch_epoch.to_string()),
        ("key", cell(&row.dedupe_key)),
        ("created", at(row.created_at)),
        ("changed", at(row.updated_at)),
        ("run", cell(&row.run_id)),
        ("run status", run_status(dispatch)),
        ("reported", cell(&report.run_status)),
        ("termination", cell(report.termination.as_ref().map(ToString::to_string))),
        ("response", output.fit(&cell(&report.response), 400)),
        ("run error", cell(&report.error)),
        ("attempt", cell(&report.instance_id)),
        ("completed", cell(report.completed_at.map(at))),
    ])
}

fn describe_stats(output: &Output, stats: &MailboxStats) -> String {
    let rows = RunDispatchStatus::ALL.map(|status| {
        let counts = &stats.counts;
        let count = match status {
            RunDispatchStatus::Queued => counts.queued,
            RunDispatchStatus::Claimed => counts.claimed,
            RunDispatchStatus::Acked => counts.acked,
            RunDispatchStatus::Cancelled => counts.cancelled,
            RunDispatchStatus::Superseded => counts.superseded,
            RunDispatchStatus::DeadLetter => counts.dead_letter,
        };
        vec![status.as_str().to_owned(), count.to_string()]
    });
    let table = output.table(&["STATUS", "DISPATCHES"], &rows, "");
    match stats.next_wakeup_at.map(elapsed_ms) {
        Some(ms) if ms < 0 => format!("{table}\nnext to become due: in {}", age(ms)),
        Some(_) => format!("{table}\nnext to become due: now"),
        None => table,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdpoint_api::mailbox::DispatchCounts;

    fn dispatch() -> Dispatch {
        let dispatch = serde_json::json!({
            "dispatchId": "d1", "threadId": "r1", "runId": "r1", "status": "acked", "priority": 128,
            "dispatchEpoch": 0, "attemptCount": 1, "maxAttempts": 5, "lastError": "timed out",
            "availableAt": "2026-01-01T00:00:00Z", "createdAt": "2026-01-01T00:00:00Z",
            "updatedAt": "2026-01-01T00:00:00Z",
            "run": {"runId": "r1", "workflowId": "w", "status": "failed", "statusUrl": "/v1/runs/r1"},
            "projection": {"runStatus": "done", "termination": {"type": "error", "value": "boom"},
                "response": null, "error": "boom", "instanceId": "i1", "completedAt": null},
        });
        serde_json::from_value(dispatch).unwrap()
    }

    #[test]
    fn a_row_has_the_status_of_the_dispatch_and_of_its_run() {
        let text = table(&Output::json(), &[dispatch()]);
        assert!(text.contains("d1        acked   1/5     r1   failed"), "{text}");
        assert!(text.ends_with("timed out"), "{text}");
    }

    #[test]
    fn a_dispatch_is_shown_with_the_report_of_its_run() {
        let text = show(&Output::json(), &dispatch());
        for line in [
            "run status   failed",
            "reported     done",
            "termination  error: boom",
            "failed       1/5 attempts",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert_eq!(run_status(&Dispatch { run: None, ..dispatch() }), "unknown");
    }

    #[test]
    fn every_status_is_counted() {
        let counts = DispatchCounts { queued: 3, ..DispatchCounts::default() };
        let text = describe_stats(&Output::json(), &MailboxStats { counts, next_wakeup_at: None });
        assert!(text.contains("queued       3") && text.ends_with("dead_letter  0"), "{text}");
    }
}
