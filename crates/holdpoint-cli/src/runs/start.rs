//! `holdpoint runs start`: starts a run of a workflow.

use clap::Args;
use holdpoint_api::runs::{CreateRun, RunCreated};
use serde::Deserialize;
use serde_json::Value;

use super::{Client, Failure, Output, RunReport, clean};
use crate::dispatch_args::DispatchArgs;
use crate::values;

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint runs start release --input version=1.4.0 --input dryRun=true
  holdpoint runs start refund --inputs @order.json --tag urgent --watch
  holdpoint runs start nightly --idempotency-key 2026-05-01    # starts one run if sent twice
  holdpoint runs start deploy --scope production --exclusive   # one at a time
  holdpoint runs start report --at 2026-05-01T06:00:00Z        # or --delay 12h
  holdpoint runs start deploy --configurable '{\"runTimeoutMs\": 600000}'";

#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// Id of a registered workflow
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// One input: JSON if the value parses as JSON, otherwise text; repeatable. To send text, quote it:
    /// --input 'version="1.4"'
    #[arg(long = "input", value_name = "NAME=VALUE", value_parser = values::pair)]
    pairs: Vec<(String, Value)>,
    /// All inputs as one object: JSON, @file, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-")]
    inputs: Option<String>,
    /// Tag of the run; repeatable
    #[arg(long = "tag", value_name = "TAG")]
    tags: Option<Vec<String>>,
    /// Options of the run: recursionLimit, runTimeoutMs, …
    #[arg(long, value_name = "JSON|@FILE|-")]
    configurable: Option<String>,
    /// JSON metadata to store with the run
    #[arg(long, value_name = "JSON|@FILE|-")]
    metadata: Option<String>,
    /// Scope of the run; `runs list --scope` finds it
    #[arg(long, value_name = "SCOPE")]
    scope: Option<String>,
    /// Refuse the start if another run of the scope has not ended
    #[arg(long, requires = "scope")]
    exclusive: bool,
    #[command(flatten)]
    dispatch: DispatchArgs,
    /// Idempotency key: requests with the same key within a day start one run
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Watch the run to its end
    #[arg(long)]
    watch: bool,
}

pub(crate) fn run(client: &Client, output: &Output, args: StartArgs) -> Result<(), Failure> {
    let run = CreateRun {
        workflow_id: args.workflow,
        inputs: Some(values::inputs(args.inputs.as_deref(), args.pairs)?),
        tags: args.tags,
        configurable: values::object("--configurable", args.configurable.as_deref())?,
        metadata: values::object("--metadata", args.metadata.as_deref())?,
        scope_id: args.scope,
        dispatch: args.dispatch.options(),
        ..CreateRun::default()
    };
    if let Some(warning) = warn_of_undeclared_inputs(client, &run) {
        eprintln!("{warning}");
    }
    let runs = client.runs();
    let request = if args.exclusive { runs.create_in_scope(&run) } else { runs.create(&run) };
    let reply = client.send_keyed(request, args.idempotency_key.as_deref())?;
    let RunCreated { run_id, status, .. } = &reply.value;
    let heading = format!("started run {}", clean(run_id.as_str()));
    RunReport { run: run_id, status: *status, heading, thread: None, watch: args.watch }
        .show(client, output, &reply)
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

/// Returns a warning about inputs that the workflow does not declare, which are usually typing errors. A workflow
/// without variables accepts every input. Returns None if this key may not read workflows.
fn warn_of_undeclared_inputs(client: &Client, run: &CreateRun) -> Option<String> {
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
