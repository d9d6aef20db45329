//! `holdpoint runs decide`: decides about a tool call of an agent.

use std::collections::BTreeMap;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use holdpoint_api::decisions::DecideCall;
use holdpoint_api::ids::{ResumeDecisionAction, StrictValue};

use super::{Client, Failure, Named, Output, cell, clean, settled, standing_or};
use crate::values;

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint runs decide latest --call call-1-0 --resume
  holdpoint runs decide RUN --call call-1-0 --resume --result '{\"arguments\": {\"to\": \"ann\"}}'
  holdpoint runs decide RUN --call call-1-0 --cancel --reason 'not this customer'

The first decision counts. A second request with the same --decision-id is the same decision.";

#[derive(Debug, Args)]
pub(crate) struct Decide {
    #[command(flatten)]
    run: Named,
    /// The id of the call or of its ticket; `threads messages` shows the calls in brackets
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    call: String,
    /// Allow the call
    #[arg(long, required_unless_present = "cancel", conflicts_with = "cancel")]
    resume: bool,
    /// Decline the call
    #[arg(long)]
    cancel: bool,
    /// The answer that the tool requires; {"arguments": …} or {"result": …} change a call that is allowed
    #[arg(long, value_name = "JSON|@FILE|-", requires = "resume")]
    result: Option<String>,
    /// The reason, for the agent and the record
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// The id of the decision [default: made by the server]
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    decision_id: Option<String>,
}

pub(crate) fn run(client: &Client, output: &Output, asked: Decide) -> Result<(), Failure> {
    let run = asked.run.id(client)?;
    let decision = asked.request(client, &run)?;
    let reply = client.send(client.runs().decide(&run, &decision))?;
    output.show(&reply, |decided| {
        let now = standing_or(output, settled(client, &run).as_ref(), decided.status);
        let (call, outcome) = (cell(&decided.tool_call_id), cell(decided.outcome));
        format!("call {call} of run {}: {outcome}; it is now {now}", clean(&run))
    });
    Ok(())
}

impl Decide {
    fn request(self, client: &Client, run: &str) -> Result<DecideCall, Failure> {
        let result = self.result.map(|source| values::json("--result", &source)).transpose()?;
        // Without the right to read the run, the id is sent as that of a call.
        let waiting = client.send(client.runs().waiting(run));
        let is_ticket = waiting.is_ok_and(|reply| reply.value.ticket_ids.contains(&self.call));
        let (ticket_id, tool_call_id) =
            if is_ticket { (Some(self.call), None) } else { (None, Some(self.call)) };
        Ok(DecideCall {
            tool_call_id,
            ticket_id,
            action: if self.resume { ResumeDecisionAction::Resume } else { ResumeDecisionAction::Cancel },
            result: result.map(StrictValue),
            reason: self.reason,
            decision_id: self.decision_id,
            digest: None,
            unknown: BTreeMap::new(),
        })
    }
}
