//! `holdpoint agents`: declaring agents and talking to them.

use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;
use serde_json::{Map, Value, json};

use super::client::{Client, encode};
use super::failure::Failure;
use super::output::{Output, age_cell, cell, clean};
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
    /// List what is declared
    List,
    /// Print one agent as JSON
    Show {
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
    },
    /// Say something to an agent in a new run
    Run {
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
        /// What is said; `-` reads standard input
        #[arg(value_name = "MESSAGE")]
        message: String,
        /// The thread it is said in [default: a new one]
        #[arg(long, value_name = "THREAD", value_parser = NonEmptyStringValueParser::new())]
        thread: Option<String>,
        /// A tag on the run. Repeat for more
        #[arg(long = "tag", value_name = "TAG")]
        tags: Vec<String>,
        /// Sent twice with the same key within a day, it is said once
        #[arg(long, value_name = "KEY")]
        idempotency_key: Option<String>,
        /// Then watch the run to its end
        #[arg(long)]
        watch: bool,
    },
}

pub(crate) fn run(client: &Client, output: &Output, action: Action) -> Result<(), Failure> {
    match action {
        Action::Put { files } => put(client, output, &files),
        Action::List => {
            let reply = client.get("/v1/agents")?;
            output.show(&reply, |page| list(output, page));
            Ok(())
        }
        Action::Show { id } => {
            let reply = client.get(&path(&id))?;
            output.show(&reply, |agent| format!("{agent:#}"));
            Ok(())
        }
        Action::Run { id, message, thread, tags, idempotency_key, watch } => {
            let mut body = Map::from_iter([("message".to_string(), json!(text(message)?))]);
            body.extend(thread.map(|thread| ("threadId".to_string(), json!(thread))));
            if !tags.is_empty() {
                body.insert("tags".to_string(), json!(tags));
            }
            let headers: Vec<_> = idempotency_key.map(|key| ("idempotency-key", key)).into_iter().collect();
            let reply = client.post_with(&format!("{}/runs", path(&id)), &Value::Object(body), &headers)?;
            told(client, output, &reply, watch)
        }
    }
}

/// What is said on the command line, or on standard input.
pub(super) fn text(message: String) -> Result<String, Failure> {
    if message == "-" { values::read("-") } else { Ok(message) }
}

/// Which run was told, and how to go on.
pub(super) fn told(
    client: &Client,
    output: &Output,
    reply: &holdpoint_client::Reply<Value>,
    then_watch: bool,
) -> Result<(), Failure> {
    let run = cell(&reply.value["runId"]);
    let thread = clean(&cell(&reply.value["threadId"]));
    if then_watch {
        output.show(reply, |_| format!("told run {run} in thread {thread}"));
        return watch::run(client, output, &run, watch::DEFAULT);
    }
    output.show(reply, |told| {
        let next = output.command(&format!("threads messages {thread}"));
        let (standing, answer) = match runs::settled(client, &run) {
            Some(now) => (runs::standing(output, &now), runs::how_to_answer(output, &now)),
            None => (output.status(&cell(&told["status"])), String::new()),
        };
        format!("told run {run} in thread {thread}: {standing}\n{answer}read it with: {next}")
    });
    Ok(())
}

fn put(client: &Client, output: &Output, files: &[String]) -> Result<(), Failure> {
    // All files are read before the first is sent, so that a typing error declares nothing.
    let definitions = files.iter().map(|file| read(file)).collect::<Result<Vec<_>, _>>()?;
    for (file, (id, text)) in files.iter().zip(definitions) {
        let reply = client.put(&path(&id), text).map_err(|failure| failure.about(file))?;
        output.show(&reply, |now| format!("declared {}, revision {}", clean(&id), cell(&now["revision"])));
    }
    Ok(())
}

fn read(file: &str) -> Result<(String, String), Failure> {
    let text = values::read(file)?;
    let definition: Value =
        serde_json::from_str(&text).map_err(|error| Failure::usage(format!("{file}: not JSON: {error}")))?;
    match definition["agentId"].as_str() {
        Some(id) if !id.is_empty() => Ok((id.to_string(), text)),
        _ => Err(Failure::usage(format!("{file}: no definition of an agent: it has no `agentId`"))),
    }
}

fn list(output: &Output, page: &Value) -> String {
    let row = |agent: &Value| {
        vec![
            cell(&agent["agentId"]),
            cell(&agent["revision"]),
            age_cell(&agent["updatedAt"]),
            cell(&agent["name"]),
        ]
    };
    let rows: Vec<_> = page["agents"].as_array().into_iter().flatten().map(row).collect();
    output.table(
        &["ID", "REVISION", "AGE", "NAME"],
        &rows,
        "no agents; declare one with `holdpoint agents put FILE`",
    )
}

fn path(id: &str) -> String {
    format!("/v1/agents/{}", encode(id))
}
