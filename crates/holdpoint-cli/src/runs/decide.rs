//! `holdpoint runs decide`: saying yes or no to a call of a tool.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use serde_json::{Map, Value, json};

use super::{Client, Failure, Named, Output, cell, clean, path, settled, standing};
use crate::values;

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint runs decide latest --call call-1-0 --resume
  holdpoint runs decide RUN --call call-1-0 --resume --result '{\"arguments\": {\"to\": \"ann\"}}'
  holdpoint runs decide RUN --call call-1-0 --cancel --reason 'not this customer'

The first decision counts. Told again under the same --decision-id, it is the same decision.";

#[derive(Debug, Args)]
pub(crate) struct Decide {
    #[command(flatten)]
    run: Named,
    /// The call, or its ticket; `threads messages` names the calls, in brackets
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    call: String,
    /// Let it go on
    #[arg(long, required_unless_present = "cancel", conflicts_with = "cancel")]
    resume: bool,
    /// Do not let it
    #[arg(long)]
    cancel: bool,
    /// What the tool asked for; of a call that is allowed, {"arguments": …} or {"result": …} in place of its own
    #[arg(long, value_name = "JSON|@FILE|-", requires = "resume")]
    result: Option<String>,
    /// Why, for the agent and for the record
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// What the decision is called [default: the server makes a name]
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    decision_id: Option<String>,
}

pub(crate) fn run(client: &Client, output: &Output, asked: Decide) -> Result<(), Failure> {
    let run = asked.run.id(client)?;
    let ticket = is_ticket(client, &run, &asked.call);
    let reply = client.post(&format!("{}/decision", path(&run)), &request(asked, ticket)?)?;
    output.show(&reply, |done| {
        let now = settled(client, &run).unwrap_or_else(|| done.clone());
        let call = cell(&done["toolCallId"]);
        let how = cell(&done["outcome"]);
        format!("call {call} of run {}: {how}; it is now {}", clean(&run), standing(output, &now))
    });
    Ok(())
}

/// Whether this is the name of a ticket that waits. Who may not look means the call.
fn is_ticket(client: &Client, run: &str, name: &str) -> bool {
    let waiting = client.get(&format!("{}/waiting", path(run))).map(|reply| reply.value).unwrap_or_default();
    waiting["ticketIds"].as_array().into_iter().flatten().any(|id| id == name)
}

fn request(asked: Decide, ticket: bool) -> Result<Value, Failure> {
    let action = if asked.resume { "resume" } else { "cancel" };
    let member = if ticket { "ticketId" } else { "toolCallId" };
    let mut body =
        Map::from_iter([(member.to_string(), json!(asked.call)), ("action".to_string(), json!(action))]);
    if let Some(result) = &asked.result {
        body.insert("result".to_string(), values::json("--result", result)?);
    }
    body.extend(asked.reason.map(|reason| ("reason".to_string(), json!(reason))));
    body.extend(asked.decision_id.map(|id| ("decisionId".to_string(), json!(id))));
    Ok(Value::Object(body))
}
