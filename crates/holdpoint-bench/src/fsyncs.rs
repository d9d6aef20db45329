//! Counts the fsyncs of the benchmark's own server with strace, in a pass apart because tracing slows it down.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::cycle::pass;
use super::driver::Driver;
use super::measure::round;
use super::server::OwnServer;

const ALONE_CYCLES: u32 = 200;
const CYCLES_PER_LANE: u32 = 20;
const ATTACH_MAX: Duration = Duration::from_secs(5);
const ATTACH_POLL: Duration = Duration::from_millis(10);
/// The tracer writes what it saw a moment later than the server goes on.
const DRAIN: Duration = Duration::from_millis(200);

pub(super) enum Fsyncs {
    PerCycle { alone: f64, together: f64 },
    Unknown(String),
}

impl Fsyncs {
    pub(super) fn json(&self) -> Value {
        match self {
            Self::PerCycle { alone, together } => {
                json!({"alone": round(*alone), "together": round(*together)})
            }
            Self::Unknown(_) => Value::Null,
        }
    }

    pub(super) fn text(&self, concurrency: u32) -> String {
        match self {
            Self::PerCycle { alone, together } => {
                format!(
                    "{alone:.2} one at a time, {together:.2} with {concurrency} at a time (traced passes)"
                )
            }
            Self::Unknown(why) => format!("unknown: {why}"),
        }
    }
}

pub(super) async fn count(driver: &Driver, server: &OwnServer, concurrency: u32) -> Fsyncs {
    let counted = async {
        let alone = traced(driver, server, ALONE_CYCLES, 1).await?;
        let together = traced(driver, server, CYCLES_PER_LANE * concurrency, concurrency).await?;
        Ok(Fsyncs::PerCycle { alone, together })
    };
    counted.await.unwrap_or_else(Fsyncs::Unknown)
}

async fn traced(driver: &Driver, server: &OwnServer, cycles: u32, concurrency: u32) -> Result<f64, String> {
    if !cfg!(target_os = "linux") {
        return Err("counted on Linux only".to_string());
    }
    let log = server.scratch_file("fsyncs.log");
    let mut tracer = Tracer::attach(server.pid(), &log)?;
    tracer.attached(server.pid()).await?;
    let pass = pass(driver, cycles, concurrency).await;
    tokio::time::sleep(DRAIN).await;
    drop(tracer);
    match pass.first_error {
        Some(error) => Err(format!("the traced pass failed: {error}")),
        None => {
            let log =
                std::fs::read_to_string(&log).map_err(|error| format!("strace left no log: {error}"))?;
            Ok(calls(&log) as f64 / pass.cycles as f64)
        }
    }
}

/// A strace that ends with the value that holds it.
struct Tracer {
    child: Child,
}

impl Tracer {
    fn attach(pid: u32, log: &Path) -> Result<Self, String> {
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-e", "trace=fsync,fdatasync", "-p", &pid.to_string(), "-o"]).arg(log);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| format!("strace cannot be started: {error}"))?;
        Ok(Self { child })
    }

    /// Waits until every thread of the server is traced: a count from half of them would be a lie.
    async fn attached(&mut self, pid: u32) -> Result<(), String> {
        let begun = Instant::now();
        while !every_thread_is_traced(pid) {
            let exited = self.child.try_wait().ok().flatten();
            if exited.is_some() || begun.elapsed() > ATTACH_MAX {
                return Err(
                    "strace may not trace the server (a container or ptrace_scope forbids it)".to_string()
                );
            }
            tokio::time::sleep(ATTACH_POLL).await;
        }
        Ok(())
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // Fails only if strace is gone already. The kernel lets the server run on untraced.
        self.child.kill().ok();
        self.child.wait().ok();
    }
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

/// A call that another thread interrupts stands on two lines; only the first has the parenthesis.
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
