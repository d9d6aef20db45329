//! A PostgreSQL server in a temporary folder, for one test. It can be restarted and is removed on drop.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::node::{signal, until};
use crate::random::SeededRandom;

/// PostgreSQL and PgBouncer refuse to run as root. If the test runs as root, they run as one of these users.
const UNPRIVILEGED: [&str; 2] = ["postgres", "nobody"];
const START_MAX: Duration = Duration::from_secs(60);

/// The way the server stops: `Fast` ends its clients and writes a checkpoint, `Immediate` is a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Fast,
    Immediate,
}

pub(crate) struct Cluster {
    folder: TempDir,
    server: Option<Child>,
    port: u16,
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        chown_to_unprivileged(folder.path());
        let mut initdb = unprivileged_command(&program("initdb"));
        initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]);
        initdb.arg("-D").arg(folder.path().join("data"));
        let made = initdb.output().unwrap();
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let mut cluster = Self { folder, server: None, port: free_port() };
        cluster.run();
        cluster
    }

    /// Starts the server on its data and waits until it takes connections.
    pub(crate) fn run(&mut self) {
        let log = File::options().append(true).create(true).open(self.log()).unwrap();
        let mut server = unprivileged_command(&program("postgres"));
        server.arg("-D").arg(self.folder.path().join("data")).args(["-p", &self.port.to_string()]);
        server.args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]);
        server.stdout(Stdio::null()).stderr(log);
        self.server = Some(server.spawn().unwrap());
        let mut ready = Command::new(program("pg_isready"));
        ready.args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()]);
        let up = until(START_MAX, || ready.status().unwrap().success());
        assert!(up.is_some(), "PostgreSQL does not start:\n{}", std::fs::read_to_string(self.log()).unwrap());
    }

    pub(crate) fn stop(&mut self, how: Stop) {
        let mut server = self.server.take().expect("it is running");
        signal(server.id(), if how == Stop::Fast { "INT" } else { "QUIT" });
        server.wait().unwrap();
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Makes an empty database and returns its address.
    pub(crate) fn database(&self, name: &str) -> String {
        self.query("postgres", &format!("CREATE DATABASE {name}"));
        format!("postgres://postgres@127.0.0.1:{}/{name}", self.port)
    }

    /// Returns the rows of a statement, one line for each row, columns separated by `|`.
    pub(crate) fn query(&self, database: &str, sql: &str) -> String {
        let mut psql = Command::new(program("psql"));
        psql.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", "postgres"]);
        psql.args(["-p", &self.port.to_string(), "-d", database, "-c", sql]);
        let output = psql.output().unwrap();
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("postgres.log")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.server.is_some() {
            self.stop(Stop::Immediate);
        }
    }
}

/// Returns a command that runs without privileges even if the test has them.
pub(crate) fn unprivileged_command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir("/").stdin(Stdio::null());
    if let Some((user, group)) = unprivileged() {
        command.uid(user).gid(group);
    }
    command
}

/// Gives a folder of the test to the user of an unprivileged command.
pub(crate) fn chown_to_unprivileged(folder: &Path) {
    if let Some((user, group)) = unprivileged() {
        chown(folder, Some(user), Some(group)).unwrap();
    }
}

/// User and group to become when the test is run by root.
fn unprivileged() -> Option<(u32, u32)> {
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let found = UNPRIVILEGED.iter().find_map(|wanted| {
        let fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let user = fields.into_iter().find(|fields| fields[0] == *wanted)?;
        Some((user[2].parse().unwrap(), user[3].parse().unwrap()))
    });
    is_root.then(|| found.expect("a user `postgres` or `nobody`"))
}

/// Finds a program of PostgreSQL: in the path, or in the folders of Debian, the newest version first.
fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut versions: Vec<PathBuf> = versions.map(|entry| entry.unwrap().path()).collect();
    versions.sort_by_key(|path| {
        let number = path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
        std::cmp::Reverse(number)
    });
    folders.extend(versions.into_iter().map(|version| version.join("bin")));
    let found = folders.iter().map(|folder| folder.join(name)).find(|path| path.exists());
    found
        .unwrap_or_else(|| panic!("there is no {name}: install PostgreSQL, or run scripts/check, which does"))
}

/// Returns a free port below those of outgoing connections, so that no other process gets it while the server is down.
pub(crate) fn free_port() -> u16 {
    let mut seed = [0; 8];
    getrandom::fill(&mut seed).unwrap();
    let mut random = SeededRandom::new(u64::from_le_bytes(seed));
    loop {
        let port = 20_000 + u16::try_from(random.below(12_000)).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
