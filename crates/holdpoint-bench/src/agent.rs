//! `bench agent`: repeats one agent run: the agent requests a tool call, waits for the decision, makes the call and
//! ends. The database has a history of finished runs.

use std::collections::BTreeMap;
use std::time::Instant;

use clap::Args;
use holdpoint_client::api::agents::{AgentDefinition, StartAgent};
use holdpoint_client::api::decisions::DecideCall;
use holdpoint_client::api::events::StreamEvents;
use holdpoint_client::api::ids::ResumeDecisionAction;
use holdpoint_client::{Client, RetryPolicy};
use serde_json::Value;

use super::batch::repeat;
use super::costs::Readings;
use super::cycle::Cycle;
use super::definitions::{agent, list, object};
use super::driver::wait_for_event;
use super::measure::{RoundedNumber, format_number};
use super::{ClientArgs, Connection, Failure, Report, ReportFields, Target};

const AGENT: &str = "bench-agent";
const CALL: &str = "c1";
/// Clients that create the history, which is not measured.
const HISTORY_CLIENTS: u32 = 64;
const WARM_UP: u32 = 200;

#[derive(Debug, Args)]
pub(crate) struct Load {
    #[command(flatten)]
    clients: ClientArgs,
    /// Number of runs to measure
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Number of finished runs in the database before the measurement
    #[arg(long, value_name = "N", default_value_t = 1000)]
    history: u32,
    /// Delay of each model reply in milliseconds. With 0 the agent has no effects, and its steps are written in the
    /// commit that activates it; otherwise a worker waits for the model
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    thinking: u64,
}

pub(super) async fn bench(connection: &Connection, load: &Load) -> Result<Report, Failure> {
    let target = Target::start(connection, &load.clients.database, &[]).await?;
    let (client, concurrency) = (&target.driver.client, load.clients.concurrency);
    client.agents().put(AGENT, &definition(load.thinking)).await?;
    let (history, decision) = (load.history.max(WARM_UP), decision());
    let once = async || run(client, &decision).await;
    let made = repeat("finished runs", history, HISTORY_CLIENTS.max(concurrency), once).await;
    made.all("cannot create the history")?;
    let before = Readings::take(&target).await;
    let runs = repeat("runs", load.runs, concurrency, once).await;
    let costs = before.costs(&target, runs.done.len()).await;
    let fields = ReportFields::of("agent").member("concurrency", concurrency);
    let fields = runs
        .rate(fields, "runs", &format!("{concurrency} at a time"))
        .field("history", history, "finished runs before", history.to_string())
        .field("thinkingMs", load.thinking, "model delay", format!("{} ms", load.thinking));
    let fields = Cycle::add_percentiles(&runs, fields, ["decisionToCompletedMs", "runMs"], "decision", "run");
    let fields = costs.cpu(fields, "Runs").field(
        "commitsPerRun",
        RoundedNumber(costs.commits_each),
        "commits per run",
        format_number(costs.commits_each, 3),
    );
    Ok(runs.finish(costs.commit_sizes(fields, "Run", "changes")))
}

/// Acts as a front end: starts a run, watches its events and decides when the run waits.
async fn run(client: &Client, decision: &DecideCall) -> Result<Cycle, Failure> {
    let begun = Instant::now();
    let input = StartAgent { message: Some("Please".to_owned()), ..StartAgent::default() };
    let run = client.agents().start(AGENT, &input).await?.run_id;
    let events = client.runs().watch(run.as_str(), &StreamEvents::default());
    let mut events = events.reconnect(RetryPolicy::OFF);
    wait_for_event(&mut events, "node.suspended").await?;
    let answered = Instant::now();
    client.runs().decide(run.as_str(), decision).await?;
    wait_for_event(&mut events, "run.completed").await?;
    Ok(Cycle { resolve: answered.elapsed(), whole: begun.elapsed() })
}

fn decision() -> DecideCall {
    DecideCall {
        tool_call_id: Some(CALL.to_owned()),
        ticket_id: None,
        action: ResumeDecisionAction::Resume,
        result: None,
        reason: None,
        decision_id: None,
        digest: None,
        unknown: BTreeMap::new(),
    }
}

fn definition(delay_ms: u64) -> AgentDefinition {
    let arguments = Value::from_iter([("to", "bob@example.test"), ("text", "Hello")]);
    let call = object([("id", CALL.into()), ("name", "send".into()), ("arguments", arguments)]);
    let delay = ("delayMs", delay_ms.into());
    let steps = [
        object([("text", "I send it.".into()), ("calls", list([call])), delay.clone()]),
        object([("text", "Done.".into()), delay]),
    ];
    let tool = object([
        ("type", "scripted".into()),
        ("name", "send".into()),
        ("description", "sends".into()),
        ("result", Value::from_iter([("sent", true)])),
    ]);
    agent(AGENT, list(steps), vec![tool])
}
