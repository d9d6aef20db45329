//! Counts the fsyncs of a server with strace, in separate passes because tracing slows the server down.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::cycle::pass;
use super::measure::round;
use super::scratch::ChildProcess;
use super::server::OwnServer;
use super::{Driver, ReportFields};

const ALONE_CYCLES: u32 = 200;
const CYCLES_PER_CLIENT: u32 = 20;
const ATTACH_MAX: Duration = Duration::from_secs(5);
const ATTACH_POLL: Duration = Duration::from_millis(10);
/// Time for the tracer to write its log.
const DRAIN: Duration = Duration::from_millis(200);

pub(super) enum Fsyncs {
    PerCycle { alone: f64, together: f64 },
    Unknown(String),
}

impl Fsyncs {
    pub(super) fn report(&self, fields: ReportFields, concurrency: u32) -> ReportFields {
        let (member, text) = match self {
            Self::PerCycle { alone, together } => (
                Some(
                    ReportFields::default()
                        .member("alone", round(*alone))
                        .member("together", round(*together)),
                ),
                format!(
                    "{alone:.2} one at a time, {together:.2} with {concurrency} at a time (traced passes)"
                ),
            ),
            Self::Unknown(why) => (None, format!("unknown: {why}")),
        };
        fields.member("fsyncsPerCycle", member).line("fsyncs per cycle", text)
    }
}

pub(super) async fn count(driver: &Driver, server: &OwnServer, concurrency: u32) -> Fsyncs {
    let counted = async {
        let alone = traced(driver, server, ALONE_CYCLES, 1).await?;
        let together = traced(driver, server, CYCLES_PER_CLIENT * concurrency, concurrency).await?;
        Ok(Fsyncs::PerCycle { alone, together })
    };
    counted.await.unwrap_or_else(Fsyncs::Unknown)
}

async fn traced(driver: &Driver, server: &OwnServer, cycles: u32, concurrency: u32) -> Result<f64, String> {
    if !cfg!(target_os = "linux") {
        return Err("counted only on Linux".to_string());
    }
    let log = server.scratch_file("fsyncs.log");
    let tracer = trace(server.pid(), &log).await?;
    let pass = pass(driver, cycles, concurrency).await;
    tokio::time::sleep(DRAIN).await;
    drop(tracer);
    let cycles = pass.all("the traced pass failed").map_err(|failure| failure.message().to_string())?;
    let log =
        std::fs::read_to_string(&log).map_err(|error| format!("cannot read the log of strace: {error}"))?;
    Ok(calls(&log) as f64 / cycles.len() as f64)
}

/// Starts strace, and returns when it traces every thread of the server. When strace ends, the server continues.
async fn trace(pid: u32, log: &Path) -> Result<ChildProcess, String> {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-e", "trace=fsync,fdatasync", "-p", &pid.to_string(), "-o"]).arg(log);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().map_err(|error| format!("cannot start strace: {error}"))?;
    let (mut tracer, begun) = (ChildProcess(child), Instant::now());
    while !every_thread_is_traced(pid) {
        if tracer.has_ended() || begun.elapsed() > ATTACH_MAX {
            return Err(
                "strace has no permission to trace the server (a container or ptrace_scope forbids it)"
                    .to_string(),
            );
        }
        tokio::time::sleep(ATTACH_POLL).await;
    }
    Ok(tracer)
}

fn every_thread_is_traced(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return false;
    };
    threads.flatten().all(|thread| {
        let status = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        status.lines().any(|line| line.strip_prefix("TracerPid:").is_some_and(|tracer| tracer.trim() != "0"))
    })
}

/// Counts calls. A call that overlaps with a call of another thread has two lines; only the first has a parenthesis
/// after the name.
fn calls(log: &str) -> usize {
    log.lines().filter(|line| line.contains("fsync(") || line.contains("fdatasync(")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_call_counts_once() {
        let log = "11 fdatasync(7) = 0\n12 fsync(8 <unfinished ...>\n11 fdatasync(7) = 0\n12 <... fsync resumed>) = 0\n";
        assert_eq!(calls(log), 3);
    }
}
