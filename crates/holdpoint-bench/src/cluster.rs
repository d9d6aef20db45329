//! A temporary PostgreSQL with default settings, including fsync. Dropping the value stops and removes it.

use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Failure;
use super::scratch::{TempFolder, allocated_bytes, failed, free_address, last_line, random_name};

/// Users for PostgreSQL if root runs the benchmark, because PostgreSQL refuses to run as root.
const UNPRIVILEGED: [&str; 2] = ["postgres", "nobody"];
/// The folder in which Debian installs the versions of PostgreSQL.
const VERSIONS: &str = "/usr/lib/postgresql";

pub(super) struct PostgresCluster {
    folder: TempFolder,
    /// The folder of the programs of PostgreSQL.
    programs: PathBuf,
    address: SocketAddr,
    password: String,
    postmaster: u32,
}

impl PostgresCluster {
    pub(super) fn start(scratch: &Path) -> Result<Self, Failure> {
        let programs = programs()?;
        let (folder, address, password) = (TempFolder::create(scratch)?, free_address()?, random_name()?);
        let (data, secret) = (folder.path.join("data"), folder.path.join("password"));
        let written =
            std::fs::write(&secret, &password).and_then(|()| change_owner(&[&folder.path, &secret]));
        written.map_err(|error| failed("cannot prepare PostgreSQL", &error))?;
        let mut initdb = unprivileged(&programs.join("initdb"));
        initdb.args(["--username=postgres", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]);
        initdb.arg("--pwfile").arg(&secret).arg("--pgdata").arg(&data);
        run(initdb)?;
        let mut start = unprivileged(&programs.join("pg_ctl"));
        let options =
            format!("-p {} -c listen_addresses={} -c unix_socket_directories=", address.port(), address.ip());
        start.args(["start", "--silent", "--wait", "--options", &options]).arg("--pgdata").arg(&data);
        start.arg("--log").arg(folder.path.join("log"));
        run(start).map_err(|failure| failure.hint(last_line(&folder.path.join("log"))))?;
        // After this line, an error drops `cluster`, which stops the server.
        let mut cluster = Self { folder, programs, address, password, postmaster: 0 };
        let pid_file = std::fs::read_to_string(data.join("postmaster.pid"));
        let pid_file =
            pid_file.map_err(|error| failed("cannot read the process id of PostgreSQL", &error))?;
        let pid = pid_file.lines().next().and_then(|line| line.trim().parse().ok());
        cluster.postmaster = pid.ok_or_else(|| Failure::broken("postmaster.pid contains no process id"))?;
        Ok(cluster)
    }

    pub(super) fn postmaster(&self) -> u32 {
        self.postmaster
    }

    /// Returns the size of the tables and indexes on the disk.
    pub(super) fn disk_bytes(&self) -> u64 {
        allocated_bytes(&self.folder.path.join("data").join("base"))
    }

    /// Creates a database and returns its address.
    pub(super) fn database(&self, name: &str) -> Result<String, Failure> {
        let mut create = unprivileged(&self.programs.join("createdb"));
        create.env("PGPASSWORD", &self.password).args(["--username=postgres", "--host", "127.0.0.1"]);
        create.args(["--port", &self.address.port().to_string(), name]);
        run(create)?;
        Ok(format!("postgres://postgres:{}@{}/{name}", self.password, self.address))
    }
}

impl Drop for PostgresCluster {
    fn drop(&mut self) {
        let mut stop = unprivileged(&self.programs.join("pg_ctl"));
        stop.args(["stop", "--silent", "--wait", "--mode=immediate"]);
        stop.arg("--pgdata").arg(self.folder.path.join("data"));
        if let Err(failure) = run(stop) {
            eprintln!("cannot stop the PostgreSQL of the benchmark: {}", failure.message());
        }
    }
}

fn run(mut command: Command) -> Result<(), Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| failed(&format!("cannot start {program}"), &error))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(Failure::broken(format!("{program} failed: {}", stderr.trim())))
}

/// Returns a command that runs without privileges.
fn unprivileged(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir("/").stdin(Stdio::null());
    if let Some((user, group)) = other_user() {
        command.uid(user).gid(group);
    }
    command
}

/// Makes the unprivileged user the owner of these paths.
fn change_owner(paths: &[&Path]) -> std::io::Result<()> {
    let Some((user, group)) = other_user() else { return Ok(()) };
    paths.iter().try_for_each(|path| chown(path, Some(user), Some(group)))
}

/// Returns the user and the group to become if root runs the benchmark.
fn other_user() -> Option<(u32, u32)> {
    if std::fs::metadata("/proc/self").ok()?.uid() != 0 {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    UNPRIVILEGED.iter().find_map(|wanted| {
        let mut entries = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let user = entries.find(|fields| fields.first() == Some(wanted))?;
        Some((user.get(2)?.parse().ok()?, user.get(3)?.parse().ok()?))
    })
}

/// Returns the folder of the programs of the newest version in [`VERSIONS`], or a folder in the PATH.
fn programs() -> Result<PathBuf, Failure> {
    let versions = std::fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let mut versions: Vec<PathBuf> = versions.map(|entry| entry.path()).collect();
    versions.sort_by_key(|path| {
        let number = path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
        std::cmp::Reverse(number)
    });
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders =
        versions.into_iter().map(|version| version.join("bin")).chain(std::env::split_paths(&path));
    let found = folders.find(|folder| folder.join("initdb").exists() && folder.join("pg_ctl").exists());
    found.ok_or_else(|| {
        Failure::usage("--postgres: PostgreSQL is not installed on this machine")
            .hint("install it, or use an existing server with --database postgres://…")
    })
}
