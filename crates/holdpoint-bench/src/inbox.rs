//! `bench inbox`: measures the requests of the first screen of the inbox while many runs wait, and the rate of
//! decisions while inbox pages are open.

use std::cell::Cell;
use std::time::{Duration, Instant};

use clap::Args;
use futures_util::future::{Either, join_all, select, try_join, try_join_all};
use holdpoint_client::api::Page;
use holdpoint_client::api::ids::Status;
use holdpoint_client::api::pending::{ListPending, PendingInterrupts, StreamPending};
use holdpoint_client::{Client, Request};

use super::batch::{Batch, sample};
use super::decide::{decide, park};
use super::definitions::{gate, workflow};
use super::measure::{Percentiles, format_number, median, ratio, round};
use super::{ClientArgs, Connection, Driver, Failure, Progress, Report, ReportFields, Target};

/// Workflows that any principal may decide, with a deadline and without, and one for another principal.
const OPEN: [&str; 2] = ["bench-inbox-due", "bench-inbox-open"];
const OTHERS: &str = "bench-inbox-others";
/// One in this many runs waits for another principal. These runs are the oldest and have the earliest deadlines, so
/// the lists must skip them, which is the slower case.
const OTHERS_SHARE: u32 = 4;
const OTHERS_DUE_MS: u64 = 24 * 60 * 60 * 1000;
const DUE_MS: u64 = 2 * OTHERS_DUE_MS;
/// Lists of the page: JSON member, label, order and kind.
const LISTS: [(&str, &str, &str, Option<&str>); 4] = [
    ("listMs", "oldest first", "oldest", None),
    ("newestMs", "newest first", "newest", None),
    ("deadlineMs", "by deadline", "deadline", None),
    ("approvalsMs", "approvals only", "oldest", Some("approval")),
];
/// Page size of the inbox, and page size for reading the whole list.
const SCREEN: u64 = 50;
const PAGE: u32 = 100;
/// The number of measurements without open inbox pages, and of measurements with them.
const ROUNDS: usize = 3;

#[derive(Debug, Args)]
pub(crate) struct Load {
    #[command(flatten)]
    clients: ClientArgs,
    /// Number of waiting runs
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(16..))]
    pending: u32,
    /// Number of samples of each request
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// Number of inbox pages that are open while decisions are measured
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    watchers: u32,
    /// Length in seconds of each of six measurements of decisions, three with open inbox pages and three without; fewer
    /// if no run is left
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
}

pub(super) async fn bench(connection: &Connection, load: &Load) -> Result<Report, Failure> {
    let target = Target::start(connection, &load.clients.database, &[]).await?;
    let (driver, client) = (&target.driver, &target.driver.client);
    let (pending, requests, concurrency) = (load.pending, load.requests, load.clients.concurrency);
    let waiting = fill(driver, pending).await?;
    let first = sample(requests, async || first_screen(client).await).await?;
    let counts = client.interrupts().counts(&mine());
    let counts = sample(requests, async || Ok(counts.clone().text().await.map(drop)?)).await?;
    let mut fields = ReportFields::of("inbox")
        .field(
            "pending",
            pending,
            "pending",
            format!("{pending}, one in {OTHERS_SHARE} for another principal"),
        )
        .member("requests", requests)
        .percentiles("firstScreenMs", "first screen (page, session, list, counts), p50 / p99", first)
        .percentiles("countsMs", "counts", counts);
    for (member, name, order, kind) in LISTS {
        let list = list(client, order, kind);
        let spread = sample(requests, async || Ok(list.clone().text().await.map(drop)?)).await?;
        fields = fields.percentiles(member, name, spread);
    }
    let (pages, rows) = every_page(client, pending).await?;
    let fields = fields
        .field("pageMs", pages, "each page of the list", format!("{}, {rows} rows", Percentiles::text(pages)))
        .member("rowsOfAllPages", rows)
        .member("concurrency", concurrency)
        .member("watchers", load.watchers);
    decisions(driver, waiting, load, fields).await
}

/// Starts runs for the inbox, and returns those that the benchmark may decide.
async fn fill(driver: &Driver, pending: u32) -> Result<Vec<String>, Failure> {
    let title = "Pay the invoice of the month?";
    let approvers = ("approversList", vec!["other-principal"].into());
    for (id, gate) in [
        (OTHERS, gate(title, [("timeoutMs", OTHERS_DUE_MS.into()), approvers])),
        (OPEN[0], gate(title, [("timeoutMs", DUE_MS.into())])),
        (OPEN[1], gate(title, [])),
    ] {
        driver.register(&workflow(id, "Benchmark of the inbox", vec![gate])).await?;
    }
    let others = pending / OTHERS_SHARE;
    park(others, async || driver.start(OTHERS).await).await?;
    let turn = Cell::new(0);
    let waiting = park(pending - others, async || {
        turn.set(turn.get() + 1);
        driver.start(OPEN[turn.get() % OPEN.len()]).await
    });
    let waiting = waiting.await?;
    join_all(waiting.iter().take(64).map(|run| driver.wait_for_status(run, Status::WaitingApproval))).await;
    Ok(waiting)
}

fn mine() -> ListPending {
    ListPending { assignee: Some("me".to_owned()), ..ListPending::default() }
}

fn list(client: &Client, order: &str, kind: Option<&str>) -> Request<PendingInterrupts<'static>> {
    let filter = ListPending { order: Some(order.to_owned()), kind: kind.map(str::to_owned), ..mine() };
    client.interrupts().pending(&filter).query(&Page { limit: Some(SCREEN), cursor: None })
}

/// Requests the page and the session, then the list and its counts concurrently.
async fn first_screen(client: &Client) -> Result<(), Failure> {
    client.get::<()>("/inbox").text().await?;
    client.sessions().current().text().await?;
    try_join(list(client, "oldest", None).text(), client.interrupts().counts(&mine()).text()).await?;
    Ok(())
}

/// Reads the list from the first page to the last, and returns the times and the number of rows.
async fn every_page(client: &Client, pending: u32) -> Result<(Option<Percentiles>, usize), Failure> {
    let progress = Progress::new("pages", pending.div_ceil(PAGE));
    let (mut samples, mut rows) = (Vec::new(), 0);
    let mut page = Page { limit: Some(PAGE.into()), cursor: None };
    loop {
        let begun = Instant::now();
        let found = client.interrupts().pending(&ListPending::default()).query(&page).await?;
        samples.push(begun.elapsed());
        progress.step();
        rows += found.interrupts.len();
        page.cursor = found.next_cursor;
        if page.cursor.is_none() {
            return Ok((Percentiles::of(samples), rows));
        }
    }
}

/// Measures decisions without and with open inbox pages in alternating order, because the speed of the machine varies.
async fn decisions(
    driver: &Driver,
    mut waiting: Vec<String>,
    load: &Load,
    fields: ReportFields,
) -> Result<Report, Failure> {
    let share = waiting.len() / (2 * ROUNDS);
    let (mut alone, mut watched, mut event_rates, mut failures) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for turn in 0..2 * ROUNDS {
        let these = waiting.split_off(waiting.len() - share);
        // Each round has one turn without pages and one with pages. Their order alternates from round to round.
        let batch = if (turn / 2 + turn) % 2 == 0 {
            let batch = decide_for(driver, these, load).await;
            alone.push(batch.per_second());
            batch
        } else {
            let (batch, events_per_second) = decide_watched(driver, these, load).await?;
            watched.push(batch.per_second());
            event_rates.push(events_per_second);
            batch
        };
        failures.extend(batch.failures);
    }
    let of = |rates: &[f64]| median(rates).unwrap_or_default();
    let (alone, watched, event_rate) = (of(&alone), of(&watched), of(&event_rates));
    let share = ratio(Some(watched), Some(alone));
    let alone_text = format!("{alone:.0}, {} at a time", load.clients.concurrency);
    let (watchers, share_text) = (load.watchers, format_number(share, 2));
    let watched_text = format!("{watched:.0} with {watchers} open streams, a share of {share_text}");
    let fields = fields
        .field("decisionsPerSecond", round(alone), "decisions/s", alone_text)
        .field("decisionsPerSecondWatched", round(watched), "decisions/s with open pages", watched_text)
        .number("watchedShare", share)
        .field(
            "countsToldPerSecond",
            round(event_rate),
            "events/s of each stream",
            format!("{event_rate:.1}"),
        );
    Ok(fields.finish(failures.len(), failures.first()))
}

async fn decide_for(driver: &Driver, waiting: Vec<String>, load: &Load) -> Batch<Duration> {
    decide(driver, waiting, load.clients.concurrency, Duration::from_secs(load.seconds)).await
}

/// Measures decisions while inbox pages are open. Also returns the events per second of each page.
async fn decide_watched(
    driver: &Driver,
    waiting: Vec<String>,
    load: &Load,
) -> Result<(Batch<Duration>, f64), Failure> {
    let events = Cell::new(0_u32);
    let open = (0..load.watchers).map(async |_| {
        let mut stream = driver.client.interrupts().watch_counts(&mine(), &StreamPending::default());
        stream.next().await?;
        events.set(events.get() + 1);
        Ok::<_, Failure>(stream)
    });
    let streams = try_join_all(open).await?;
    let watching = join_all(streams.into_iter().map(async |mut stream| {
        while let Ok(Some(frame)) = stream.next().await {
            events.set(events.get() + u32::from(frame.event == "counts"));
        }
    }));
    let deciding = std::pin::pin!(decide_for(driver, waiting, load));
    let decided = match select(deciding, std::pin::pin!(watching)).await {
        Either::Left((decided, _)) => decided,
        Either::Right((_, deciding)) => deciding.await,
    };
    let event_rate = f64::from(events.get()) / decided.seconds / f64::from(load.watchers.max(1));
    Ok((decided, event_rate))
}
