//! `bench mailbox`: enqueue, claim and ack through the library, with shared commits and with one for each operation.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use holdpoint_core::TenantId;
use holdpoint_core::mailbox::{MailboxError, RunDispatch};
use holdpoint_engine::{Engine, Options};
use serde_json::{Value, json};

use super::Report;
use super::ground::Ground;
use super::measure::{Spread, number, ratio, round, written};
use super::scratch::{Folder, random_name};
use holdpoint_cli::failure::Failure;
use holdpoint_cli::output::Progress;
use holdpoint_engine::Process;

/// Enqueue, claim, ack.
const OPERATIONS: f64 = 3.0;
/// An odd number, so that there is one in the middle.
const ROUNDS: u32 = 3;
/// The part of a round's time that is spent before counting starts.
const WARM_UP: u32 = 5;
const LEASE_MS: u64 = 30_000;

/// The two ways that are compared.
#[derive(Clone, Copy, Debug)]
enum Arm {
    /// As always: what waits shares a commit.
    Shared,
    /// A commit for each operation.
    Alone,
}

/// What the clients of a round did.
struct Driven {
    samples: Vec<Duration>,
    errors: Vec<String>,
    seconds: f64,
}

/// What one round gave.
struct Round {
    cycles: usize,
    operations_per_second: f64,
    spread: Option<Spread>,
    rows_per_commit: Option<f64>,
    round_trips_per_cycle: Option<f64>,
    /// Seconds for a thousand cycles: of this process, clients and all, and of the database server.
    own_cpu: Option<f64>,
    database_cpu: Option<f64>,
    errors: Vec<String>,
}

pub(super) async fn bench(
    ground: &Ground,
    scratch: &Path,
    concurrency: u32,
    length: Duration,
) -> Result<Report, Failure> {
    let folder = Folder::create(scratch)?;
    let progress = Progress::new("rounds", ROUNDS * 2);
    let (mut shared, mut alone) = (Vec::new(), Vec::new());
    for number in 0..ROUNDS {
        // The first has the better or the worse of it; both are first in turn.
        let order = if number % 2 == 0 { [Arm::Shared, Arm::Alone] } else { [Arm::Alone, Arm::Shared] };
        for arm in order {
            let done = run(arm, ground, &folder.path, concurrency, length).await?;
            match arm {
                Arm::Shared => shared.push(done),
                Arm::Alone => alone.push(done),
            }
            progress.step();
        }
    }
    Ok(report(ground, concurrency, length, shared, alone))
}

async fn run(
    arm: Arm,
    ground: &Ground,
    folder: &Path,
    concurrency: u32,
    length: Duration,
) -> Result<Round, Failure> {
    let name = format!("bench_{}", random_name()?);
    let options = Options::new(ground.location(&name, folder)?);
    let options = match arm {
        Arm::Shared => options,
        Arm::Alone => options.batch_max(1),
    };
    let engine = Engine::open(options).await.map_err(|error| broken(&error))?;
    let tenant = TenantId::parse(&name).map_err(|error| broken(&error))?;
    drive(&engine, &tenant, "warm", concurrency, length / WARM_UP).await;
    let before = Readings::take(&engine, ground);
    let driven = drive(&engine, &tenant, "measured", concurrency, length).await;
    let after = Readings::take(&engine, ground);
    engine.close().await;
    Ok(Round::of(driven, &before, &after))
}

/// What has been counted so far.
struct Readings {
    commits: f64,
    round_trips: f64,
    own_cpu: Option<f64>,
    database_cpu: Option<f64>,
}

impl Readings {
    fn take(engine: &Engine, ground: &Ground) -> Self {
        let counters = engine.counters();
        Self {
            commits: counters.commits.load(Ordering::Relaxed) as f64,
            round_trips: counters.round_trips.load(Ordering::Relaxed) as f64,
            own_cpu: Process::read("self").map(|process| process.cpu_seconds),
            database_cpu: ground.cpu_seconds(),
        }
    }
}

impl Round {
    fn of(driven: Driven, before: &Readings, after: &Readings) -> Self {
        let cycles = driven.samples.len() as f64;
        let operations = cycles * OPERATIONS;
        let per_thousand = |before: Option<f64>, after: Option<f64>| {
            let grown = after.zip(before).map(|(after, before)| (after - before) * 1000.0);
            ratio(grown, Some(cycles))
        };
        // A file has no server to wait for.
        let round_trips = Some(after.round_trips - before.round_trips).filter(|trips| *trips > 0.0);
        Self {
            cycles: driven.samples.len(),
            operations_per_second: operations / driven.seconds,
            spread: Spread::of(driven.samples),
            // Each operation writes one row: its dispatch.
            rows_per_commit: ratio(Some(operations), Some(after.commits - before.commits)),
            round_trips_per_cycle: ratio(round_trips, Some(cycles)),
            own_cpu: per_thousand(before.own_cpu, after.own_cpu),
            database_cpu: per_thousand(before.database_cpu, after.database_cpu),
            errors: driven.errors,
        }
    }
}

/// Clients at the same time, each on a thread of the mailbox of its own, until the time is over.
async fn drive(engine: &Engine, tenant: &TenantId, name: &str, concurrency: u32, length: Duration) -> Driven {
    let begun = Instant::now();
    let clients = (0..concurrency).map(|number| {
        let client = client(engine.clone(), tenant.clone(), format!("{name}-{number}"), begun + length);
        tokio::spawn(client)
    });
    let (mut samples, mut errors) = (Vec::new(), Vec::new());
    for ended in join_all(clients).await {
        match ended {
            Ok((cycles, error)) => {
                samples.extend(cycles);
                errors.extend(error);
            }
            Err(panicked) => errors.push(panicked.to_string()),
        }
    }
    Driven { samples, errors, seconds: begun.elapsed().as_secs_f64() }
}

/// How long each cycle took, and what ended the client before its time.
async fn client(
    engine: Engine,
    tenant: TenantId,
    thread: String,
    until: Instant,
) -> (Vec<Duration>, Option<String>) {
    let mut samples = Vec::new();
    loop {
        let begun = Instant::now();
        if begun >= until {
            return (samples, None);
        }
        // Ids that grow with time, as those of real dispatches do.
        let id = format!("{:08}-{thread}-{tenant}", samples.len());
        match cycle(&engine, &tenant, &thread, &id).await {
            Ok(()) => samples.push(begun.elapsed()),
            Err(error) => return (samples, Some(error.to_string())),
        }
    }
}

async fn cycle(engine: &Engine, tenant: &TenantId, thread: &str, id: &str) -> Result<(), MailboxError> {
    let mailbox = engine.mailbox(tenant);
    mailbox.enqueue(&RunDispatch::queued(tenant, id, thread, id, engine.now())).await?;
    let claimed = mailbox.claim(thread, thread, LEASE_MS, engine.now(), 1).await?;
    let token = claimed.first().and_then(|row| row.claim_token.as_deref());
    let token = token.ok_or_else(|| MailboxError::Io("what was enqueued could not be claimed".to_owned()))?;
    mailbox.ack(id, token, engine.now()).await.map(drop)
}

fn report(
    ground: &Ground,
    concurrency: u32,
    length: Duration,
    mut shared: Vec<Round>,
    mut alone: Vec<Round>,
) -> Report {
    let errors: Vec<String> = [&mut shared, &mut alone]
        .into_iter()
        .flatten()
        .flat_map(|round| std::mem::take(&mut round.errors))
        .collect();
    let (shared, alone) = (Rounds::of(shared), Rounds::of(alone));
    let gain = ratio(shared.rate(), alone.rate());
    let json = json!({
        "bench": "mailbox", "concurrency": concurrency, "secondsPerRound": round(length.as_secs_f64()),
        "rounds": ROUNDS, "shared": shared.json(), "alone": alone.json(), "ratio": number(gain),
        "errors": errors.len(), "firstError": errors.first(),
    });
    let both = |value: &dyn Fn(&Round) -> String| {
        let of = |rounds: &Rounds| rounds.middle().map(value).unwrap_or_default();
        let (shared, alone) = (of(&shared), of(&alone));
        if shared.is_empty() { shared } else { format!("{shared:<18}  {alone}") }
    };
    let known = |value: Option<f64>, decimals: usize, unit: &str| {
        value.map(|value| format!("{value:.decimals$}{unit}")).unwrap_or_default()
    };
    let rounds = format!("{ROUNDS} of {} s each way, {concurrency} clients", length.as_secs_f64());
    let facts = vec![
        ("database", ground.shown()),
        ("rounds, of which the middle one counts", rounds),
        ("", format!("{:<18}  {}", "shared commits", "one operation a commit")),
        ("operations/s", both(&|round| format!("{:.0}", round.operations_per_second))),
        ("enqueue → claim → ack, p50 / p99", both(&|round| Spread::text(round.spread))),
        ("rows per commit", both(&|round| written(round.rows_per_commit, 1))),
        ("round trips per cycle", both(&|round| known(round.round_trips_per_cycle, 2, ""))),
        ("CPU per 1000 cycles, clients included", both(&|round| known(round.own_cpu, 3, " s"))),
        ("database CPU per 1000 cycles", both(&|round| known(round.database_cpu, 3, " s"))),
        ("what sharing gains", format!("{} times the operations", written(gain, 2))),
        ("errors", errors.len().to_string()),
        ("first error", errors.first().cloned().unwrap_or_default()),
    ];
    Report { json, facts, errors: errors.len() }
}

/// The rounds of one way, the slowest first.
struct Rounds(Vec<Round>);

impl Rounds {
    fn of(mut rounds: Vec<Round>) -> Self {
        rounds.sort_by(|a, b| a.operations_per_second.total_cmp(&b.operations_per_second));
        Self(rounds)
    }

    /// The one that speaks for all.
    fn middle(&self) -> Option<&Round> {
        self.0.get(self.0.len() / 2)
    }

    fn rate(&self) -> Option<f64> {
        self.middle().map(|round| round.operations_per_second)
    }

    fn json(&self) -> Value {
        let Some(middle) = self.middle() else { return Value::Null };
        let rates: Vec<f64> = self.0.iter().map(|one| round(one.operations_per_second)).collect();
        json!({
            "operationsPerSecond": round(middle.operations_per_second), "eachRound": rates,
            "cycles": middle.cycles, "cycleMs": Spread::json(middle.spread),
            "rowsPerCommit": number(middle.rows_per_commit),
            "roundTripsPerCycle": number(middle.round_trips_per_cycle),
            "cpuSecondsPer1000Cycles": number(middle.own_cpu),
            "databaseCpuSecondsPer1000Cycles": number(middle.database_cpu),
        })
    }
}

fn broken(error: &dyn std::fmt::Display) -> Failure {
    Failure::broken(error.to_string())
}
