//! `bench agent`: an agent requests a tool call, waits, is allowed to, makes the call and ends, over and over, beside a
//! history of finished runs.

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
use super::driver::event;
use super::measure::{Number, written};
use super::{Clients, Connection, Facts, Failure, Report, Target};

const AGENT: &str = "bench-agent";
const CALL: &str = "c1";
/// The history is made by more clients than are measured.
const MAKERS: u32 = 64;
const WARM_UP: u32 = 200;

#[derive(Debug, Args)]
pub(crate) struct Load {
    #[command(flatten)]
    clients: Clients,
    /// Runs to count
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Runs that have finished when counting begins
    #[arg(long, value_name = "N", default_value_t = 1000)]
    history: u32,
    /// Milliseconds that the model takes for a reply. With 0 the agent has no effects, and its steps are written in the
    /// commit that wakes it; otherwise a worker waits for the model
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    thinking: u64,
}

pub(super) async fn bench(connection: &Connection, load: &Load) -> Result<Report, Failure> {
    let target = Target::start(connection, &load.clients.database, &[]).await?;
    let (client, concurrency) = (&target.driver.client, load.clients.concurrency);
    client.agents().put(AGENT, &definition(load.thinking)).await?;
    let (history, decision) = (load.history.max(WARM_UP), decision());
    let once = async || run(client, &decision).await;
    let made = repeat("finished runs", history, MAKERS.max(concurrency), once).await;
    made.all("the history could not be made")?;
    let before = Readings::take(&target).await;
    let runs = repeat("runs", load.runs, concurrency, once).await;
    let costs = before.costs(&target, runs.done.len()).await;
    let facts = Facts::of("agent").member("concurrency", concurrency);
    let facts = runs
        .rate(facts, "runs", &format!("{concurrency} at a time"))
        .fact("history", history, "finished before", history.to_string())
        .fact("thinkingMs", load.thinking, "the model thinks", format!("{} ms", load.thinking));
    let facts = Cycle::spreads(&runs, facts, ["decisionToCompletedMs", "runMs"], "decision", "run");
    let facts = costs.cpu(facts, "Runs").fact(
        "commitsPerRun",
        Number(costs.commits_each),
        "commits per run",
        written(costs.commits_each, 3),
    );
    Ok(runs.finish(costs.commit_sizes(facts, "Run", "changes")))
}

/// Does what a front end does: starts a run, follows its events and decides when the run waits.
async fn run(client: &Client, decision: &DecideCall) -> Result<Cycle, Failure> {
    let begun = Instant::now();
    let input = StartAgent { message: Some("Please".to_owned()), ..StartAgent::default() };
    let run = client.agents().start(AGENT, &input).await?.run_id;
    let events = client.runs().events(run.as_str(), &StreamEvents::default());
    let mut events = events.reconnect(RetryPolicy::OFF);
    event(&mut events, "node.suspended").await?;
    let answered = Instant::now();
    client.runs().decide(run.as_str(), decision).await?;
    event(&mut events, "run.completed").await?;
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
