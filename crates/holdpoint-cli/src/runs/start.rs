//! `holdpoint runs start`.

use clap::Args;
use serde_json::{Map, Value, json};

use super::{Client, Failure, Output, begun, cell, clean};
use crate::client::encode;
use crate::{values, watch};

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint runs start release --input version=1.4.0 --input dryRun=true
  holdpoint runs start refund --inputs @order.json --tag urgent --watch
  holdpoint runs start nightly --idempotency-key 2026-05-01    # sent twice, it is one run
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
    tags: Vec<String>,
    /// Options of the run, as the workflow and the server know them: recursionLimit, runTimeoutMs, …
    #[arg(long, value_name = "JSON|@FILE|-")]
    configurable: Option<String>,
    /// What else is to be kept with the run
    #[arg(long, value_name = "JSON|@FILE|-")]
    metadata: Option<String>,
    /// What the run is about; `runs list --scope` finds it
    #[arg(long, value_name = "SCOPE")]
    scope: Option<String>,
    /// Refuse to start while another run of the scope has not ended
    #[arg(long, requires = "scope")]
    exclusive: bool,
    /// Sent twice with the same key within a day, the run is started once
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Then watch the run to its end
    #[arg(long)]
    watch: bool,
}

pub(crate) fn run(client: &Client, output: &Output, asked: Start) -> Result<(), Failure> {
    let then_watch = asked.watch;
    let mut headers: Vec<(&str, String)> = Vec::new();
    headers.extend(asked.idempotency_key.clone().map(|key| ("idempotency-key", key)));
    headers.extend(asked.exclusive.then(|| ("x-dedup", "enforce".to_string())));
    let request = request(asked)?;
    if let Some(warning) = undeclared(client, &request) {
        eprintln!("{warning}");
    }
    let reply = client.post_with("/v1/runs", &request, &headers)?;
    let run = cell(&reply.value["runId"]);
    let what = if reply.replayed { "this key has already started" } else { "started" };
    if then_watch {
        output.show(&reply, |_| format!("{what} run {run}"));
        return watch::run(client, output, &run, watch::DEFAULT);
    }
    output.show(&reply, |created| begun(client, output, what, &run, created));
    Ok(())
}

/// A workflow may take what it does not declare; more often it is a slip, and somebody would be asked about a default.
fn undeclared(client: &Client, request: &Value) -> Option<String> {
    let inputs = request["inputs"].as_object().filter(|inputs| !inputs.is_empty())?;
    let workflow = request["workflowId"].as_str()?;
    // Whoever may start runs need not be allowed to read workflows, and there may be none: the server says so.
    let found = client.get(&format!("/v1/workflows/{}", encode(workflow))).ok()?;
    let declared: Vec<&str> = found.value["variables"]
        .as_array()?
        .iter()
        .filter_map(|variable| variable["name"].as_str())
        .collect();
    // One that declares nothing, such as a graph of a provider, takes anything.
    if declared.is_empty() {
        return None;
    }
    let unknown: Vec<String> =
        inputs.keys().filter(|name| !declared.contains(&name.as_str())).map(|name| clean(name)).collect();
    if unknown.is_empty() {
        return None;
    }
    let has = declared.iter().map(|name| clean(name)).collect::<Vec<_>>().join(", ");
    Some(format!("warning: {} declares no input {}; it declares: {has}", clean(workflow), unknown.join(", ")))
}

/// Only what was said: the server knows the defaults.
fn request(asked: Start) -> Result<Value, Failure> {
    let inputs = values::inputs(asked.inputs.as_deref(), asked.pairs)?;
    let mut body = Map::from_iter([
        ("workflowId".to_string(), json!(asked.workflow)),
        ("inputs".to_string(), inputs),
        ("tags".to_string(), json!(asked.tags)),
    ]);
    body.extend(values::member("configurable", asked.configurable.as_deref())?);
    body.extend(values::member("metadata", asked.metadata.as_deref())?);
    body.extend(asked.scope.map(|scope| ("scopeId".to_string(), json!(scope))));
    Ok(Value::Object(body))
}
