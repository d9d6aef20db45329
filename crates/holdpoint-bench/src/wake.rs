//! `bench wake`: measures, through the library, the time that ready work waits for a worker, without load and with
//! clients that start runs continuously.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use holdpoint_core::{Owner, StartRequest, TenantId, WorkflowId};
use holdpoint_engine::{EffectContext, Engine, Node, Options, Outputs, Stop};
use serde::Serialize;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::definitions::{object, workflow};
use super::measure::{Percentiles, round};
use super::scratch::{TempFolder, random_name};
use super::{BenchDatabase, DatabaseArgs, Failure, Progress, Report, ReportFields, broken};

/// The time limit for steps that usually take milliseconds.
const WAIT_MAX: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
pub(crate) struct Load {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Number of samples of each measurement in each pass
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    samples: u32,
    /// Number of clients that start runs continuously in the second pass
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4096))]
    clients: u32,
}

/// A node that reports its start and ends when it gets a permit.
struct BlockingNode {
    begun: UnboundedSender<Instant>,
    ends: Arc<Semaphore>,
}

impl Node for BlockingNode {
    async fn run(&self, _: &mut EffectContext) -> Result<Outputs, Stop> {
        // The receiver is closed after the benchmark.
        let _ = self.begun.send(Instant::now());
        if let Ok(permit) = self.ends.acquire().await {
            permit.forget();
        }
        Ok(Outputs::new())
    }
}

/// A node that ends immediately, for the load.
struct NoopNode;

impl Node for NoopNode {
    async fn run(&self, _: &mut EffectContext) -> Result<Outputs, Stop> {
        Ok(Outputs::new())
    }
}

struct WakeBench {
    engine: Engine,
    /// An engine without a worker on the same PostgreSQL.
    other: Option<Engine>,
    tenant: TenantId,
    begun: UnboundedReceiver<Instant>,
    ends: Arc<Semaphore>,
}

/// The results of one pass.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Pass {
    behind_holder_ms: Option<Percentiles>,
    other_node_ms: Option<Percentiles>,
    load_runs_per_second: f64,
}

pub(super) async fn bench(load: &Load) -> Result<Report, Failure> {
    let database = BenchDatabase::prepare(&load.database)?;
    let folder = TempFolder::create(&load.database.scratch.folder)?;
    let mut bench = WakeBench::open(&database, &folder.path).await?;
    let (stop, stopping) = watch::channel(false);
    let worker = tokio::spawn(bench.engine.worker().run(stopping));
    let progress = Progress::new("passes", 2);
    let idle = bench.pass(load.samples, 0).await?;
    progress.step();
    let loaded = bench.pass(load.samples, load.clients).await?;
    progress.step();
    stop.send_replace(true);
    worker.await.map_err(broken)?;
    if let Some(other) = &bench.other {
        other.close().await;
    }
    bench.engine.close().await;
    Ok(report(&database, load, &idle, &loaded))
}

impl WakeBench {
    async fn open(database: &BenchDatabase, folder: &Path) -> Result<Self, Failure> {
        let name = format!("bench_{}", random_name()?);
        let location = database.location(&name, folder)?;
        let (begun, has_begun) = unbounded_channel();
        let ends = Arc::new(Semaphore::new(0));
        let options = || {
            let held = BlockingNode { begun: begun.clone(), ends: ends.clone() };
            Options::new(location.clone())
                .manual_worker()
                .node("bench.held", held)
                .node("bench.brief", NoopNode)
        };
        let engine = Engine::open(options()).await.map_err(broken)?;
        let tenant = TenantId::parse(&name).map_err(broken)?;
        for (kind, node) in [("held", "bench.held"), ("brief", "bench.brief")] {
            let workflow = workflow(kind, kind, vec![("n".to_owned(), node, object([]))]);
            let definition = serde_json::to_value(workflow).map_err(broken)?;
            engine.workflows().register(&tenant, definition).await.map_err(broken)?;
        }
        let other = match database.is_postgres() {
            true => Some(Engine::open(options()).await.map_err(broken)?),
            false => None,
        };
        let bench = Self { engine, other, tenant, begun: has_begun, ends };
        bench.wait_for_peer().await?;
        Ok(bench)
    }

    /// Waits until both engines receive notifications of each other, about a second after their start.
    async fn wait_for_peer(&self) -> Result<(), Failure> {
        let Some(other) = &self.other else { return Ok(()) };
        let until = Instant::now() + WAIT_MAX;
        while !(self.engine.sees_other_nodes() && other.sees_other_nodes()) {
            if Instant::now() > until {
                return Err(Failure::broken(
                    "the two engines received no notification from each other within 60 seconds; check LISTEN/NOTIFY of the database",
                ));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    async fn pass(&mut self, samples: u32, clients: u32) -> Result<Pass, Failure> {
        let (over, begun) = (Arc::new(AtomicBool::new(false)), Instant::now());
        let mut load = JoinSet::new();
        for _ in 0..clients {
            let (engine, tenant, over) = (self.engine.clone(), self.tenant.clone(), over.clone());
            load.spawn(async move {
                let mut runs = 0_u64;
                while !over.load(Ordering::Relaxed) && start(&engine, &tenant, "brief", None).await.is_ok() {
                    runs += 1;
                }
                runs
            });
        }
        let measured = self.measure(samples).await;
        over.store(true, Ordering::Relaxed);
        let started = load.join_all().await.iter().sum::<u64>() as f64;
        let load_runs_per_second = started / begun.elapsed().as_secs_f64();
        let (behind_holder, other_node) = measured?;
        Ok(Pass {
            behind_holder_ms: Percentiles::of(behind_holder),
            other_node_ms: Percentiles::of(other_node),
            load_runs_per_second: round(load_runs_per_second),
        })
    }

    async fn measure(&mut self, samples: u32) -> Result<(Vec<Duration>, Vec<Duration>), Failure> {
        let (mut behind_holder, mut other_node) = (Vec::new(), Vec::new());
        for _ in 0..samples {
            behind_holder.push(self.behind_holder().await?);
            if let Some(other) = self.other.clone() {
                let asked = Instant::now();
                start(&other, &self.tenant, "held", None).await?;
                other_node.push(self.next_start().await?.saturating_duration_since(asked));
                self.ends.add_permits(1);
            }
        }
        Ok((behind_holder, other_node))
    }

    /// Returns the time from the end of the node that holds a dispatch thread to the start of the next node.
    async fn behind_holder(&mut self) -> Result<Duration, Failure> {
        let thread = random_name()?;
        start(&self.engine, &self.tenant, "held", Some(&thread)).await?;
        self.next_start().await?;
        start(&self.engine, &self.tenant, "held", Some(&thread)).await?;
        let ended = Instant::now();
        self.ends.add_permits(1);
        let begun = self.next_start().await?;
        self.ends.add_permits(1);
        Ok(begun.saturating_duration_since(ended))
    }

    async fn next_start(&mut self) -> Result<Instant, Failure> {
        let begun = tokio::time::timeout(WAIT_MAX, self.begun.recv()).await.ok().flatten();
        begun.ok_or_else(|| Failure::refused("a ready run did not start within 60 seconds"))
    }
}

async fn start(engine: &Engine, tenant: &TenantId, kind: &str, thread: Option<&str>) -> Result<(), Failure> {
    let owner = Owner { tenant: tenant.clone(), principal: "bench".to_owned() };
    let start = StartRequest { thread: thread.map(str::to_owned), ..StartRequest::new(owner) };
    let workflow = WorkflowId::parse(kind).map_err(broken)?;
    engine.runs().create(&workflow, start).await.map(drop).map_err(broken)
}

fn report(database: &BenchDatabase, load: &Load, idle: &Pass, loaded: &Pass) -> Report {
    let both = |of: &dyn Fn(&Pass) -> Option<Percentiles>| match of(idle) {
        Some(_) => format!("{:<18}  {}", Percentiles::text(of(idle)), Percentiles::text(of(loaded))),
        None => String::new(),
    };
    let fields = ReportFields::of("wake")
        .member("samples", load.samples)
        .member("clients", load.clients)
        .member("idle", idle)
        .member("loaded", loaded)
        .member("errors", 0)
        .line("database", database.describe())
        .line("samples of each", load.samples.to_string())
        .line("", format!("{:<18}  with {} clients", "without load", load.clients))
        .line(
            "end of a run → start of the next in its thread, p50 / p99",
            both(&|pass| pass.behind_holder_ms),
        )
        .line("start request in another process → start, p50 / p99", both(&|pass| pass.other_node_ms))
        .line("runs/s of the clients", format!("{:.0}", loaded.load_runs_per_second));
    Report { fields, errors: 0 }
}
