//! `bench ag-ui`: many front ends at once, each with a run of its own that takes a while; how soon each hears something,
//! and what the server needs meanwhile.

use std::cell::Cell;
use std::time::{Duration, Instant};

use futures_util::future::{join, join_all};
use hyper::Method;
use serde_json::{Value, json};

use super::Report;
use super::driver::Driver;
use super::measure::{Spread, number, round, written};
use holdpoint_cli::failure::Failure;
use holdpoint_cli::output::Progress;

const AGENT: &str = "bench-ag-ui";
/// Runs before counting starts.
const WARM_UP: u32 = 50;

pub(super) struct Load {
    pub(super) runs: u32,
    pub(super) seconds: u64,
}

/// What the front ends saw.
struct Seen {
    first: Vec<Duration>,
    errors: Vec<String>,
    seconds: f64,
    /// While all of them were at it.
    memory: Option<f64>,
    at_once: u32,
}

pub(super) async fn bench(driver: &Driver, load: &Load) -> Result<Report, Failure> {
    declare(driver, Duration::ZERO).await?;
    let warm = crowd(driver, "warm", WARM_UP).await;
    if let Some(error) = warm.errors.first() {
        return Err(Failure::refused(format!("the warm-up failed: {error}")));
    }
    let before = driver.metrics().await.get("process_resident_memory_bytes");
    declare(driver, Duration::from_secs(load.seconds)).await?;
    let seen = crowd(driver, "run", load.runs).await;
    Ok(report(load, before, &seen))
}

/// An agent whose model thinks for so long.
async fn declare(driver: &Driver, thinks: Duration) -> Result<(), Failure> {
    let ms = u64::try_from(thinks.as_millis()).unwrap_or(u64::MAX);
    let mut step = json!({"text": "That was all."});
    if ms > 0 {
        step["delayMs"] = json!(ms);
    }
    let definition = json!({"agentId": AGENT, "model": {"provider": "scripted", "steps": [step]}});
    driver.exchange(Method::PUT, &format!("/v1/agents/{AGENT}"), &definition).await.map(drop)
}

/// All at once, each in a thread of its own.
async fn crowd(driver: &Driver, name: &str, count: u32) -> Seen {
    let progress = Progress::new("runs", count);
    let (open, ended, most) = (Cell::new(0), Cell::new(0), Cell::new((0, None)));
    let begun = Instant::now();
    let front_ends = (0..count).map(|place| {
        let (open, ended, progress) = (&open, &ended, &progress);
        async move {
            let path = format!("/ag-ui/{AGENT}");
            let seen = driver.stream(&path, &input(name, place), || open.set(open.get() + 1)).await;
            ended.set(ended.get() + 1);
            progress.step();
            seen
        }
    });
    let watch = async {
        // Until all have heard something, or some are through already.
        while open.get() < count && ended.get() == 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        most.set((
            open.get().saturating_sub(ended.get()),
            driver.metrics().await.get("process_resident_memory_bytes"),
        ));
    };
    let (results, ()) = join(join_all(front_ends), watch).await;
    let seconds = begun.elapsed().as_secs_f64();
    let (mut first, mut errors) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(soon) => first.push(soon),
            Err(failure) => errors.push(failure.message().to_owned()),
        }
    }
    let (at_once, memory) = most.get();
    Seen { first, errors, seconds, memory, at_once }
}

fn input(name: &str, place: u32) -> Value {
    let message = json!({"id": format!("m{place}"), "role": "user", "content": "Please"});
    json!({
        "threadId": format!("{name}-{place}-{}", std::process::id()), "runId": format!("r{place}"),
        "protocolVersion": "1.0", "messages": [message], "tools": [], "context": [], "state": {}, "forwardedProps": {},
    })
}

fn report(load: &Load, before: Option<f64>, seen: &Seen) -> Report {
    let spread = Spread::of(seen.first.clone());
    let each = before.zip(seen.memory).map(|(before, with)| (with - before) / f64::from(load.runs));
    let json = json!({
        "bench": "ag-ui", "runs": load.runs, "thinkingSeconds": load.seconds, "atOnce": seen.at_once,
        "seconds": round(seen.seconds), "firstByteMs": Spread::json(spread),
        "serverMemoryBytesBefore": number(before), "serverMemoryBytes": number(seen.memory),
        "serverMemoryBytesPerRun": number(each), "errors": seen.errors.len(), "firstError": seen.errors.first(),
    });
    let megabytes = |bytes: Option<f64>| format!("{} MB", written(bytes.map(|bytes| bytes / 1e6), 1));
    let facts = vec![
        ("runs", format!("{}, each thinking for {} s, in {:.2} s", load.runs, load.seconds, seen.seconds)),
        ("open at once", seen.at_once.to_string()),
        ("first byte, p50 / p99", Spread::text(spread)),
        ("server memory before", megabytes(before)),
        ("server memory with all of them", megabytes(seen.memory)),
        ("memory for one", format!("{} kB", written(each.map(|bytes| bytes / 1e3), 1))),
        ("errors", seen.errors.len().to_string()),
        ("first error", seen.errors.first().cloned().unwrap_or_default()),
    ];
    Report { json, facts, errors: seen.errors.len() }
}
