//! `holdpoint agents`: declares agents and sends them messages.

use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;
use holdpoint_api::agents::{AgentTold, ListedAgent, StartAgent};
use holdpoint_client::Reply;

use super::client::Client;
use super::failure::Failure;
use super::output::{Output, age_since, cell, clean, pretty};
use super::{runs, values, watch};

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
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
    },
    /// Start a run of an agent with a message
    Run {
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
        /// The message; `-` reads standard input
        #[arg(value_name = "MESSAGE")]
        message: String,
        /// The thread of the run [default: a new one]
        #[arg(long, value_name = "THREAD", value_parser = NonEmptyStringValueParser::new())]
        thread: Option<String>,
        /// A tag of the run. Repeat for more
        #[arg(long = "tag", value_name = "TAG")]
        tags: Option<Vec<String>>,
        /// Requests with the same key within a day start one run
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
        Action::Run { id, message, thread, tags, idempotency_key, watch } => {
            let message = Some(read_message(message)?);
            let body = StartAgent { thread_id: thread, message, tags, ..StartAgent::default() };
            let reply = client.send_keyed(client.agents().start(&id, &body), idempotency_key.as_deref())?;
            return report_run(client, output, &reply, watch);
        }
    }
    Ok(())
}

/// Returns the message of an argument, or of standard input for `-`.
pub(super) fn read_message(message: String) -> Result<String, Failure> {
    if message == "-" { values::read("-") } else { Ok(message) }
}

/// Names the run that has accepted a message, and the next command. Watches the run if `then_watch` is set.
pub(super) fn report_run(
    client: &Client,
    output: &Output,
    reply: &Reply<AgentTold>,
    then_watch: bool,
) -> Result<(), Failure> {
    let (run, thread) = (clean(reply.value.run_id.as_str()), clean(&reply.value.thread_id));
    if then_watch {
        output.show(reply, |_| format!("told run {run} in thread {thread}"));
        return watch::run(client, output, &run, watch::DEFAULT);
    }
    output.show(reply, |told| {
        let next = output.command(&format!("threads messages {thread}"));
        let (standing, answer) = match runs::settled(client, &run) {
            Some(now) => (runs::standing(output, &now), runs::how_to_answer(output, &now)),
            None => (output.status(told.status.as_str()), String::new()),
        };
        format!("told run {run} in thread {thread}: {standing}\n{answer}read it with: {next}")
    });
    Ok(())
}

fn put(client: &Client, output: &Output, files: &[String]) -> Result<(), Failure> {
    // All files are read before the first is sent, so that an error in a file declares nothing.
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
