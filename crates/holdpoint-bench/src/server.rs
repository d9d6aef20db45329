//! A server that the benchmark starts: a child process with an empty data folder or a named database. Dropping the
//! value stops it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::scratch::{
    ChildProcess, TempFolder, allocated_bytes, failed, free_address, last_line, random_name,
};
use super::{Driver, Failure};
use holdpoint_cli::connection::Settings;

const START_MAX: Duration = Duration::from_secs(30);
const START_POLL: Duration = Duration::from_millis(5);

/// The fields are dropped in this order: the process ends before its folder is removed.
pub(super) struct OwnServer {
    process: ChildProcess,
    command: Command,
    address: String,
    key: String,
    folder: TempFolder,
}

impl OwnServer {
    pub(super) fn start(scratch: &Path, database: Option<String>, flags: &[&str]) -> Result<Self, Failure> {
        let folder = TempFolder::create(scratch)?;
        let address = free_address()?.to_string();
        let key = format!("hp_bench_{}", random_name()?);
        let mut command = command(&folder.path, &address, &key, flags)?;
        // An environment variable, because the list of processes would show a password in a flag.
        command.envs(database.map(|url| ("HOLDPOINT_DATABASE", url)));
        Ok(Self { process: spawn(&mut command)?, command, address, key, folder })
    }

    /// Starts the program without an engine. It accepts any key.
    pub(super) fn start_ceiling(scratch: &Path) -> Result<Self, Failure> {
        let folder = TempFolder::create(scratch)?;
        let address = free_address()?.to_string();
        let mut command = program(&folder.path)?;
        command.args(["bench", "ceiling", "--listen", &address, "--database"]);
        command.arg(folder.path.join("ceiling.db"));
        let key = "none".to_owned();
        Ok(Self { process: spawn(&mut command)?, command, address, key, folder })
    }

    pub(super) fn settings(&self) -> Settings {
        Settings::local(format!("http://{}", self.address), self.key.clone())
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// Waits until the server accepts requests.
    pub(super) async fn ready(&mut self, driver: &Driver) -> Result<(), Failure> {
        let begun = Instant::now();
        while driver.client.server_info().ready().await.is_err() {
            if self.process.has_ended() || begun.elapsed() > START_MAX {
                let last = last_line(&log_of(&self.folder.path));
                return Err(Failure::broken(format!("the server of the benchmark did not start: {last}")));
            }
            tokio::time::sleep(START_POLL).await;
        }
        Ok(())
    }

    /// Kills the process with SIGKILL and starts another one on the same port and data.
    pub(super) fn kill_and_start_again(&mut self) -> Result<(), Failure> {
        self.process.kill();
        self.process = spawn(&mut self.command)?;
        Ok(())
    }

    /// Returns the size of the data folder on the disk.
    pub(super) fn disk_bytes(&self) -> u64 {
        allocated_bytes(&data_of(&self.folder.path))
    }

    /// Returns a path beside the data.
    pub(super) fn scratch_file(&self, name: &str) -> PathBuf {
        self.folder.path.join(name)
    }
}

fn data_of(folder: &Path) -> PathBuf {
    folder.join("data")
}

fn log_of(folder: &Path) -> PathBuf {
    folder.join("server.log")
}

fn spawn(command: &mut Command) -> Result<ChildProcess, Failure> {
    command.spawn().map(ChildProcess).map_err(|error| failed("cannot start a server", &error))
}

fn command(folder: &Path, address: &str, key: &str, flags: &[&str]) -> Result<Command, Failure> {
    let mut command = program(folder)?;
    command
        .args(["serve", "--listen", address, "--bootstrap-key", key, "--data"])
        .arg(data_of(folder))
        // All clients of a benchmark have one address.
        .args(["--connections-per-address", "0"])
        .args(flags);
    Ok(command)
}

/// Returns a command that runs this program in a folder, with a log in it.
fn program(folder: &Path) -> Result<Command, Failure> {
    let program = std::env::current_exe().map_err(|error| failed("cannot find this program", &error))?;
    let log = File::options().create(true).append(true).open(log_of(folder));
    let log = log.and_then(|log| Ok((log.try_clone()?, log)));
    let (log, errors) = log.map_err(|error| failed("cannot write the server's log", &error))?;
    let mut command = Command::new(program);
    command.current_dir(folder).stdin(Stdio::null()).stdout(log).stderr(errors);
    // Settings of the user must not make the benchmark use the database of the user.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HOLDPOINT_"))
    {
        command.env_remove(name);
    }
    Ok(command)
}
