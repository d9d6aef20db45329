//! `bench ag-ui`: many front ends at once, each with a run whose model replies after a delay. Measures the time to the
//! first event and the memory of the server. With `--tokens` the models stream their replies, with `--thread-messages`
//! it measures turns in a long thread.

use std::cell::Cell;
use std::time::{Duration, Instant};

use clap::Args;
use futures_util::future::join;
use holdpoint_client::Client;
use holdpoint_client::api::agents::AgentDefinition;
use holdpoint_client::api::agui::{self, InputMessage, RunAgentInput, VERSION};
use holdpoint_client::api::ids::StrictValue;

use super::agui_thread;
use super::agui_tokens::{self, TokenLoad};
use super::batch::{Batch, repeat};
use super::definitions::{agent, list, object};
use super::measure::{Percentiles, RoundedNumber, format_number, round};
use super::{Connection, DatabaseArgs, Driver, Failure, Report, ReportFields, Target};

pub(super) const AGENT: &str = "bench-ag-ui";
/// Number of runs before the measurement.
const WARM_UP: u32 = 50;

#[derive(Debug, Args)]
pub(crate) struct Load {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Number of front ends, each with one run
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Delay of each model reply in seconds
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Number of tokens that each model streams in these seconds. Without it, each model replies once, after them
    #[arg(long, value_name = "N", conflicts_with = "thread_messages", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    tokens: Option<u32>,
    /// Measures turns in a thread of this many messages instead, and the same turns in new threads
    #[arg(long, value_name = "N", conflicts_with_all = ["runs", "seconds"], value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    thread_messages: Option<u32>,
    /// Number of turns of each kind, with --thread-messages
    #[arg(long, value_name = "N", default_value_t = 200, requires = "thread_messages", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    turns: u32,
}

/// The state of the server while all front ends are connected.
struct Peak {
    open: u32,
    memory: Option<f64>,
}

pub(super) async fn bench(connection: &Connection, load: &Load) -> Result<Report, Failure> {
    if let Some(messages) = load.thread_messages {
        return agui_thread::bench(connection, &load.database, messages, load.turns).await;
    }
    if let Some(tokens) = load.tokens {
        let load_of = TokenLoad { runs: load.runs, tokens, seconds: load.seconds };
        return agui_tokens::bench(connection, &load.database, load_of).await;
    }
    let target = Target::start(connection, &load.database, &[]).await?;
    let (driver, agents) = (&target.driver, target.driver.client.agents());
    agents.put(AGENT, &definition(0)).await?;
    run_at_once(driver, "warm", WARM_UP).await.0.all("the warm-up failed")?;
    let before = driver.memory().await;
    agents.put(AGENT, &definition(load.seconds * 1000)).await?;
    let (runs, peak) = run_at_once(driver, "run", load.runs).await;
    let each = before.zip(peak.memory).map(|(before, with)| (with - before) / f64::from(load.runs));
    let kilobytes = format_number(each.map(|bytes| bytes / 1e3), 1);
    let (count, thinking, seconds) = (load.runs, load.seconds, runs.seconds);
    let text = format!("{count}, model delay {thinking} s, in {seconds:.2} s");
    let fields = ReportFields::of("ag-ui")
        .field("runs", count, "runs", text)
        .member("thinkingSeconds", thinking)
        .member("seconds", round(seconds))
        .field("atOnce", peak.open, "open at once", peak.open.to_string())
        .percentiles("firstByteMs", "first byte, p50 / p99", Percentiles::of(runs.done.iter().copied()))
        .memory("serverMemoryBytesBefore", "server memory before", before)
        .memory("serverMemoryBytes", "server memory with all runs open", peak.memory)
        .field(
            "serverMemoryBytesPerRun",
            RoundedNumber(each),
            "server memory per run",
            format!("{kilobytes} kB"),
        );
    Ok(runs.finish(fields))
}

/// Returns an agent whose model replies after this delay.
pub(super) fn definition(delay_ms: u64) -> AgentDefinition {
    let step = object([("text", "That was all.".into()), ("delayMs", delay_ms.into())]);
    agent(AGENT, list([step]), Vec::new())
}

/// Starts all runs at once, each in its own thread, and returns the times to the first event.
async fn run_at_once(driver: &Driver, name: &str, count: u32) -> (Batch<Duration>, Peak) {
    let (begun, open, ended) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let runs = repeat("runs", count, count, async || {
        begun.set(begun.get() + 1);
        let first = follow(&driver.client, &input_of(name, begun.get()), &open).await;
        ended.set(ended.get() + 1);
        first
    });
    let watch = async {
        // Waits until all front ends have an event, or the first run has ended.
        while open.get() < count && ended.get() == 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Peak { open: open.get().saturating_sub(ended.get()), memory: driver.memory().await }
    };
    join(runs, watch).await
}

/// Follows a run to its end, counts it as open from its first event on, and returns the time to that event.
async fn follow(client: &Client, input: &RunAgentInput, open: &Cell<u32>) -> Result<Duration, Failure> {
    let (begun, mut first, mut last) = (Instant::now(), None, None);
    let mut events = client.agents().run_ag_ui(AGENT, input);
    while let Some(event) = events.next().await? {
        if first.is_none() {
            first = Some(begun.elapsed());
            open.set(open.get() + 1);
        }
        last = event.parse::<agui::Frame>().ok();
    }
    let has_finished = last.is_some_and(|last| matches!(last.event, agui::Event::RunFinished { .. }));
    first.filter(|_| has_finished).ok_or_else(|| Failure::broken("the stream ended before the run"))
}

fn input_of(name: &str, number: u32) -> RunAgentInput {
    let thread = format!("{name}-{number}-{}", std::process::id());
    input(&thread, number, vec![user(format!("m{number}"))])
}

pub(super) fn input(thread: &str, number: u32, messages: Vec<InputMessage>) -> RunAgentInput {
    RunAgentInput {
        thread_id: thread.to_owned(),
        run_id: format!("r{number}"),
        protocol_version: Some(VERSION.to_owned()),
        messages,
        ..RunAgentInput::default()
    }
}

pub(super) fn user(id: String) -> InputMessage {
    let content = Some(StrictValue("Please".into()));
    InputMessage { id: Some(id), role: "user".to_owned(), content, ..InputMessage::default() }
}
