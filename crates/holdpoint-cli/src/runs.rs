//! `holdpoint runs`: starts, shows and controls runs.

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
use holdpoint_api::artifacts::Artifact;
use holdpoint_api::events::StreamEvents;
use holdpoint_api::ids::{RunId, Status};
use holdpoint_api::runs::RunError;
use holdpoint_api::snapshot::RunSnapshot;
use holdpoint_client::Reply;
use holdpoint_core::TIMED_OUT;

use super::client::Client;
use super::failure::Failure;
use super::open_interrupt::answer_arguments;
use super::output::{Output, cell, clean, pretty};
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

/// The maximum number of reads of a run that is pending or running. Commands wait this long for its next status.
const SETTLE_TRIES: u32 = 10;
const SETTLE_DELAY: Duration = Duration::from_millis(50);

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Start a run of a workflow
    #[command(after_help = start::EXAMPLES)]
    Start(Box<start::StartArgs>),
    /// List runs, newest first
    #[command(after_help = list::EXAMPLES)]
    List(list::ListArgs),
    /// Show a run: its status, open interrupt, error and related runs
    Show(RunArg),
    /// Print the events of a run as they happen, until it ends
    #[command(after_help = watch::EXAMPLES)]
    Watch {
        #[command(flatten)]
        run: RunArg,
        /// Events to print: updates, messages or debug (all), separated by commas; values prints the whole run after
        /// each change
        #[arg(long, value_name = "MODE", default_value = "updates")]
        mode: String,
    },
    /// Print the recorded events of a run with their sequence numbers
    Events {
        #[command(flatten)]
        run: RunArg,
        /// Only events of this mode; see `runs watch`
        #[arg(long, value_name = "MODE")]
        mode: Option<String>,
    },
    /// Show the interrupts of a run with their votes, side questions and decisions
    Interrupts(RunArg),
    /// Pause a run: no node starts; answers and deadlines still count
    Pause {
        #[command(flatten)]
        run: RunArg,
        /// Reason; it is recorded
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// immediate: running nodes are restarted after the pause; drain-current-node: the run pauses after they end
        /// [default: drain-current-node]
        #[arg(long, value_name = "POLICY", value_parser = ["immediate", "drain-current-node"])]
        drain: Option<String>,
    },
    /// Resume a paused run
    Resume(RunArg),
    /// Cancel runs, their open interrupts and their child runs
    #[command(after_help = control::CANCEL_EXAMPLES)]
    Cancel {
        /// Ids of the runs; `latest` is the newest run
        #[arg(required = true, value_name = "RUN", value_parser = NonEmptyStringValueParser::new())]
        runs: Vec<String>,
        /// Reason; it is recorded
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Decide a tool call of an agent
    #[command(after_help = decide::EXAMPLES)]
    Decide(decide::DecideArgs),
    /// Fork a run: replay its record, or branch from one of its events
    #[command(after_help = fork::EXAMPLES)]
    Fork(fork::ForkArgs),
    /// Print the debug bundle of a run as JSON, with its data masked
    Bundle(RunArg),
    /// Print an artifact of a run as JSON
    Artifact {
        #[command(flatten)]
        run: RunArg,
        /// Id of the artifact or of its node; `runs events` shows both
        #[arg(value_name = "ARTIFACT", value_parser = NonEmptyStringValueParser::new())]
        artifact: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunArg {
    /// Id of the run, or `latest` for the newest run
    #[arg(value_name = "RUN", value_parser = NonEmptyStringValueParser::new())]
    run: String,
}

impl RunArg {
    pub(crate) fn id(&self, client: &Client) -> Result<String, Failure> {
        client.run_id(&self.run)
    }
}

pub(crate) fn run(client: &Client, output: &Output, action: Action) -> Result<(), Failure> {
    match action {
        Action::Start(args) => start::run(client, output, *args),
        Action::List(args) => list::run(client, output, args),
        Action::Show(run) => {
            let reply = client.send(client.runs().get(&run.id(client)?))?;
            output.show(&reply, |snapshot| show::text(output, snapshot));
            Ok(())
        }
        Action::Watch { run, mode } => watch::run(client, output, &run.id(client)?, &mode),
        Action::Events { run, mode } => {
            let query = StreamEvents { stream_mode: mode, buffer_ms: None };
            let reply = client.send(client.runs().list_events(&run.id(client)?, &query))?;
            output.show(&reply, |page| {
                let lines = page.events.iter().map(|event| watch::event_line(output, event));
                lines.collect::<Vec<_>>().join("\n")
            });
            Ok(())
        }
        Action::Interrupts(run) => interrupts::run(client, output, &run.id(client)?),
        Action::Pause { run, reason, drain } => {
            control::pause(client, output, &run.id(client)?, reason, drain.as_deref())
        }
        Action::Resume(run) => control::resume(client, output, &run.id(client)?),
        Action::Cancel { runs, reason } => control::cancel(client, output, &runs, reason),
        Action::Decide(args) => decide::run(client, output, args),
        Action::Fork(args) => fork::run(client, output, args),
        Action::Bundle(run) => {
            let request = client.runs().debug_bundle(&run.id(client)?, &Default::default());
            output.show(&client.send(request)?, |bundle| pretty(bundle));
            Ok(())
        }
        Action::Artifact { run, artifact } => {
            let reply = find_artifact(client, &run.id(client)?, &artifact)?;
            output.show(&reply, |artifact| pretty(artifact));
            Ok(())
        }
    }
}

/// Finds an artifact by its id or by its node. The id consists of the ids of the run and the node.
fn find_artifact(client: &Client, run: &str, artifact: &str) -> Result<Reply<Artifact<'static>>, Failure> {
    let find = |id: &str| client.send(client.runs().artifact(run, id));
    find(artifact).or_else(|failure| match failure.status() {
        Some(404) => find(&format!("{run}:{artifact}"))
            .map_err(|second| if second.status() == Some(404) { failure } else { second }),
        _ => Err(failure),
    })
}

/// Returns the run when it waits or has ended, at the latest after half a second. Returns None if this key may not read
/// it.
pub(crate) fn wait_until_settled(client: &Client, run: &str) -> Option<RunSnapshot<'static>> {
    let mut tries = 0;
    loop {
        let snapshot = client.send(client.runs().get(run)).ok()?.value;
        tries += 1;
        if !matches!(snapshot.status, Status::Pending | Status::Running) || tries == SETTLE_TRIES {
            return Some(snapshot);
        }
        std::thread::sleep(SETTLE_DELAY);
    }
}

/// Describes the state of a run: its status with the node of its interrupt or its error.
pub(crate) fn describe_state(output: &Output, run: &RunSnapshot<'_>) -> String {
    let status = output.status(run.status.as_str());
    match (&run.interrupt, &run.error) {
        (Some(interrupt), _) if run.status != Status::Paused => {
            format!("{status} at {}", cell(&interrupt.node_id))
        }
        (_, Some(error)) => format!("{status} ({})", describe_failure(error)),
        (_, None) => status,
    }
}

/// Describes the state of a run. Uses the status of an earlier response if this key may not read the run.
fn describe_state_or(output: &Output, run: Option<&RunSnapshot<'_>>, earlier: Status) -> String {
    run.map_or_else(|| output.status(earlier.as_str()), |run| describe_state(output, run))
}

/// Describes the error of a run in one line. If a deadline passed, the code is `timed_out`.
fn describe_failure(error: &RunError<'_>) -> String {
    let reason = error.details.as_ref().and_then(|details| details.get("reason"));
    let code = if reason.is_some_and(|reason| reason == "timeout") { TIMED_OUT } else { &error.code };
    format!("{}: {}", cell(code), cell(&error.message))
}

/// Returns a line with the command that answers the open interrupt of a run; empty if it has none.
pub(crate) fn how_to_answer(output: &Output, run: &RunSnapshot<'_>) -> String {
    let line = |words: String| format!("answer it in the inbox or with: {}\n", output.command(&words));
    answer_arguments(run).map(line).unwrap_or_default()
}

/// The report of a command that started a run or sent a message to one.
pub(crate) struct RunReport<'a> {
    pub(crate) run: &'a RunId,
    /// The status in the response, for keys that may not read the run.
    pub(crate) status: Status,
    /// The first line, such as `started run r1`.
    pub(crate) heading: String,
    /// The thread of the run. The report suggests the command that reads its messages.
    pub(crate) thread: Option<&'a str>,
    pub(crate) watch: bool,
}

impl RunReport<'_> {
    /// Prints the state of the run and the next command, or watches the run to its end.
    pub(crate) fn show<T>(&self, client: &Client, output: &Output, reply: &Reply<T>) -> Result<(), Failure> {
        let run = self.run.as_str();
        let replayed = if reply.replayed { " (earlier, with the same idempotency key)" } else { "" };
        let heading = format!("{}{replayed}", self.heading);
        if self.watch {
            output.show(reply, |_| heading);
            return watch::run(client, output, run, watch::DEFAULT);
        }
        output.show(reply, |_| {
            let now = wait_until_settled(client, run);
            let has_ended = now.as_ref().is_some_and(|now| now.status.is_terminal());
            let (verb, command) = match self.thread {
                Some(thread) => ("read", format!("threads messages {}", clean(thread))),
                None if has_ended => ("see", format!("runs show {}", clean(run))),
                None => ("follow", format!("runs watch {}", clean(run))),
            };
            let answer = now.as_ref().map(|now| how_to_answer(output, now)).unwrap_or_default();
            let state = describe_state_or(output, now.as_ref(), self.status);
            format!("{heading}: {state}\n{answer}{verb} it with: {}", output.command(&command))
        });
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// Returns a run that waits for an approval at the node `gate`, with other members in place of some.
    pub(crate) fn snapshot(members: &Value) -> RunSnapshot<'static> {
        let mut run = json!({
            "runId": "r1", "workflowId": "release", "workflowVersion": "2", "status": "waiting-approval",
            "owner": {"tenant": "default", "principal": "admin"}, "startedAt": "2026-05-01T10:00:00Z",
            "nodeStates": {"gate": {"status": "suspended", "typeId": "t"}}, "variables": {}, "tags": [],
            "eventLogSchemaVersion": 1,
        });
        run.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
        serde_json::from_value(run).expect("a snapshot")
    }

    /// Returns an open interrupt at the node `gate`.
    pub(crate) fn interrupt(kind: &str, data: &Value) -> Value {
        json!({
            "interruptId": "r1:i1", "nodeId": "gate", "kind": kind, "key": "k", "data": data,
            "requestedAt": "2026-05-01T10:00:00Z",
        })
    }

    #[test]
    fn the_state_names_the_node_of_the_interrupt_or_the_error() {
        let output = Output::json();
        let of = |members: Value| describe_state(&output, &snapshot(&members));
        let interrupt = interrupt("approval", &json!({}));
        assert_eq!(of(json!({"status": "waiting-input", "interrupt": interrupt})), "waiting-input at gate");
        assert_eq!(of(json!({"status": "paused", "interrupt": interrupt})), "paused");
        let error = json!({"code": "boom", "message": "why"});
        assert_eq!(of(json!({"status": "failed", "error": error})), "failed (boom: why)");
        assert_eq!(of(json!({"status": "running"})), "running");
    }
}
