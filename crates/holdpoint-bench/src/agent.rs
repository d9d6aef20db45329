//! `bench agent`: an agent wants to call a tool, waits, is allowed to, calls it and says its last word; over and over,
//! beside a history of runs that have finished.

use std::time::Instant;

use hyper::Method;
use serde_json::{Value, json};

use super::Report;
use super::costs::{Costs, Readings};
use super::cycle::{Cycle, Pass, repeated};
use super::driver::Driver;
use super::ground::Ground;
use super::measure::{Spread, number, round, written};
use holdpoint_cli::failure::Failure;

const AGENT: &str = "bench-agent";
const CALL: &str = "c1";
/// History is made by more clients than are measured.
const MAKERS: u32 = 64;
const WARM_UP: u32 = 200;

pub(super) struct Load {
    pub(super) concurrency: u32,
    pub(super) runs: u32,
    pub(super) history: u32,
    pub(super) thinking: u64,
}

pub(super) async fn bench(driver: &Driver, ground: &Ground, load: &Load) -> Result<Report, Failure> {
    driver.exchange(Method::PUT, &format!("/v1/agents/{AGENT}"), &definition(load.thinking)).await?;
    let before = load.history.max(WARM_UP);
    let history =
        repeated("finished runs", before, MAKERS.max(load.concurrency), async || once(driver).await).await;
    if let Some(error) = history.first_error {
        return Err(Failure::refused(format!("the history could not be made: {error}")));
    }
    let readings = Readings::take(driver, ground).await;
    let pass = repeated("runs", load.runs, load.concurrency, async || once(driver).await).await;
    let costs = Costs::between(&readings, &Readings::take(driver, ground).await, pass.cycles as f64);
    Ok(report(load, before, &pass, &costs))
}

/// As a front end does it: begins a run, reads along, decides when it is asked.
async fn once(driver: &Driver) -> Result<Cycle, Failure> {
    let begun = Instant::now();
    let run = driver.tell(AGENT).await?;
    let mut events = driver.events(&run).await?;
    events.until("node.suspended").await?;
    let answered = Instant::now();
    driver.allow(&run, CALL).await?;
    events.until("run.completed").await?;
    Ok(Cycle { resolve: answered.elapsed(), whole: begun.elapsed() })
}

fn definition(thinking: u64) -> Value {
    let calls =
        [json!({"id": CALL, "name": "send", "arguments": {"to": "bob@example.test", "text": "Hello"}})];
    let steps = [
        json!({"text": "I send it.", "calls": calls, "delayMs": thinking}),
        json!({"text": "Done.", "delayMs": thinking}),
    ];
    json!({
        "agentId": AGENT,
        "model": {"provider": "scripted", "steps": steps},
        "tools": [{"type": "scripted", "name": "send", "description": "sends", "result": {"sent": true}}],
        "permissions": {"default": "ask"},
    })
}

fn report(load: &Load, history: u32, pass: &Pass, costs: &Costs) -> Report {
    let per_second = pass.cycles as f64 / pass.seconds;
    let json = json!({
        "bench": "agent", "concurrency": load.concurrency, "history": history, "thinkingMs": load.thinking, "runs": pass.cycles,
        "seconds": round(pass.seconds), "runsPerSecond": round(per_second),
        "decisionToCompletedMs": Spread::json(pass.resolve), "runMs": Spread::json(pass.whole),
        "serverCpuSecondsPer1000Runs": number(costs.server_cpu),
        "databaseCpuSecondsPer1000Runs": number(costs.database_cpu),
        "bothCpuSecondsPer1000Runs": number(costs.both_cpu), "serverMemoryBytes": number(costs.memory),
        "commitsPerRun": number(costs.commits_each), "rowsPerCommit": number(costs.rows_per_commit),
        "changesPerCommit": number(costs.changes_per_commit),
        "roundTripsPerRun": number(costs.round_trips_each),
        "errors": pass.errors, "firstError": pass.first_error,
    });
    let seconds = |value: Option<f64>| value.map(|value| format!("{value:.3} s")).unwrap_or_default();
    let facts = vec![
        ("runs", format!("{} in {:.2} s, {} at a time", pass.cycles, pass.seconds, load.concurrency)),
        ("finished before", history.to_string()),
        ("the model thinks", format!("{} ms", load.thinking)),
        ("runs/s", format!("{per_second:.0}")),
        ("decision → completed, p50 / p99", Spread::text(pass.resolve)),
        ("whole run, p50 / p99", Spread::text(pass.whole)),
        ("server CPU per 1000 runs", format!("{} s", written(costs.server_cpu, 3))),
        ("database CPU per 1000 runs", seconds(costs.database_cpu)),
        ("both together", seconds(costs.both_cpu)),
        ("server memory", format!("{} MB", written(costs.memory.map(|bytes| bytes / 1e6), 1))),
        ("commits per run", written(costs.commits_each, 3)),
        ("rows per commit", written(costs.rows_per_commit, 1)),
        ("changes per commit", written(costs.changes_per_commit, 1)),
        (
            "round trips per run",
            costs.round_trips_each.map(|trips| format!("{trips:.2}")).unwrap_or_default(),
        ),
        ("errors", pass.errors.to_string()),
        ("first error", pass.first_error.clone().unwrap_or_default()),
    ];
    Report { json, facts, errors: pass.errors }
}
