//! `holdpoint threads events`: what happened in a thread, and what happens in it from now on.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use serde_json::Value;

use super::super::client::{Client, encode};
use super::super::failure::Failure;
use super::super::output::{Output, cell, clean};
use super::super::watch::{PAUSES_MS, Parser, event_line};
use super::path;

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint threads events bob                    # everything so far
  holdpoint threads events bob --follow           # and what comes, also of runs that begin later
  holdpoint threads events bob --json | jq -r '.events[-1].cursor'
  holdpoint threads events bob --after CURSOR --follow --json | your-program

A thread is where runs of an agent talk, one after another; a run of a workflow is alone in a
thread with its own id. Events come in the order in which they were written, each below its run and
with its number there.

With --json every event has a `cursor`: --after goes on behind it, also after a restart of the
server, with nothing missing and nothing twice. With --follow, that is one event a line. It never
ends by itself, because another run may always begin. A lost connection is made again where it was;
Ctrl-C ends the watching, nothing else.";

#[derive(Debug, Args)]
pub(crate) struct Events {
    /// The thread, or a run that is alone in one
    #[arg(value_name = "THREAD", value_parser = NonEmptyStringValueParser::new())]
    thread: String,
    /// Go on with what comes, until Ctrl-C
    #[arg(long, short)]
    follow: bool,
    /// Only what came behind this cursor
    #[arg(long, value_name = "CURSOR", value_parser = NonEmptyStringValueParser::new())]
    after: Option<String>,
    /// Show at most this many
    #[arg(long, value_name = "N", default_value_t = 1000, conflicts_with = "follow",
        value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

pub(super) fn run(client: &Client, output: &Output, asked: &Events) -> Result<(), Failure> {
    let path = format!("{}/events", path(&asked.thread));
    if asked.follow {
        return follow(client, output, &path, asked);
    }
    // The cursor of a page behind the first takes its place.
    let after = asked.after.as_deref().map(|after| format!("after={}&", encode(after))).unwrap_or_default();
    let reply = client.list(&format!("{path}?{after}"), "events", asked.limit)?;
    output.show(&reply, |page| {
        let mut printer = Printer::default();
        let events = page["events"].as_array().into_iter().flatten();
        events.map(|event| printer.lines(output, event)).collect::<Vec<_>>().join("\n")
    });
    output.more(&reply, asked.limit);
    Ok(())
}

fn follow(client: &Client, output: &Output, path: &str, asked: &Events) -> Result<(), Failure> {
    let mut following = Following { output, last: asked.after.clone(), printer: Printer::default() };
    // Said as the user has said it, so that a wrong one is told by that name.
    let first = match &asked.after {
        Some(after) => format!("{path}?after={}", encode(after)),
        None => path.to_owned(),
    };
    following.read(client.stream(&first, None)?);
    let mut pauses = PAUSES_MS.iter();
    loop {
        let Some(pause) = pauses.next() else {
            let thread = clean(&asked.thread);
            let after = following.last.map(|last| format!(" --after {}", clean(&last))).unwrap_or_default();
            let later = output.command(&format!("threads events {thread} --follow{after}"));
            return Err(Failure::broken("the connection was lost and could not be made again")
                .hint(format!("the thread goes on without us; later: {later}")));
        };
        eprintln!("connection lost; trying again in {} s", *pause as f64 / 1000.0);
        std::thread::sleep(Duration::from_millis(*pause));
        let seen = following.last.clone();
        match client.stream(path, seen.as_deref()) {
            Ok(stream) => following.read(stream),
            Err(failure) if failure.is_passing() => eprintln!("{}", failure.message()),
            Err(failure) => return Err(failure),
        }
        // News since the last try shows that the server is well again.
        if following.last != seen {
            pauses = PAUSES_MS.iter();
        }
    }
}

struct Following<'a> {
    output: &'a Output,
    /// The cursor of the last event.
    last: Option<String>,
    printer: Printer,
}

impl Following<'_> {
    /// Until the connection ends.
    fn read(&mut self, stream: impl std::io::Read) {
        let mut lines = BufReader::new(stream);
        let (mut parser, mut line) = (Parser::default(), Vec::new());
        while matches!(lines.read_until(b'\n', &mut line), Ok(1..)) {
            let text = String::from_utf8_lossy(&line);
            if let Some(frame) = parser.line(text.trim_end_matches(['\r', '\n'])) {
                let event: Value = serde_json::from_str(&frame.data).unwrap_or(Value::Null);
                let shown =
                    if self.output.json { frame.data } else { self.printer.lines(self.output, &event) };
                self.output.line(&shown);
                self.last = frame.id.or(self.last.take());
            }
            line.clear();
        }
    }
}

/// Names a run above its events.
#[derive(Default)]
struct Printer {
    run: Option<String>,
}

impl Printer {
    fn lines(&mut self, output: &Output, event: &Value) -> String {
        let run = cell(&event["runId"]);
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
        let output = Output::new(true);
        let event =
            |run: &str, sequence: u64| json!({"runId": run, "sequence": sequence, "type": "run.started"});
        let mut printer = Printer::default();
        assert!(printer.lines(&output, &event("r1", 0)).starts_with("run r1\n   0  "));
        assert!(printer.lines(&output, &event("r1", 1)).starts_with("   1  "));
        assert!(printer.lines(&output, &event("r2", 0)).starts_with("run r2\n   0  "));
    }

    #[test]
    fn the_cursor_of_the_last_event_is_kept_for_the_next_connection() {
        let output = Output::new(true);
        let mut following = Following { output: &output, last: None, printer: Printer::default() };
        following.read(&b":keepalive\n\nid: r.4\nevent: x\ndata: {}\n\nid: r.5\ndata: cut off"[..]);
        assert_eq!(following.last.as_deref(), Some("r.4"));
    }
}
