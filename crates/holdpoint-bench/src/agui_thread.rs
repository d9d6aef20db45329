//! `bench ag-ui --thread-messages`: one more turn in a long thread, and the same turn in a new thread, in turns on one
//! server and one at a time.

use std::time::{Duration, Instant};

use holdpoint_client::api::agui::{AgUiThread, Event, Frame, InputMessage, RunAgentInput};
use holdpoint_client::api::ids::StrictValue;
use holdpoint_client::{Client, Error, SseFrame};
use serde_json::{from_value, to_value};

use super::agui::{AGENT, definition, input, user};
use super::measure::{Percentiles, RoundedNumber, format_number, ratio};
use super::{Connection, DatabaseArgs, Failure, Progress, Report, ReportFields, Target, broken};

/// Messages of the user in each run of the long thread. The request must stay below the size limit of requests.
const MESSAGES_PER_RUN: u32 = 200;
/// Turns of each kind before the measurement.
const WARM_UP: u32 = 20;

/// The durations of the turns of one kind.
type Samples = Vec<Duration>;

pub(super) async fn bench(
    connection: &Connection,
    database: &DatabaseArgs,
    messages: u32,
    turns: u32,
) -> Result<Report, Failure> {
    let target = Target::start(connection, database, &[]).await?;
    let client = &target.driver.client;
    client.agents().put(AGENT, &definition(0)).await?;
    // The front end has a thread of its own, because it would lack the messages of the other client.
    let [thread, front_end_thread] = ["long", "shown"].map(|name| format!("{name}-{}", std::process::id()));
    let loaded = load(client, &thread, messages).await?;
    load(client, &front_end_thread, messages).await?;
    let front_end = shown(client, &front_end_thread).await?;
    let mut bench = ThreadBench { client, thread, front_end_thread, sent: 0, front_end };
    let known = bench.front_end.len();
    bench.measure(WARM_UP).await?;
    let [empty, long, whole, body] = bench.measure(turns).await?.map(Percentiles::of);
    let times =
        |other: Option<Percentiles>| ratio(other.map(|other| other.p50), empty.map(|empty| empty.p50));
    let text = |ratio: Option<f64>| format_number(ratio, 2);
    let fields = ReportFields::of("ag-ui-thread")
        .field("turns", turns, "turns", format!("{turns} of each kind, one at a time"))
        .field("threadMessages", loaded, "messages of the long thread", loaded.to_string())
        .percentiles("emptyMs", "turn in a new thread, p50 / p99", empty)
        .percentiles("longMs", "turn in the long thread, p50 / p99", long)
        .field("longRatio", RoundedNumber(times(long)), "ratio of the medians", text(times(long)))
        .member("frontEndMessages", known)
        .percentiles("frontEndMs", "the same from a client that sends its messages", whole)
        .field("frontEndRatio", RoundedNumber(times(whole)), "ratio of the medians", text(times(whole)))
        .percentiles("frontEndBodyMs", "of which transfer and parsing of the request", body);
    Ok(fields.finish(0, None))
}

/// Fills a thread through runs with many messages, and returns their number with the replies.
async fn load(client: &Client, thread: &str, messages: u32) -> Result<u32, Failure> {
    let progress = Progress::new("messages", messages);
    let mut loaded = 0;
    while loaded < messages {
        let count = MESSAGES_PER_RUN.min((messages - loaded).saturating_sub(1).max(1));
        let given = (loaded..loaded + count).map(|number| user(format!("load-{number}"))).collect();
        turn(client, &input(thread, loaded, given)).await?;
        (0..=count).for_each(|_| progress.step());
        loaded += count + 1;
    }
    Ok(loaded)
}

struct ThreadBench<'a> {
    client: &'a Client,
    /// The long thread.
    thread: String,
    /// The number of turns so far.
    sent: u32,
    /// The thread of the front end, of the same length.
    front_end_thread: String,
    /// The messages that the front end shows.
    front_end: Vec<InputMessage>,
}

impl ThreadBench<'_> {
    /// Measures turns in a new thread, turns in the long thread with only the new message, turns of the front end, and
    /// requests of the front end that the server rejects after it has parsed them.
    async fn measure(&mut self, turns: u32) -> Result<[Samples; 4], Failure> {
        let progress = Progress::new("turns", turns);
        let mut samples: [Samples; 4] = Default::default();
        for round in 0..turns as usize {
            // The order alternates, because a turn affects the next one.
            for at in 0..samples.len() {
                let kind = if round.is_multiple_of(2) { at } else { samples.len() - 1 - at };
                self.sent += 1;
                let took = match kind {
                    0 => self.turn_in_new_thread().await?,
                    1 => self.turn_with_new_message().await?,
                    2 => self.turn_of_front_end().await?,
                    _ => self.rejected_request().await?,
                };
                samples[kind].push(took);
            }
            progress.step();
        }
        Ok(samples)
    }

    async fn turn_in_new_thread(&self) -> Result<Duration, Failure> {
        let thread = format!("new-{}-{}", self.sent, std::process::id());
        Ok(turn(self.client, &input(&thread, self.sent, vec![self.message()])).await?.0)
    }

    async fn turn_with_new_message(&self) -> Result<Duration, Failure> {
        Ok(turn(self.client, &input(&self.thread, self.sent, vec![self.message()])).await?.0)
    }

    /// Sends all messages of the front end, as clients of AG-UI do, and applies the events to them.
    async fn turn_of_front_end(&mut self) -> Result<Duration, Failure> {
        self.front_end.push(self.message());
        let (took, events) =
            turn(self.client, &input(&self.front_end_thread, self.sent, self.front_end.clone())).await?;
        for event in events {
            self.apply(event.parse::<Frame>().map_err(broken)?.event)?;
        }
        Ok(took)
    }

    fn apply(&mut self, event: Event) -> Result<(), Failure> {
        if let Event::TextMessageStart { message_id, .. } = event {
            let role = "assistant".to_owned();
            self.front_end.push(InputMessage { id: Some(message_id), role, ..InputMessage::default() });
        } else if let Event::TextMessageContent { delta, .. } = event {
            let content = self.front_end.last_mut().map(|last| &mut last.content);
            if let Some(content) = content {
                *content = Some(StrictValue(delta.into()));
            }
        } else if let Event::MessagesSnapshot { messages } = event {
            self.front_end = to_value(messages).and_then(from_value).map_err(broken)?;
        }
        Ok(())
    }

    /// Sends all messages of the front end in a request with an invalid id of the run.
    async fn rejected_request(&self) -> Result<Duration, Failure> {
        let invalid = RunAgentInput {
            run_id: String::new(),
            ..input(&self.front_end_thread, self.sent, self.front_end.clone())
        };
        let begun = Instant::now();
        match self.client.agents().run_ag_ui(AGENT, &invalid).next().await {
            Err(Error::Refused(_)) => Ok(begun.elapsed()),
            Err(error) => Err(error.into()),
            Ok(_) => Err(Failure::broken("the invalid request was accepted")),
        }
    }

    fn message(&self) -> InputMessage {
        user(format!("m{}", self.sent))
    }
}

/// Returns the messages that a front end shows after a reload.
async fn shown(client: &Client, thread: &str) -> Result<Vec<InputMessage>, Failure> {
    let thread = client.get::<AgUiThread>(format!("/ag-ui/{AGENT}/threads/{thread}")).await?;
    to_value(thread.messages).and_then(from_value).map_err(broken)
}

/// Sends an input and reads its stream. Returns the time to the end of the stream, and the events.
async fn turn(client: &Client, input: &RunAgentInput) -> Result<(Duration, Vec<SseFrame>), Failure> {
    let (begun, mut events) = (Instant::now(), Vec::new());
    let mut stream = client.agents().run_ag_ui(AGENT, input);
    while let Some(event) = stream.next().await? {
        events.push(event);
    }
    let took = begun.elapsed();
    let last = events.last().and_then(|last| last.parse::<Frame>().ok());
    match last.map(|last| last.event) {
        Some(Event::RunFinished { .. }) => Ok((took, events)),
        _ => Err(Failure::broken("the stream ended before the run")),
    }
}
