//! `holdpoint runs start`.

use clap::Args;
use holdpoint_api::runs::{CreateRun, RunCreated};
use serde::Deserialize;
use serde_json::Value;

use super::{Client, Failure, NewRun, Output, clean};
use crate::values;

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint runs start release --input version=1.4.0 --input dryRun=true
  holdpoint runs start refund --inputs @order.json --tag urgent --watch
  holdpoint runs start nightly --idempotency-key 2026-05-01    # starts one run if sent twice
  holdpoint runs start deploy --scope production --exclusive   # one at a time
  holdpoint runs start deploy --configurable '{\"runTimeoutMs\": 600000}'";

#[derive(Debug, Args)]
pub(crate) struct Start {
    /// The id of a registered workflow
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// One input; the value is JSON if it reads as JSON, else text. Repeat for more. To force text, quote it:
    /// --input 'version="1.4"'
    #[arg(long = "input", value_name = "NAME=VALUE", value_parser = values::pair)]
    pairs: Vec<(String, Value)>,
    /// All inputs as one JSON object: the text itself, @file, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-")]
    inputs: Option<String>,
    /// A tag on the run. Repeat for more
    #[arg(long = "tag", value_name = "TAG")]
    tags: Option<Vec<String>>,
    /// Options of the run: recursionLimit, runTimeoutMs, …
    #[arg(long, value_name = "JSON|@FILE|-")]
    configurable: Option<String>,
    /// Metadata of the run
    #[arg(long, value_name = "JSON|@FILE|-")]
    metadata: Option<String>,
    /// The scope of the run; `runs list --scope` finds it
    #[arg(long, value_name = "SCOPE")]
    scope: Option<String>,
    /// Do not start while another run of the scope is unfinished
    #[arg(long, requires = "scope")]
    exclusive: bool,
    /// A second request with the same key within a day does not start another run
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Watch the run to its end
    #[arg(long)]
    watch: bool,
}

pub(crate) fn run(client: &Client, output: &Output, asked: Start) -> Result<(), Failure> {
    let run = CreateRun {
        workflow_id: asked.workflow,
        inputs: Some(values::inputs(asked.inputs.as_deref(), asked.pairs)?),
        tags: asked.tags,
        configurable: values::object("--configurable", asked.configurable.as_deref())?,
        metadata: values::object("--metadata", asked.metadata.as_deref())?,
        scope_id: asked.scope,
        ..CreateRun::default()
    };
    if let Some(warning) = undeclared(client, &run) {
        eprintln!("{warning}");
    }
    let runs = client.runs();
    let request = if asked.exclusive { runs.create_in_scope(&run) } else { runs.create(&run) };
    let reply = client.send_keyed(request, asked.idempotency_key.as_deref())?;
    let RunCreated { run_id, status, .. } = &reply.value;
    NewRun { id: run_id, status: *status, verb: "started", watch: asked.watch }.show(client, output, &reply)
}

/// The variables that a workflow declares.
#[derive(Deserialize)]
struct Declarations {
    variables: Vec<Variable>,
}

#[derive(Deserialize)]
struct Variable {
    name: String,
}

/// Returns a warning about inputs that the workflow does not declare, which are typing errors more often than not.
/// A workflow without variables accepts any input. Without the right to read workflows there is no warning.
fn undeclared(client: &Client, run: &CreateRun) -> Option<String> {
    let inputs = run.inputs.as_ref().filter(|inputs| !inputs.0.is_empty())?;
    let found = client.send(client.workflows().get(&run.workflow_id)).ok()?.value;
    let Declarations { variables } = serde_json::from_value(found).ok()?;
    let declared: Vec<String> = variables.iter().map(|variable| clean(&variable.name)).collect();
    let unknown: Vec<String> =
        inputs.0.keys().map(|name| clean(name)).filter(|name| !declared.contains(name)).collect();
    if declared.is_empty() || unknown.is_empty() {
        return None;
    }
    let (workflow, unknown, declared) = (clean(&run.workflow_id), unknown.join(", "), declared.join(", "));
    Some(format!("warning: {workflow} declares no input {unknown}; it declares: {declared}"))
}
