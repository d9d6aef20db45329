//! One server process that a test can kill, freeze, thaw and terminate. It is killed on drop.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::harness::{Client, KEY, clear_env};

/// The lease of a claim: short, so that a test can wait for its end.
pub(crate) const LEASE: Duration = Duration::from_secs(3);
const START_MAX: Duration = Duration::from_secs(60);
const READY_MAX: Duration = Duration::from_secs(60);
/// Interval between two checks of a condition.
const LOOK: Duration = Duration::from_millis(25);

/// The settings that all nodes of a test share.
#[derive(Clone, Debug)]
pub(crate) struct Deployment {
    pub database: String,
    pub folder: PathBuf,
    /// The bootstrap key; with `None` the server creates its first key itself.
    pub key: Option<String>,
}

impl Deployment {
    pub(crate) fn new(database: &str, folder: &Path) -> Self {
        Self { database: database.to_owned(), folder: folder.to_owned(), key: Some(KEY.to_owned()) }
    }

    pub(crate) fn ledger(&self) -> PathBuf {
        self.folder.join("ledger")
    }

    /// Starts several nodes in parallel.
    pub(crate) fn start(&self, count: usize) -> Vec<Node> {
        let spawned: Vec<Spawned> = (0..count).map(|number| self.spawn(number)).collect();
        spawned.into_iter().map(Spawned::wait).collect()
    }

    fn spawn(&self, number: usize) -> Spawned {
        let log = self.folder.join(format!("node-{number}.log"));
        let mut command = Command::new(program());
        clear_env(&mut command).args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--database",
            &self.database,
            "--data",
        ]);
        command.arg(self.folder.join(format!("node-{number}")));
        if let Some(key) = &self.key {
            command.args(["--bootstrap-key", key]);
        }
        // All nodes share one seal key, as every deployment with several nodes does.
        command.arg("--seal-key-file").arg(self.folder.join("seal.key"));
        command.env("LEDGER", self.ledger()).env("HOLDPOINT_TEST_LEASE_MS", LEASE.as_millis().to_string());
        command.stdout(Stdio::piped()).stderr(File::options().append(true).create(true).open(&log).unwrap());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        // Reads the output to its end even without a receiver, so that later lines do not fill the pipe.
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
        });
        Spawned(
            Node { deployment: self.clone(), number, child, url: String::new(), printed: Vec::new(), log },
            lines,
        )
    }
}

/// A process that is not ready yet.
pub(crate) struct Spawned(Node, mpsc::Receiver<String>);

impl Spawned {
    pub(crate) fn wait(self) -> Node {
        let Self(mut node, lines) = self;
        let began = Instant::now();
        // The last line of the start-up output names a first command, or the command for a sign-in link.
        let is_last = |line: &String| line.contains(" answer ") || line.contains(" inbox --link");
        while !node.printed.last().is_some_and(is_last) {
            match lines.recv_timeout(START_MAX.saturating_sub(began.elapsed())) {
                Ok(line) => node.printed.push(line),
                Err(_) => panic!("node {} does not start:\n{}", node.number, node.log_tail()),
            }
        }
        node.url = node.printed[0].rsplit(' ').next().unwrap().to_owned();
        node
    }
}

pub(crate) struct Node {
    deployment: Deployment,
    number: usize,
    child: Child,
    pub url: String,
    /// The lines that it printed at its start.
    pub printed: Vec<String>,
    log: PathBuf,
}

impl Node {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.deployment.folder.join(format!("node-{}", self.number))
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.url, self.deployment.key.as_deref())
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts another process in its place, on the same data and another port.
    pub(crate) fn start_again(&mut self) {
        *self = self.spawn_again().wait();
    }

    pub(crate) fn spawn_again(&self) -> Spawned {
        self.deployment.spawn(self.number)
    }

    pub(crate) fn freeze(&self) {
        signal(self.pid(), "STOP");
    }

    pub(crate) fn thaw(&self) {
        signal(self.pid(), "CONT");
    }

    /// Sends SIGTERM and waits for the end of the process.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        signal(self.pid(), "TERM");
        self.child.wait().unwrap()
    }

    /// Waits until `/readyz` responds with 200. Returns the time that took.
    pub(crate) fn ready(&self) -> Duration {
        let client = Client::with_timeout(&self.url, None, Duration::from_secs(2));
        let ready = || client.try_send("GET", "/readyz", None).is_ok_and(|answer| answer.status == 200);
        until(READY_MAX, ready)
            .unwrap_or_else(|| panic!("node {} is not ready:\n{}", self.number, self.log_tail()))
    }

    /// Returns a description of the exit if the process ended by itself.
    pub(crate) fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().unwrap()?;
        Some(format!("node {} ended by itself ({status}):\n{}", self.number, self.log_tail()))
    }

    fn log_tail(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- the last log lines of node {}:\n{}", self.number, self.log_tail());
        }
    }
}

/// The example server, which cargo builds with the tests and puts beside them.
fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().and_then(Path::parent).unwrap().join("examples/ledger");
    assert!(
        program.exists(),
        "{} is missing: build it with `cargo build -p holdpoint --example ledger`",
        program.display()
    );
    program
}

/// Sends a signal with the shell's built-in `kill`, which every system has.
pub(crate) fn signal(pid: u32, name: &str) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status().unwrap();
    assert!(sent.success(), "kill -{name} {pid}: {sent}");
}

/// Waits for a condition. Returns the time that took, or `None` after `limit`.
pub(crate) fn until(limit: Duration, mut condition: impl FnMut() -> bool) -> Option<Duration> {
    let began = Instant::now();
    loop {
        if condition() {
            return Some(began.elapsed());
        }
        if began.elapsed() > limit {
            return None;
        }
        std::thread::sleep(LOOK);
    }
}
