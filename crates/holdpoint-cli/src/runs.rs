//! `holdpoint runs`: starting runs, looking at them and taking hold of them.

mod control;
mod decide;
mod fork;
mod interrupts;
mod list;
mod show;
mod start;

use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use holdpoint_core::TIMED_OUT;
use serde_json::Value;

use super::asked::answer_words;
use super::client::{Client, encode};
use super::failure::Failure;
use super::output::{Output, cell, clean};
use super::watch;

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint runs start release --input version=1.4.0 --input dryRun=true
  holdpoint runs start refund --inputs @order.json --tag urgent --watch
  holdpoint runs list --status waiting-approval --since 2d
  holdpoint runs show latest
  holdpoint runs pause RUN --reason 'until Monday' && holdpoint runs resume RUN
  holdpoint runs cancel RUN RUN RUN --reason 'wrong order'
  holdpoint runs events RUN && holdpoint runs fork RUN --mode branch --from 7
  holdpoint runs bundle RUN > bundle.json";

/// How long to look whether a run has settled, so that the last word is seldom `running`.
const SETTLE_TRIES: u32 = 10;
const SETTLE_PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Start a run of a workflow
    #[command(after_help = start::EXAMPLES)]
    Start(Box<start::Start>),
    /// List runs, the newest first
    #[command(after_help = list::EXAMPLES)]
    List(list::List),
    /// Show one run: where it stands, what it waits for, why it failed, which runs belong to it
    Show(Named),
    /// Print the events of a run as they happen, until it ends
    #[command(after_help = watch::EXAMPLES)]
    Watch {
        #[command(flatten)]
        run: Named,
        /// Which events: updates, messages, debug (all), several of these with commas between; or values, the whole
        /// run after each change
        #[arg(long, value_name = "MODE", default_value = "updates")]
        mode: String,
    },
    /// Print the events of a run so far, all of them, with their numbers
    Events {
        #[command(flatten)]
        run: Named,
        /// Only those of a mode, see `runs watch`
        #[arg(long, value_name = "MODE")]
        mode: Option<String>,
    },
    /// Show what a run has asked: votes, questions of approvers, decisions
    Interrupts(Named),
    /// Let a run stand still: nothing new begins, answers and deadlines are still taken
    Pause {
        #[command(flatten)]
        run: Named,
        /// Why, for the record
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Whether a node at work may finish, or is entered again after the pause [default: drain-current-node]
        #[arg(long, value_name = "POLICY", value_parser = ["immediate", "drain-current-node"])]
        drain: Option<String>,
    },
    /// Let a paused run go on
    Resume(Named),
    /// Cancel runs; what they wait for and the runs they started are cancelled with them
    #[command(after_help = control::CANCEL_EXAMPLES)]
    Cancel {
        /// The runs, or `latest` for the newest
        #[arg(required = true, value_name = "RUN", value_parser = NonEmptyStringValueParser::new())]
        runs: Vec<String>,
        /// Why, for the record
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Decide about a call of a tool that an agent wants to make
    #[command(after_help = decide::EXAMPLES)]
    Decide(decide::Decide),
    /// Start a run from the record of another: the same once more, or another way from some point on
    #[command(after_help = fork::EXAMPLES)]
    Fork(fork::Fork),
    /// Print everything about a run in one JSON document, for whoever helps you; what was said in it is hidden
    Bundle(Named),
    /// Print what a node with an artifact type has made, as JSON
    Artifact {
        #[command(flatten)]
        run: Named,
        /// The artifact, or the node that made it; `runs events` shows both
        #[arg(value_name = "ARTIFACT", value_parser = NonEmptyStringValueParser::new())]
        artifact: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Named {
    /// The run, or `latest` for the newest
    #[arg(value_name = "RUN", value_parser = NonEmptyStringValueParser::new())]
    run: String,
}

impl Named {
    fn id(&self, client: &Client) -> Result<String, Failure> {
        client.run_id(&self.run)
    }
}

pub(crate) fn run(client: &Client, output: &Output, action: Action) -> Result<(), Failure> {
    match action {
        Action::Start(asked) => start::run(client, output, *asked),
        Action::List(asked) => list::run(client, output, asked),
        Action::Show(named) => {
            let reply = client.get(&path(&named.id(client)?))?;
            output.show(&reply, |snapshot| show::text(output, snapshot));
            Ok(())
        }
        Action::Watch { run, mode } => watch::run(client, output, &run.id(client)?, &mode),
        Action::Events { run, mode } => events(client, output, &run.id(client)?, mode.as_deref()),
        Action::Interrupts(named) => interrupts::run(client, output, &named.id(client)?),
        Action::Pause { run, reason, drain } => {
            control::pause(client, output, &run.id(client)?, reason, drain)
        }
        Action::Resume(named) => control::resume(client, output, &named.id(client)?),
        Action::Cancel { runs, reason } => control::cancel(client, output, &runs, reason),
        Action::Decide(asked) => decide::run(client, output, asked),
        Action::Fork(asked) => fork::run(client, output, asked),
        Action::Bundle(named) => {
            document(client, output, &format!("{}/debug-bundle", path(&named.id(client)?)))
        }
        Action::Artifact { run, artifact } => made(client, output, &run.id(client)?, &artifact),
    }
}

pub(crate) fn path(run: &str) -> String {
    format!("/v1/runs/{}", encode(run))
}

fn document(client: &Client, output: &Output, path: &str) -> Result<(), Failure> {
    let reply = client.get(path)?;
    output.show(&reply, |document| format!("{document:#}"));
    Ok(())
}

fn made(client: &Client, output: &Output, run: &str, artifact: &str) -> Result<(), Failure> {
    let at = |id: &str| format!("{}/artifacts/{}", path(run), encode(id));
    let plain = document(client, output, &at(artifact));
    match plain {
        // A node has its artifact under the id of its run.
        Err(failure) if failure.status() == Some(404) => {
            document(client, output, &at(&format!("{run}:{artifact}"))).map_err(|second| {
                match second.status() {
                    Some(404) => failure,
                    _ => second,
                }
            })
        }
        other => other,
    }
}

fn events(client: &Client, output: &Output, run: &str, mode: Option<&str>) -> Result<(), Failure> {
    let query = mode.map(|mode| format!("?streamMode={}", encode(mode))).unwrap_or_default();
    let reply = client.get(&format!("{}/events{query}", path(run)))?;
    output.show(&reply, |page| {
        let events = page["events"].as_array().into_iter().flatten();
        let line = |event: &Value| match serde_json::from_value(event.clone()) {
            Ok(event) => watch::event_line(output, &event),
            Err(_) => cell(event),
        };
        events.map(line).collect::<Vec<_>>().join("\n")
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
        (Value::String(node), _) if run["status"] != "paused" => format!("{status} at {}", clean(node)),
        (_, Value::Null) => status,
        (_, error) => format!("{status} ({})", describe_failure(error)),
    }
}

/// Describes the error of a run in one line, with `timed_out` in place of the code if a deadline passed.
fn describe_failure(error: &Value) -> String {
    let timed_out = error["details"]["reason"] == "timeout";
    let code = if timed_out { TIMED_OUT.to_owned() } else { cell(&error["code"]) };
    format!("{code}: {}", cell(&error["message"]))
}

/// A line for a run that waits for somebody.
pub(crate) fn how_to_answer(output: &Output, run: &Value) -> String {
    match run["interrupt"]["kind"].as_str() {
        Some(_) => format!("answer it in the inbox or with: {}\n", output.command(&answer_words(run))),
        None => String::new(),
    }
}

/// Where a new run stands and what to do next.
fn begun(client: &Client, output: &Output, what: &str, run: &str, created: &Value) -> String {
    let now = settled(client, run).unwrap_or_else(|| created.clone());
    let next = match now["status"].as_str() {
        Some("completed" | "failed" | "cancelled") => {
            format!("see it with: {}", output.command(&format!("runs show {run}")))
        }
        _ => {
            let follow = format!("follow it with: {}", output.command(&format!("runs watch {run}")));
            format!("{}{follow}", how_to_answer(output, &now))
        }
    };
    format!("{what} run {run}: {}\n{next}", standing(output, &now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_run_stands_at_its_node_or_has_failed_for_a_reason() {
        let output = Output::new(true);
        let waiting = json!({"status": "waiting-input", "interrupt": {"nodeId": "ask"}});
        assert_eq!(standing(&output, &waiting), "waiting-input at ask");
        let paused = json!({"status": "paused", "interrupt": {"nodeId": "ask"}});
        assert_eq!(standing(&output, &paused), "paused");
        let failed = json!({"status": "failed", "error": {"code": "boom", "message": "why"}});
        assert_eq!(standing(&output, &failed), "failed (boom: why)");
        assert_eq!(standing(&output, &json!({"status": "running"})), "running");
    }
}
