//! `bench all`: the most important figures, each with its goal.

use std::path::Path;

use clap::Args;
use holdpoint_engine::ProcessStats;
use serde::Serialize;

use super::cycle::{self, Cycle};
use super::fsyncs::{self, Fsyncs};
use super::measure::{Percentiles, RoundedNumber, median, ratio};
use super::parked::{self, ParkedRuns};
use super::scratch::ScratchArgs;
use super::server::OwnServer;
use super::{Connection, Driver, Failure, Report, ReportFields};

/// The concurrency of most figures.
const TOGETHER: u32 = 64;
/// Cycles of one pass, with 64 clients and with one.
const CYCLES_TOGETHER: u32 = 8_000;
const CYCLES_ALONE: u32 = 400;
/// Cycles before the first pass on a server.
const WARM_UP: u32 = 500;
const PARKED_RUNS: u32 = 10_000;

#[derive(Debug, Args)]
pub(crate) struct Load {
    #[command(flatten)]
    scratch: ScratchArgs,
    /// Number of passes on each server; the median is reported
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Divides the number of cycles and runs, for a short run; the figures are then less exact
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    divide: u32,
}

pub(super) async fn bench(connection: &Connection, load: &Load) -> Result<Report, Failure> {
    if connection.named_server().is_some() {
        return Err(Failure::usage("bench all measures a server that it starts")
            .hint("leave out --server (and HOLDPOINT_SERVER)"));
    }
    let scratch = &load.scratch.folder;
    let (server, ceiling) =
        (MeasuredProgram::server(scratch).await?, MeasuredProgram::ceiling(scratch).await?);
    let together = PassComparison { concurrency: TOGETHER, cycles: CYCLES_TOGETHER / load.divide }
        .measure(&server, &ceiling, load.rounds)
        .await?;
    let alone = PassComparison { concurrency: 1, cycles: (CYCLES_ALONE / load.divide).max(1) }
        .measure(&server, &ceiling, load.rounds)
        .await?;
    let fsyncs = fsyncs::count(&server.driver, &server.process, TOGETHER).await;
    drop((server, ceiling));
    let parked = parked::measure(&load.scratch, PARKED_RUNS / load.divide, TOGETHER).await?;
    Ok(report(&figures(&together, &alone, &fsyncs, &parked), load.rounds))
}

/// A server, or the program without an engine.
struct MeasuredProgram {
    driver: Driver,
    process: OwnServer,
}

impl MeasuredProgram {
    async fn server(scratch: &Path) -> Result<Self, Failure> {
        let server = Self::ready(OwnServer::start(scratch, None, &[])?).await?;
        server.driver.register_cycle_workflow().await?;
        Ok(server)
    }

    async fn ceiling(scratch: &Path) -> Result<Self, Failure> {
        Self::ready(OwnServer::start_ceiling(scratch)?).await
    }

    async fn ready(mut process: OwnServer) -> Result<Self, Failure> {
        let driver = Driver::new(process.settings())?;
        process.ready(&driver).await?;
        Ok(Self { driver, process })
    }

    fn cpu_seconds(&self) -> Option<f64> {
        ProcessStats::read(&self.process.pid().to_string()).map(|stats| stats.cpu_seconds)
    }
}

/// Passes of cycles that take turns on the server and on the program without an engine.
struct PassComparison {
    concurrency: u32,
    cycles: u32,
}

/// The medians of the passes.
struct ComparisonResult {
    /// The rate of the server divided by the rate of the program without an engine in the same round.
    share: Option<f64>,
    /// Seconds of CPU for 1,000 cycles, of the server and of the program without an engine.
    server_cpu: Option<f64>,
    ceiling_cpu: Option<f64>,
    /// The time from the answer to the completion, over all passes of the server.
    answer: Option<Percentiles>,
}

/// The result of one pass.
struct Pass {
    per_second: f64,
    cpu_per_thousand: Option<f64>,
    cycles: Vec<Cycle>,
}

impl PassComparison {
    async fn measure(
        &self,
        server: &MeasuredProgram,
        ceiling: &MeasuredProgram,
        rounds: u32,
    ) -> Result<ComparisonResult, Failure> {
        for program in [server, ceiling] {
            let warm_up = WARM_UP.min(self.cycles);
            cycle::pass(&program.driver, warm_up, self.concurrency).await.all("the warm-up failed")?;
        }
        let (mut server_passes, mut ceiling_passes) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            // The order alternates, because the speed of the machine changes over time.
            if round % 2 == 0 {
                server_passes.push(self.pass(server).await?);
                ceiling_passes.push(self.pass(ceiling).await?);
            } else {
                ceiling_passes.push(self.pass(ceiling).await?);
                server_passes.push(self.pass(server).await?);
            }
        }
        let rate = |pass: &Pass| pass.per_second;
        let shares: Vec<f64> =
            server_passes.iter().map(rate).zip(ceiling_passes.iter().map(rate)).map(|(a, b)| a / b).collect();
        let cpu = |passes: &[Pass]| -> Option<f64> {
            median(&passes.iter().map(|pass| pass.cpu_per_thousand).collect::<Option<Vec<_>>>()?)
        };
        Ok(ComparisonResult {
            share: median(&shares),
            server_cpu: cpu(&server_passes),
            ceiling_cpu: cpu(&ceiling_passes),
            answer: Percentiles::of(
                server_passes.iter().flat_map(|pass| pass.cycles.iter().map(|cycle| cycle.resolve)),
            ),
        })
    }

    async fn pass(&self, program: &MeasuredProgram) -> Result<Pass, Failure> {
        let before = program.cpu_seconds();
        let pass = cycle::pass(&program.driver, self.cycles, self.concurrency).await;
        let cpu = program.cpu_seconds().zip(before).map(|(after, before)| after - before);
        let (per_second, count) = (pass.per_second(), f64::from(self.cycles));
        let cycles = pass.all("a cycle failed")?;
        Ok(Pass { per_second, cpu_per_thousand: ratio(cpu.map(|cpu| cpu * 1000.0), Some(count)), cycles })
    }
}

/// A measured value and its goal.
#[derive(Serialize)]
struct Figure {
    figure: &'static str,
    value: RoundedNumber,
    unit: &'static str,
    goal: Goal,
    /// Null if the value is unknown.
    met: Option<bool>,
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Goal {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(least) => format!("at least {least}"),
            Self::AtMost(most) => format!("at most {most}"),
        }
    }
}

fn figures(
    together: &ComparisonResult,
    alone: &ComparisonResult,
    fsyncs: &Fsyncs,
    parked: &ParkedRuns,
) -> Vec<Figure> {
    let cpu_ratio = ratio(together.server_cpu, together.ceiling_cpu);
    let (p50, p99) = together.answer.map(|spread| (spread.p50, spread.p99)).unzip();
    let megabytes = parked.memory.map(|bytes| bytes / 1e6);
    let alone_fsyncs = match fsyncs {
        Fsyncs::PerCycle { alone, .. } => Some(*alone),
        Fsyncs::Unknown(_) => None,
    };
    let figure = |figure, value: Option<f64>, unit, goal: Goal| Figure {
        figure,
        value: RoundedNumber(value),
        unit,
        goal,
        met: value.map(|value| goal.is_met(value)),
    };
    vec![
        figure("64 at a time: share of the ceiling", together.share, "", Goal::AtLeast(0.65)),
        figure("64 at a time: server CPU for 1,000 cycles", together.server_cpu, "s", Goal::AtMost(0.17)),
        figure("64 at a time: CPU as a multiple of the ceiling", cpu_ratio, "", Goal::AtMost(1.93)),
        figure("64 at a time: answer → completed, p50", p50, "ms", Goal::AtMost(4.5)),
        figure("64 at a time: answer → completed, p99", p99, "ms", Goal::AtMost(9.0)),
        figure("one at a time: share of the ceiling", alone.share, "", Goal::AtLeast(0.80)),
        figure("one at a time: fsyncs per cycle", alone_fsyncs, "", Goal::AtMost(2.05)),
        figure("waiting runs: server memory", megabytes, "MB", Goal::AtMost(40.0)),
        figure("waiting runs: disk per run", parked.disk_per_run, "bytes", Goal::AtMost(1200.0)),
    ]
}

fn report(figures: &[Figure], rounds: u32) -> Report {
    let fields = ReportFields::of("all").member("rounds", rounds).member("figures", figures);
    let fields = figures.iter().fold(fields, |fields, figure| {
        let value = match figure.value.0 {
            Some(value) => format!("{:.2} {}", value, figure.unit).trim_end().to_owned(),
            None => "unknown".to_owned(),
        };
        let verdict = match figure.met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "not measured",
        };
        fields.line(figure.figure, format!("{value:<14} goal {:<16} {verdict}", figure.goal.text()))
    });
    fields.finish(0, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_includes_its_limit() {
        assert!(Goal::AtLeast(0.65).is_met(0.65) && !Goal::AtLeast(0.65).is_met(0.649));
        assert!(Goal::AtMost(40.0).is_met(40.0) && !Goal::AtMost(40.0).is_met(40.1));
    }

    #[test]
    fn a_figure_without_a_value_is_neither_met_nor_missed() {
        let none = ComparisonResult { share: None, server_cpu: None, ceiling_cpu: None, answer: None };
        let parked = ParkedRuns { memory: Some(41e6), disk_per_run: None };
        let found = figures(&none, &none, &Fsyncs::Unknown(String::new()), &parked);
        let met: Vec<_> =
            found.iter().filter_map(|figure| figure.met.map(|met| (figure.figure, met))).collect();
        assert_eq!(met, [("waiting runs: server memory", false)]);
    }
}
