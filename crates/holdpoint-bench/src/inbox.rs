//! `bench inbox`: the questions of the inbox's first screen while very much waits, and what those who watch it cost the
//! people who decide.

use std::cell::Cell;
use std::time::{Duration, Instant};

use futures_util::future::{Either, join_all, select, try_join_all};
use http_body_util::BodyExt;
use hyper::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Report;
use super::decide::{Decided, decide, park};
use super::driver::{Driver, line_of};
use super::measure::{Spread, middle, number, ratio, round, written};
use holdpoint_cli::failure::Failure;
use holdpoint_cli::output::Progress;

/// For anybody, with a deadline and without, and for somebody else.
const OPEN: [&str; 2] = ["bench-inbox-due", "bench-inbox-open"];
const OTHERS: &str = "bench-inbox-others";
/// One in so many is for somebody else. Theirs came first and are due first, which is the harder case.
const OTHERS_SHARE: u32 = 4;
const OTHERS_DUE_MS: u64 = 24 * 60 * 60 * 1000;
const DUE_MS: u64 = 2 * OTHERS_DUE_MS;
/// As the page asks for it.
const LIST: &str = "/v1/interrupts?limit=50&assignee=me&order=";
const COUNTS: &str = "/v1/interrupts:counts?assignee=me";
const STREAM: &str = "/v1/interrupts/stream?assignee=me";
/// What the page asks for one by one; the names are those of the report.
const QUESTIONS: [(&str, &str, &str); 4] = [
    ("listMs", "oldest first", "oldest"),
    ("newestMs", "newest first", "newest"),
    ("deadlineMs", "by deadline", "deadline"),
    ("approvalsMs", "approvals only", "oldest&kind=approval"),
];
/// Pages on the way from the first to the last.
const PAGE: u32 = 100;
/// Decisions are counted so often without watchers, and as often with them.
const ROUNDS: usize = 3;

pub(super) struct Load {
    pub(super) concurrency: u32,
    pub(super) pending: u32,
    pub(super) requests: u32,
    pub(super) watchers: u32,
    pub(super) seconds: u64,
}

/// What decisions and watchers did beside one another.
struct Beside {
    alone: f64,
    watched: f64,
    told_per_second: f64,
    errors: Vec<String>,
}

pub(super) async fn bench(driver: &Driver, load: &Load) -> Result<Report, Failure> {
    let waiting = fill(driver, load.pending).await?;
    let first = sample(load.requests, async || first_screen(driver).await).await?;
    let counts = sample(load.requests, async || driver.look(COUNTS).await).await?;
    let mut asked = Vec::new();
    for (_, _, order) in QUESTIONS {
        let path = format!("{LIST}{order}");
        asked.push(sample(load.requests, async || driver.look(&path).await).await?);
    }
    let pages = every_page(driver, load.pending).await?;
    let beside = beside(driver, waiting, load).await?;
    Ok(report(load, first, counts, &asked, &pages, &beside))
}

/// Everything that waits; those that the benchmark may decide come back.
async fn fill(driver: &Driver, pending: u32) -> Result<Vec<String>, Failure> {
    let gates = [
        (OTHERS, json!({"timeoutMs": OTHERS_DUE_MS, "approversList": ["somebody-else"]})),
        (OPEN[0], json!({"timeoutMs": DUE_MS})),
        (OPEN[1], json!({})),
    ];
    for (id, mut config) in gates {
        config["title"] = json!("Pay the invoice of the month?");
        config["actions"] = json!(["accept", "reject"]);
        let workflow =
            line_of(id, "Benchmark of the inbox", &[("gate".to_owned(), "core.approvalGate", config)]);
        driver.exchange(Method::PUT, &format!("/v1/workflows/{id}"), &workflow).await?;
    }
    let others = pending / OTHERS_SHARE;
    park(others, async || driver.start(OTHERS).await).await?;
    let turn = Cell::new(0);
    let waiting = park(pending - others, async || {
        turn.set(turn.get() + 1);
        driver.start(OPEN[turn.get() % OPEN.len()]).await
    });
    let waiting = waiting.await?;
    join_all(waiting.iter().take(64).map(|run| driver.until(run, "waiting-approval"))).await;
    Ok(waiting)
}

/// One after another, as one person looks at them.
async fn sample(count: u32, once: impl AsyncFn() -> Result<(), Failure>) -> Result<Option<Spread>, Failure> {
    let mut samples = Vec::new();
    for _ in 0..count {
        let begun = Instant::now();
        once().await?;
        samples.push(begun.elapsed());
    }
    Ok(Spread::of(samples))
}

/// The page, who is signed in, and then at once the list and how much there is.
async fn first_screen(driver: &Driver) -> Result<(), Failure> {
    driver.look("/inbox").await?;
    driver.look("/v1/session").await?;
    let list = format!("{LIST}oldest");
    try_join_all([driver.look(&list), driver.look(COUNTS)]).await.map(drop)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    interrupts: Vec<Value>,
    next_cursor: Option<String>,
}

struct Pages {
    spread: Option<Spread>,
    rows: usize,
}

/// From the first page to the last.
async fn every_page(driver: &Driver, pending: u32) -> Result<Pages, Failure> {
    let progress = Progress::new("pages", pending.div_ceil(PAGE));
    let (mut samples, mut rows, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let path = format!("/v1/interrupts?limit={PAGE}{cursor}");
        let begun = Instant::now();
        let answer = driver.exchange(Method::GET, &path, &Value::Null).await?;
        samples.push(begun.elapsed());
        progress.step();
        let page: Page = serde_json::from_value(answer)
            .map_err(|error| Failure::broken(format!("the server's list is broken: {error}")))?;
        rows += page.interrupts.len();
        match page.next_cursor {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(Pages { spread: Spread::of(samples), rows }),
        }
    }
}

/// Decisions without watchers and with them, now one first and now the other: the machine's mood changes.
async fn beside(driver: &Driver, mut waiting: Vec<String>, load: &Load) -> Result<Beside, Failure> {
    let share = waiting.len() / (2 * ROUNDS);
    let (mut alone, mut watched, mut told) = (Vec::new(), Vec::new(), Vec::new());
    let mut errors = Vec::new();
    for round in 0..ROUNDS {
        for turn in 0..2 {
            let these = waiting.split_off(waiting.len() - share);
            if (round + turn) % 2 == 0 {
                let decided =
                    decide(driver, these, load.concurrency, Duration::from_secs(load.seconds)).await;
                alone.push(rate(decided, &mut errors));
            } else {
                let (decided, heard) = decide_watched(driver, these, load).await?;
                told.push(heard);
                watched.push(rate(decided, &mut errors));
            }
        }
    }
    let of = |rates: &[f64]| middle(rates).unwrap_or_default();
    Ok(Beside { alone: of(&alone), watched: of(&watched), told_per_second: of(&told), errors })
}

/// What came of it, and how often in a second each of those who watched was told something.
async fn decide_watched(
    driver: &Driver,
    waiting: Vec<String>,
    load: &Load,
) -> Result<(Decided, f64), Failure> {
    let heard = Cell::new(0_u32);
    let streams = try_join_all((0..load.watchers).map(|_| driver.listen(STREAM))).await?;
    let watching = join_all(streams.into_iter().map(async |mut stream| {
        while let Some(Ok(frame)) = stream.frame().await {
            let counted = frame.data_ref().is_some_and(|data| data.starts_with(b"event: counts"));
            heard.set(heard.get() + u32::from(counted));
        }
    }));
    let length = Duration::from_secs(load.seconds);
    let deciding = std::pin::pin!(decide(driver, waiting, load.concurrency, length));
    // Whoever watches does so for as long as somebody decides.
    let decided = match select(deciding, std::pin::pin!(watching)).await {
        Either::Left((decided, _)) => decided,
        Either::Right((_, deciding)) => deciding.await,
    };
    let told = f64::from(heard.get()) / decided.seconds / f64::from(load.watchers.max(1));
    Ok((decided, told))
}

fn rate(decided: Decided, errors: &mut Vec<String>) -> f64 {
    errors.extend(decided.errors);
    decided.samples.len() as f64 / decided.seconds
}

fn report(
    load: &Load,
    first: Option<Spread>,
    counts: Option<Spread>,
    asked: &[Option<Spread>],
    pages: &Pages,
    beside: &Beside,
) -> Report {
    let share = ratio(Some(beside.watched), Some(beside.alone));
    let mut json = Map::new();
    json.extend(
        QUESTIONS.iter().zip(asked).map(|((name, ..), spread)| ((*name).to_owned(), Spread::json(*spread))),
    );
    let rest = json!({
        "bench": "inbox", "pending": load.pending, "requests": load.requests,
        "firstScreenMs": Spread::json(first), "countsMs": Spread::json(counts),
        "pageMs": Spread::json(pages.spread), "rowsOfAllPages": pages.rows,
        "concurrency": load.concurrency, "watchers": load.watchers,
        "decisionsPerSecond": round(beside.alone), "decisionsPerSecondWatched": round(beside.watched),
        "watchedShare": number(share), "countsToldPerSecond": round(beside.told_per_second),
        "errors": beside.errors.len(), "firstError": beside.errors.first(),
    });
    json.extend(rest.as_object().cloned().unwrap_or_default());
    let mut facts = vec![
        ("pending", format!("{}, one in {OTHERS_SHARE} for somebody else", load.pending)),
        ("first screen (page, who, list, counts), p50 / p99", Spread::text(first)),
        ("counts", Spread::text(counts)),
    ];
    facts.extend(QUESTIONS.iter().zip(asked).map(|((_, name, _), spread)| (*name, Spread::text(*spread))));
    facts.extend([
        ("each page to the last", format!("{}, {} rows", Spread::text(pages.spread), pages.rows)),
        ("decisions/s", format!("{:.0}, {} at a time", beside.alone, load.concurrency)),
        (
            "decisions/s while watched",
            format!("{:.0} with {} open streams, {} of it", beside.watched, load.watchers, written(share, 2)),
        ),
        ("counts told to each, per second", format!("{:.1}", beside.told_per_second)),
        ("errors", beside.errors.len().to_string()),
        ("first error", beside.errors.first().cloned().unwrap_or_default()),
    ]);
    Report { json: Value::Object(json), facts, errors: beside.errors.len() }
}
