//! `holdpoint agents`: declares agents and starts their runs.

use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;
use holdpoint_api::agents::{ListedAgent, MessageAccepted, StartAgent};
use holdpoint_client::Reply;

use super::client::Client;
use super::dispatch_args::ThreadDispatchArgs;
use super::failure::Failure;
use super::output::{Output, age_since, cell, clean, pretty};
use super::runs::RunReport;
use super::values;

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint agents put mailer.json
  holdpoint agents list
  holdpoint agents show mailer
  holdpoint agents run mailer 'Write to Bob' --thread bob --watch
  holdpoint threads messages bob";

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Declare agents, or new revisions of them, under the `agentId` in each file
    Put {
        /// JSON files; `-` reads standard input
        #[arg(required = true, value_name = "FILE")]
        files: Vec<String>,
    },
    /// List the declared agents
    List,
    /// Print one agent as JSON
    Show {
        /// Id of the agent
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
    },
    /// Start a run of an agent with a message
    Run {
        /// Id of the agent
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
        /// Message; `-` reads standard input
        #[arg(value_name = "MESSAGE")]
        message: String,
        /// Thread of the run [default: a new thread]
        #[arg(long, value_name = "THREAD", value_parser = NonEmptyStringValueParser::new())]
        thread: Option<String>,
        /// Tag of the run; repeatable
        #[arg(long = "tag", value_name = "TAG")]
        tags: Option<Vec<String>>,
        #[command(flatten)]
        dispatch: ThreadDispatchArgs,
        /// Idempotency key: requests with the same key within a day start one run
        #[arg(long, value_name = "KEY")]
        idempotency_key: Option<String>,
        /// Watch the run until it ends
        #[arg(long)]
        watch: bool,
    },
}

pub(crate) fn run(client: &Client, output: &Output, action: Action) -> Result<(), Failure> {
    match action {
        Action::Put { files } => return put(client, output, &files),
        Action::List => {
            // The server returns all agents in one page.
            output.show(&client.send(client.agents().list())?, |page| list(output, &page.agents));
        }
        Action::Show { id } => {
            let reply = client.send(client.agents().get(&id))?;
            output.show(&reply, |agent| pretty(agent));
        }
        Action::Run { id, message, thread, tags, dispatch, idempotency_key, watch } => {
            let message = Some(read_message(message)?);
            let dispatch = dispatch.options();
            let body = StartAgent { thread_id: thread, message, tags, dispatch, ..StartAgent::default() };
            let reply = client.send_keyed(client.agents().start(&id, &body), idempotency_key.as_deref())?;
            return RunReport { watch, ..run_report(&reply) }.show(client, output, &reply);
        }
    }
    Ok(())
}

/// Returns the message of an argument, or of standard input for `-`.
pub(super) fn read_message(message: String) -> Result<String, Failure> {
    if message == "-" { values::read("-") } else { Ok(message) }
}

/// Returns the report of the run that accepted a message.
pub(super) fn run_report(reply: &Reply<MessageAccepted>) -> RunReport<'_> {
    let MessageAccepted { run_id, thread_id, status, .. } = &reply.value;
    let heading = format!("sent to run {} in thread {}", clean(run_id.as_str()), clean(thread_id));
    RunReport { run: run_id, status: *status, heading, thread: Some(thread_id), watch: false }
}

fn put(client: &Client, output: &Output, files: &[String]) -> Result<(), Failure> {
    // All files are read before the first request, so that no agent is declared if a file cannot be read.
    let read = |file: &String| values::definition(file, "agentId");
    let definitions = files.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    for (file, (id, text)) in files.iter().zip(definitions) {
        let sent = client.send(client.agents().put_text(&id, text));
        output.show(&sent.map_err(|failure| failure.about(file))?, |now| {
            format!("declared {}, revision {}", clean(&id), now.revision)
        });
    }
    Ok(())
}

fn list(output: &Output, agents: &[ListedAgent]) -> String {
    let row = |agent: &ListedAgent| {
        let (id, name) = (cell(&agent.agent_id), cell(&agent.name));
        vec![id, agent.revision.to_string(), age_since(agent.updated_at), name]
    };
    let rows: Vec<_> = agents.iter().map(row).collect();
    let empty = "no agents; declare one with `holdpoint agents put FILE`";
    output.table(&["ID", "REVISION", "AGE", "NAME"], &rows, empty)
}
