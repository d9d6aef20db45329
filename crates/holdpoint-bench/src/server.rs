//! A server of the benchmark's own: a child process with an empty data folder or a database that was named, gone with the value that holds it.

use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::driver::Driver;
use super::scratch::{Folder, failed, free_address, random_name};
use holdpoint_cli::connection::Settings;
use holdpoint_cli::failure::Failure;

const START_MAX: Duration = Duration::from_secs(30);
const START_POLL: Duration = Duration::from_millis(5);

pub(super) struct OwnServer {
    child: Child,
    address: String,
    key: String,
    /// Where its data is, if not in its folder.
    database: Option<String>,
    /// What it is told beyond what every server of a benchmark is told.
    flags: &'static [&'static str],
    folder: Folder,
}

impl OwnServer {
    pub(super) fn start(
        scratch: &Path,
        database: Option<String>,
        flags: &'static [&'static str],
    ) -> Result<Self, Failure> {
        let folder = Folder::create(scratch)?;
        let address = free_address()?.to_string();
        let key = format!("hp_bench_{}", random_name()?);
        let child = spawn(&folder.path, &address, &key, database.as_deref(), flags)?;
        Ok(Self { child, address, key, database, flags, folder })
    }

    pub(super) fn settings(&self) -> Settings {
        Settings::local(format!("http://{}", self.address), self.key.clone())
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the server takes requests; a server that died instead says why in its log.
    pub(super) async fn ready(&mut self, driver: &Driver) -> Result<(), Failure> {
        let begun = Instant::now();
        while !driver.is_ready().await {
            let exited = self.child.try_wait().ok().flatten();
            if exited.is_some() || begun.elapsed() > START_MAX {
                let log = std::fs::read_to_string(log_of(&self.folder.path)).unwrap_or_default();
                let last = log.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("its log is empty");
                return Err(Failure::broken(format!("the benchmark's own server did not start: {last}")));
            }
            tokio::time::sleep(START_POLL).await;
        }
        Ok(())
    }

    /// kill -9 and a new process on the same port and data.
    pub(super) fn kill_and_start_again(&mut self) -> Result<(), Failure> {
        self.kill();
        let database = self.database.as_deref();
        self.child = spawn(&self.folder.path, &self.address, &self.key, database, self.flags)?;
        Ok(())
    }

    /// What the data folder takes up on the disk.
    pub(super) fn disk_bytes(&self) -> u64 {
        allocated_bytes(&data_of(&self.folder.path))
    }

    /// For files of the benchmark itself, beside the data.
    pub(super) fn scratch_file(&self, name: &str) -> PathBuf {
        self.folder.path.join(name)
    }

    fn kill(&mut self) {
        // Both fail only if the process is gone already, which is what we want.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn data_of(folder: &Path) -> PathBuf {
    folder.join("data")
}

fn log_of(folder: &Path) -> PathBuf {
    folder.join("server.log")
}

fn spawn(
    folder: &Path,
    address: &str,
    key: &str,
    database: Option<&str>,
    flags: &[&str],
) -> Result<Child, Failure> {
    let program = std::env::current_exe().map_err(|error| failed("cannot find this program", &error))?;
    let log = File::options().create(true).append(true).open(log_of(folder));
    let log = log.map_err(|error| failed("cannot write the server's log", &error))?;
    let errors = log.try_clone().map_err(|error| failed("cannot write the server's log", &error))?;
    let mut command = Command::new(program);
    command
        .args(["serve", "--listen", address, "--bootstrap-key", key, "--data"])
        .arg(data_of(folder))
        // All clients of a benchmark have one address.
        .args(["--connections-per-address", "0"])
        .args(flags);
    command.current_dir(folder).stdin(Stdio::null()).stdout(log).stderr(errors);
    // The user's settings must not lead the benchmark to the user's database.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HOLDPOINT_"))
    {
        command.env_remove(name);
    }
    // Not as a flag: others must not see a password in the list of processes.
    command.envs(database.map(|url| ("HOLDPOINT_DATABASE", url)));
    command.spawn().map_err(|error| failed("cannot start a server", &error))
}

/// Files may vanish while we look, for example a log that the server folds away; they then count nothing.
fn allocated_bytes(path: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(path) else {
        return 0;
    };
    entries.flatten().map(|entry| entry_bytes(&entry)).sum()
}

fn entry_bytes(entry: &std::fs::DirEntry) -> u64 {
    match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => allocated_bytes(&entry.path()),
        Ok(metadata) => file_bytes(&metadata),
        Err(_) => 0,
    }
}

#[cfg(unix)]
fn file_bytes(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(metadata) * 512
}

#[cfg(not(unix))]
fn file_bytes(metadata: &Metadata) -> u64 {
    metadata.len()
}
