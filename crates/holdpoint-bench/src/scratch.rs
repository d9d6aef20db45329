//! Temporary resources of a benchmark: folders, child processes, free ports and unique names.

use std::fs::DirBuilder;
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Child;

use clap::Args;

use super::Failure;

#[derive(Clone, Debug, Args)]
pub(crate) struct ScratchArgs {
    /// Folder for the data of servers and databases that the benchmark starts; on a tmpfs, fsync is free
    #[arg(long = "scratch", value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    pub(super) folder: PathBuf,
}

/// A folder that is removed when the value is dropped.
pub(super) struct TempFolder {
    pub(super) path: PathBuf,
}

impl TempFolder {
    pub(super) fn create(scratch: &Path) -> Result<Self, Failure> {
        let path = scratch.join(format!("holdpoint-bench-{}", random_name()?));
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| failed(&format!("cannot create {}", path.display()), &error))?;
        Ok(Self { path })
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            eprintln!("cannot remove {}: {error}", self.path.display());
        }
    }
}

/// A process that is killed when the value is dropped.
pub(super) struct ChildProcess(pub(super) Child);

impl ChildProcess {
    /// Kills the process. Both calls fail only if it has ended already.
    pub(super) fn kill(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }

    pub(super) fn has_ended(&mut self) -> bool {
        self.0.try_wait().ok().flatten().is_some()
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(super) fn free_address() -> Result<std::net::SocketAddr, Failure> {
    let bound = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    bound.map_err(|error| failed("cannot find a free port", &error))
}

pub(super) fn random_name() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::broken(format!("cannot read random numbers: {error}")))?;
    Ok(holdpoint_core::hex(&bytes))
}

pub(super) fn failed(what: &str, error: &std::io::Error) -> Failure {
    Failure::broken(format!("{what}: {error}")).hint("use another folder with --scratch")
}

/// Returns the last line of a log, which has the reason why a server did not start.
pub(super) fn last_line(log: &Path) -> String {
    let log = std::fs::read_to_string(log).unwrap_or_default();
    log.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("its log is empty").to_owned()
}

/// Returns the allocated bytes of a folder. Ignores files that are removed meanwhile, such as a log of the server.
pub(super) fn allocated_bytes(path: &Path) -> u64 {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => allocated_bytes(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    });
    bytes.sum()
}
