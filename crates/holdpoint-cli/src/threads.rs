//! `holdpoint threads`: reads threads of agents and continues them.

mod events;

use clap::Subcommand;
use clap::builder::TypedValueParser;
use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use holdpoint_api::agents::{
    InterruptThread, Message, MessageCall, SayInThread, ThreadInterrupted, ThreadRun,
};
use holdpoint_api::events::After;
use holdpoint_api::ids::{InputMode, Role};
use serde_json::Value;

use super::agents::{read_message, run_report};
use super::client::Client;
use super::dispatch_args::ThreadDispatchArgs;
use super::failure::Failure;
use super::output::{Output, age_since, cell, clean};
use super::runs::RunReport;

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint threads messages bob
  holdpoint threads events bob --follow
  holdpoint threads runs bob
  holdpoint threads say bob 'And a copy to Ann'
  holdpoint threads say bob 'Stop: do this instead' --mode interrupt_then_queue
  holdpoint threads say bob 'Remind me' --delay 2h --dedupe-key reminder
  holdpoint threads interrupt bob --keep-waiting";

const MODES: [&str; 5] = ["queue", "live_then_queue", "steer", "interrupt_then_queue", "resume_open_run"];

fn parse_mode(word: String) -> Result<InputMode, serde_json::Error> {
    serde_json::from_value(Value::String(word))
}

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Show the messages of a thread, oldest first
    Messages {
        /// Id of the thread
        #[arg(value_name = "THREAD", value_parser = NonEmptyStringValueParser::new())]
        thread: String,
        /// Only messages after this cursor
        #[arg(long, value_name = "CURSOR")]
        after: Option<String>,
        /// Maximum number of entries to show
        #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },
    /// Print the events of all runs of a thread in the order in which they were written
    #[command(after_help = events::EXAMPLES)]
    Events(events::EventArgs),
    /// List the runs of a thread, newest first
    Runs {
        /// Id of the thread
        #[arg(value_name = "THREAD", value_parser = NonEmptyStringValueParser::new())]
        thread: String,
        /// Maximum number of entries to show
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },
    /// Send a message to the open run of a thread, or start a new run with it
    Say {
        /// Id of the thread
        #[arg(value_name = "THREAD", value_parser = NonEmptyStringValueParser::new())]
        thread: String,
        /// Message; `-` reads standard input
        #[arg(value_name = "MESSAGE")]
        message: String,
        /// Agent that receives the message [default: the last agent of the thread]
        #[arg(long, value_name = "ID")]
        agent: Option<String>,
        /// Effect on an open run [default: queue]
        #[arg(long, value_name = "MODE", value_parser = PossibleValuesParser::new(MODES).try_map(parse_mode))]
        mode: Option<InputMode>,
        #[command(flatten)]
        dispatch: ThreadDispatchArgs,
        /// Watch the run until it ends
        #[arg(long)]
        watch: bool,
    },
    /// Cancel the open run of a thread and its queued messages
    Interrupt {
        /// Id of the thread
        #[arg(value_name = "THREAD", value_parser = NonEmptyStringValueParser::new())]
        thread: String,
        /// Do not cancel a run that waits for an answer
        #[arg(long)]
        keep_waiting: bool,
    },
}

pub(crate) fn run(client: &Client, output: &Output, action: Action) -> Result<(), Failure> {
    match action {
        Action::Messages { thread, after, limit } => {
            let reply = client.collect(client.threads().messages(&thread, &After { after }), limit)?;
            output.show(&reply, |page| {
                page.messages.iter().map(|message| line(output, message)).collect::<Vec<_>>().join("\n")
            });
            output.more(&reply, limit);
        }
        Action::Events(args) => return events::run(client, output, &args),
        Action::Runs { thread, limit } => {
            let reply = client.collect(client.threads().runs(&thread), limit)?;
            output.show(&reply, |page| list_runs(output, &page.runs));
            output.more(&reply, limit);
        }
        Action::Say { thread, message, agent, mode, dispatch, watch } => {
            let message = Some(read_message(message)?);
            let dispatch = dispatch.options();
            let body = SayInThread { agent_id: agent, message, mode, dispatch, ..SayInThread::default() };
            let reply = client.send(client.threads().send_message(&thread, &body))?;
            return RunReport { watch, ..run_report(&reply) }.show(client, output, &reply);
        }
        Action::Interrupt { thread, keep_waiting } => {
            let body = InterruptThread { keep_waiting: Some(keep_waiting) };
            let reply = client.send(client.threads().interrupt(&thread, &body))?;
            output.show(&reply, |done| describe_interrupted(&clean(&thread), done));
        }
    }
    Ok(())
}

/// Returns a message on one line, with its author and its tool calls.
fn line(output: &Output, message: &Message) -> String {
    let author = match (message.role, &message.by) {
        (Role::User, Some(by)) => format!("user {}", clean(by)),
        (role, _) => role.as_str().to_owned(),
    };
    let content = match &message.content {
        Value::Null => None,
        Value::String(text) => Some(clean(text)).filter(|text| !text.is_empty()),
        other => Some(clean(&other.to_string())),
    };
    let call = |call: &MessageCall<'_>| {
        format!("[{} {} {}]", clean(&call.id), clean(&call.name), clean(&call.arguments.to_string()))
    };
    let parts: Vec<String> = content.into_iter().chain(message.calls.iter().map(call)).collect();
    format!("{author}: {}", output.fit(&parts.join(" "), 400))
}

fn list_runs(output: &Output, runs: &[ThreadRun]) -> String {
    let row = |run: &ThreadRun| {
        let status = cell(run.status);
        vec![cell(&run.run_id), cell(&run.agent_id), status, age_since(run.created_at)]
    };
    let rows: Vec<_> = runs.iter().map(row).collect();
    output.table(&["RUN", "AGENT", "STATUS", "AGE"], &rows, "no runs in this thread")
}

fn describe_interrupted(thread: &str, done: &ThreadInterrupted) -> String {
    if done.nothing_to_interrupt {
        return format!("thread {thread} has no open run");
    }
    let cancelled = match &done.cancelled_run_id {
        Some(run) => format!("run {} was cancelled", clean(run.as_str())),
        None => "no run was cancelled".to_owned(),
    };
    format!("interrupted thread {thread}: {cancelled}, {} dispatches superseded", done.superseded_count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_message_is_one_line_with_its_author() {
        let shown = |members: Value| {
            let mut message = json!({
                "id": "m1", "runId": "r1", "seq": 1, "at": "2026-01-01T00:00:00Z", "cursor": "c",
            });
            message.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
            line(&Output::json(), &serde_json::from_value(message).unwrap())
        };
        assert_eq!(shown(json!({"role": "user", "by": "ann", "content": "Hello"})), "user ann: Hello");
        let calls = json!([{"id": "c1", "name": "send", "arguments": {"to": "bob"}}]);
        assert_eq!(
            shown(json!({"role": "assistant", "content": "Yes.", "calls": calls})),
            "assistant: Yes. [c1 send {\"to\":\"bob\"}]"
        );
        assert_eq!(shown(json!({"role": "tool", "content": {"ok": true}})), "tool: {\"ok\":true}");
    }
}
