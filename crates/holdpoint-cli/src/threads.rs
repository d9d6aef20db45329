//! `holdpoint threads`: what was said to agents, and saying more.

mod events;

use clap::Subcommand;
use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use serde_json::{Map, Value, json};

use super::agents::{text, told};
use super::client::{Client, encode};
use super::failure::Failure;
use super::output::{Output, age_cell, cell, clean};

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint threads messages bob
  holdpoint threads events bob --follow
  holdpoint threads runs bob
  holdpoint threads say bob 'And a copy to Ann'
  holdpoint threads say bob 'Stop: do this instead' --mode interrupt_then_queue
  holdpoint threads interrupt bob --keep-waiting";

const MODES: [&str; 5] = ["queue", "live_then_queue", "steer", "interrupt_then_queue", "resume_open_run"];

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Show what was said in a thread, the oldest first
    Messages {
        #[arg(value_name = "THREAD", value_parser = NonEmptyStringValueParser::new())]
        thread: String,
        /// Only what came behind this cursor
        #[arg(long, value_name = "CURSOR")]
        after: Option<String>,
        /// Show at most this many
        #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },
    /// Print the events of all runs of a thread, in the order in which they were written
    #[command(after_help = events::EXAMPLES)]
    Events(events::Events),
    /// List the runs of a thread, the newest first
    Runs {
        #[arg(value_name = "THREAD", value_parser = NonEmptyStringValueParser::new())]
        thread: String,
        /// Show at most this many
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },
    /// Say something in a thread: to the run that is open there, or in a new one
    Say {
        #[arg(value_name = "THREAD", value_parser = NonEmptyStringValueParser::new())]
        thread: String,
        /// What is said; `-` reads standard input
        #[arg(value_name = "MESSAGE")]
        message: String,
        /// Who is spoken to [default: whoever was last]
        #[arg(long, value_name = "ID")]
        agent: Option<String>,
        /// What becomes of a run that is open [default: queue]
        #[arg(long, value_name = "MODE", value_parser = PossibleValuesParser::new(MODES))]
        mode: Option<String>,
        /// Then watch the run to its end
        #[arg(long)]
        watch: bool,
    },
    /// End what a thread is at
    Interrupt {
        #[arg(value_name = "THREAD", value_parser = NonEmptyStringValueParser::new())]
        thread: String,
        /// Leave a run that waits for somebody as it is
        #[arg(long)]
        keep_waiting: bool,
    },
}

pub(crate) fn run(client: &Client, output: &Output, action: Action) -> Result<(), Failure> {
    match action {
        Action::Messages { thread, after, limit } => {
            messages(client, output, &thread, after.as_deref(), limit)
        }
        Action::Events(asked) => events::run(client, output, &asked),
        Action::Runs { thread, limit } => {
            let reply = client.list(&format!("{}/runs?", path(&thread)), "runs", limit)?;
            output.show(&reply, |page| runs(output, page));
            output.more_untyped(&reply, limit);
            Ok(())
        }
        Action::Say { thread, message, agent, mode, watch } => {
            let mut body = Map::from_iter([("message".to_string(), json!(text(message)?))]);
            body.extend(agent.map(|agent| ("agentId".to_string(), json!(agent))));
            body.extend(mode.map(|mode| ("mode".to_string(), json!(mode))));
            let reply = client.post(&format!("{}/messages", path(&thread)), &Value::Object(body))?;
            told(client, output, &reply, watch)
        }
        Action::Interrupt { thread, keep_waiting } => {
            let body = json!({"keepWaiting": keep_waiting});
            let reply = client.post(&format!("{}/interrupt", path(&thread)), &body)?;
            output.show(&reply, |done| interrupted(&thread, done));
            Ok(())
        }
    }
}

fn messages(
    client: &Client,
    output: &Output,
    thread: &str,
    after: Option<&str>,
    limit: u32,
) -> Result<(), Failure> {
    // The cursor of a page behind the first takes its place.
    let after = after.map(|after| format!("after={}&", encode(after))).unwrap_or_default();
    let reply = client.list(&format!("{}/messages?{after}", path(thread)), "messages", limit)?;
    output.show(&reply, |page| {
        let said = page["messages"].as_array().into_iter().flatten();
        said.map(|message| line(output, message)).collect::<Vec<_>>().join("\n")
    });
    output.more_untyped(&reply, limit);
    Ok(())
}

/// Who said what; of calls, which tool is wanted.
fn line(output: &Output, message: &Value) -> String {
    let who = match (message["role"].as_str(), message["by"].as_str()) {
        (Some("user"), Some(by)) => format!("user {}", clean(by)),
        (Some(role), _) => role.to_string(),
        (None, _) => "-".to_string(),
    };
    let mut said = match &message["content"] {
        Value::Null => String::new(),
        Value::String(text) => clean(text),
        other => clean(&other.to_string()),
    };
    for call in message["calls"].as_array().into_iter().flatten() {
        said.push_str(&format!(
            "{}[{} {} {}]",
            if said.is_empty() { "" } else { " " },
            cell(&call["id"]),
            cell(&call["name"]),
            clean(&call["arguments"].to_string()),
        ));
    }
    format!("{who}: {}", output.fit(&said, 400))
}

fn runs(output: &Output, page: &Value) -> String {
    let row = |run: &Value| {
        vec![cell(&run["runId"]), cell(&run["agentId"]), cell(&run["status"]), age_cell(&run["createdAt"])]
    };
    let rows: Vec<_> = page["runs"].as_array().into_iter().flatten().map(row).collect();
    output.table(&["RUN", "AGENT", "STATUS", "AGE"], &rows, "no runs in this thread")
}

fn interrupted(thread: &str, done: &Value) -> String {
    if done["nothingToInterrupt"] == true {
        return format!("nothing was to be interrupted in thread {}", clean(thread));
    }
    let cancelled = match &done["cancelledRunId"] {
        Value::Null => "no run was cancelled".to_string(),
        run => format!("run {} was cancelled", cell(run)),
    };
    format!(
        "interrupted thread {}: {cancelled}, {} dispatches superseded",
        clean(thread),
        cell(&done["supersededCount"])
    )
}

fn path(thread: &str) -> String {
    format!("/v1/threads/{}", encode(thread))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_with_who_said_it() {
        let output = Output::new(true);
        let said = |message: Value| line(&output, &message);
        assert_eq!(said(json!({"role": "user", "by": "ann", "content": "Hello"})), "user ann: Hello");
        let calls = json!([{"id": "c1", "name": "send", "arguments": {"to": "bob"}}]);
        assert_eq!(
            said(json!({"role": "assistant", "content": "Yes.", "calls": calls})),
            "assistant: Yes. [c1 send {\"to\":\"bob\"}]"
        );
        assert_eq!(said(json!({"role": "tool", "content": {"ok": true}})), "tool: {\"ok\":true}");
    }
}
