//! `holdpoint threads events`: prints the events of a thread, and follows new ones.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use holdpoint_api::events::{After, Event, ThreadEvent};

use super::super::client::Client;
use super::super::failure::Failure;
use super::super::output::{Output, clean};
use super::super::watch::{event_line, report_reconnect};

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint threads events bob                    # all recorded events
  holdpoint threads events bob --follow           # also new events, including those of later runs
  holdpoint threads events bob --json | jq -r '.events[-1].cursor'
  holdpoint threads events bob --after CURSOR --follow --json | your-program

The runs of an agent in one thread follow one another; a run of a workflow has a thread with its own
id. Events are printed in the order in which they were written, below the id of their run and with
their sequence number.

With --json every event has a `cursor`. --after continues after a cursor, also after a restart of the
server, without gaps or repetitions. With --follow --json, each line has one event. --follow does not
end by itself, because another run may start. After a lost connection, the command reconnects and
continues. Ctrl-C ends the command, not the runs.";

#[derive(Debug, Args)]
pub(crate) struct EventArgs {
    /// Id of the thread, or of a run that has its own thread
    #[arg(value_name = "THREAD", value_parser = NonEmptyStringValueParser::new())]
    thread: String,
    /// Continue with new events until Ctrl-C
    #[arg(long, short)]
    follow: bool,
    /// Only events after this cursor
    #[arg(long, value_name = "CURSOR", value_parser = NonEmptyStringValueParser::new())]
    after: Option<String>,
    /// Maximum number of entries to show
    #[arg(long, value_name = "N", default_value_t = 1000, conflicts_with = "follow",
        value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

pub(super) fn run(client: &Client, output: &Output, args: &EventArgs) -> Result<(), Failure> {
    let query = After { after: args.after.clone() };
    if args.follow {
        return follow(client, output, &query, &args.thread);
    }
    let reply = client.collect(client.threads().list_events(&args.thread, &query), args.limit)?;
    output.show(&reply, |page| {
        let mut printer = Printer::default();
        page.events.iter().map(|event| printer.lines(output, &event.event)).collect::<Vec<_>>().join("\n")
    });
    output.more(&reply, args.limit);
    Ok(())
}

fn follow(client: &Client, output: &Output, query: &After, thread: &str) -> Result<(), Failure> {
    let mut events = client.threads().watch(thread, query).on_reconnect(report_reconnect);
    let mut printer = Printer::default();
    loop {
        let read = client.next(&mut events).map_err(|failure| match failure.is_transient() {
            true => failure.hint(how_to_continue(output, thread, events.last_id())),
            false => failure,
        });
        let Some(frame) = read? else { return Ok(()) };
        match frame.parse::<ThreadEvent>() {
            Ok(event) if !output.json => output.line(&printer.lines(output, &event.event)),
            _ => output.line(&frame.data),
        }
    }
}

fn how_to_continue(output: &Output, thread: &str, last: Option<&str>) -> String {
    let after = last.map(|last| format!(" --after {}", clean(last))).unwrap_or_default();
    let later = output.command(&format!("threads events {} --follow{after}", clean(thread)));
    format!("the thread continues; follow it again with: {later}")
}

/// Formats events, with the id of their run above the first one.
#[derive(Default)]
struct Printer {
    run: Option<String>,
}

impl Printer {
    fn lines(&mut self, output: &Output, event: &Event) -> String {
        let run = clean(event.run_id.as_str());
        let line = event_line(output, event);
        if self.run.as_ref() == Some(&run) {
            return line;
        }
        let heading = format!("run {run}\n{line}");
        self.run = Some(run);
        heading
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_is_named_once_above_its_events() {
        let output = Output::json();
        let event = |run: &str, sequence: u64| -> Event {
            let event = json!({
                "eventId": "e", "runId": run, "sequence": sequence, "type": "run.started", "payload": {},
                "timestamp": "2026-05-01T10:00:00Z",
            });
            serde_json::from_value(event).unwrap()
        };
        let mut printer = Printer::default();
        assert!(printer.lines(&output, &event("r1", 0)).starts_with("run r1\n   0  "));
        assert!(printer.lines(&output, &event("r1", 1)).starts_with("   1  "));
        assert!(printer.lines(&output, &event("r2", 0)).starts_with("run r2\n   0  "));
    }
}
