//! `bench ag-ui --tokens`: many agents at once whose models stream a reply token by token. Measures the time to the first
//! token, the tokens that the front ends get, and the costs of the server.

use std::cell::Cell;
use std::time::{Duration, Instant};

use futures_util::future::join;
use holdpoint_client::Client;
use holdpoint_client::api::agents::AgentDefinition;
use holdpoint_client::api::agui::{Event, Frame, RunAgentInput};
use serde_json::Value;

use super::agui::{AGENT, input, user};
use super::batch::{Batch, repeat};
use super::costs::Readings;
use super::definitions::{agent, list, object};
use super::measure::{Percentiles, RoundedNumber, format_number, round};
use super::{Connection, DatabaseArgs, Failure, Report, ReportFields, Target};

/// Number of runs before the measurement.
const WARM_UP: u32 = 50;
/// The token that models send. Front ends count them by their spaces.
const TOKEN: &str = "token ";

/// The load: the number of agents, and the reply of each.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenLoad {
    pub runs: u32,
    pub tokens: u32,
    pub seconds: u64,
}

/// The reply of one agent at its front end.
struct StreamedReply {
    /// The time to the first token, without the delay of the model before it.
    first: Duration,
    tokens: usize,
    /// The number of events that brought the tokens.
    parts: usize,
}

pub(super) async fn bench(
    connection: &Connection,
    database: &DatabaseArgs,
    load: TokenLoad,
) -> Result<Report, Failure> {
    let TokenLoad { runs: count, tokens, seconds } = load;
    let delay_ms = (seconds * 1000 / u64::from(tokens)).max(1);
    let target = Target::start(connection, database, &[]).await?;
    let (driver, agents) = (&target.driver, target.driver.client.agents());
    agents.put(AGENT, &definition(2, 1)).await?;
    let delay = Duration::from_millis(1);
    follow_at_once(&driver.client, "warm", WARM_UP, delay).await.all("the warm-up failed")?;
    agents.put(AGENT, &definition(tokens, delay_ms)).await?;
    let (before, idle) = (Readings::take(&target).await, driver.memory().await);
    let delay = Duration::from_millis(delay_ms);
    let middle = async {
        tokio::time::sleep(Duration::from_secs(seconds) / 2).await;
        driver.memory().await
    };
    let (runs, busy) = join(follow_at_once(&driver.client, "run", count, delay), middle).await;
    let costs = before.costs(&target, runs.done.len()).await;
    let received: usize = runs.done.iter().map(|reply| reply.tokens).sum();
    let parts: usize = runs.done.iter().map(|reply| reply.parts).sum();
    let per_second = received as f64 / runs.seconds;
    let each = idle.zip(busy).map(|(idle, busy)| (busy - idle) / f64::from(count) / 1e3);
    let text = format!("{count}, {tokens} tokens each, one per {delay_ms} ms, in {:.2} s", runs.seconds);
    let fields = ReportFields::of("ag-ui-tokens")
        .field("runs", count, "runs", text)
        .member("tokensPerRun", tokens)
        .member("modelDelayMs", delay_ms)
        .member("seconds", round(runs.seconds))
        .percentiles(
            "firstTokenMs",
            "first token after the model, p50 / p99",
            Percentiles::of(runs.done.iter().map(|reply| reply.first)),
        )
        .field("tokensPerSecond", round(per_second), "tokens/s", format!("{per_second:.0}"))
        .field("textEvents", parts, "events with text", parts.to_string())
        .memory("serverMemoryBytesBefore", "server memory before", idle)
        .field(
            "serverMemoryKilobytesPerRun",
            RoundedNumber(each),
            "server memory per run",
            format!("{} kB", format_number(each, 1)),
        );
    Ok(runs.finish(costs.commit_sizes(costs.cpu(fields, "Runs"), "Run", "changes")))
}

/// Returns an agent whose model sends tokens with a delay before each.
fn definition(tokens: u32, delay_ms: u64) -> AgentDefinition {
    let pieces = Value::from_iter((0..tokens).map(|_| TOKEN));
    let step = object([("pieces", pieces), ("delayMs", delay_ms.into())]);
    agent(AGENT, list([step]), Vec::new())
}

async fn follow_at_once(client: &Client, name: &str, count: u32, delay: Duration) -> Batch<StreamedReply> {
    let begun = Cell::new(0);
    repeat("runs", count, count, async || {
        begun.set(begun.get() + 1);
        let thread = format!("{name}-{}-{}", begun.get(), std::process::id());
        let input = input(&thread, begun.get(), vec![user(format!("m{}", begun.get()))]);
        follow(client, &input, delay).await
    })
    .await
}

/// Follows a run to its end.
async fn follow(client: &Client, input: &RunAgentInput, delay: Duration) -> Result<StreamedReply, Failure> {
    let (begun, mut first, mut tokens, mut parts) = (Instant::now(), None, 0, 0);
    let mut events = client.agents().run_ag_ui(AGENT, input);
    let mut has_finished = false;
    while let Some(event) = events.next().await? {
        match event.parse::<Frame>().map(|frame| frame.event) {
            Ok(Event::TextMessageContent { delta, .. }) => {
                first.get_or_insert_with(|| begun.elapsed().saturating_sub(delay));
                tokens += delta.matches(' ').count();
                parts += 1;
            }
            Ok(Event::RunFinished { .. }) => has_finished = true,
            Ok(_) | Err(_) => {}
        }
    }
    let first = first.filter(|_| has_finished);
    let first = first.ok_or_else(|| Failure::broken("the stream ended before the run"))?;
    Ok(StreamedReply { first, tokens, parts })
}
