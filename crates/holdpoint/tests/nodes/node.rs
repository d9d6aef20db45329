//! One server process: started, killed, frozen, thawed, told to stop. Dropped, it is killed.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::harness::{Client, KEY, clean};

/// How long a claim lasts without a sign of life: short, so that a test can wait for its end.
pub(crate) const LEASE: Duration = Duration::from_secs(3);
const START_MAX: Duration = Duration::from_secs(60);
const READY_MAX: Duration = Duration::from_secs(60);
/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(25);

/// What every node of a test has in common.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub database: String,
    pub folder: PathBuf,
    /// Nobody has a key to begin with when there is none here.
    pub key: Option<String>,
}

impl Site {
    pub(crate) fn new(database: &str, folder: &Path) -> Self {
        Self { database: database.to_owned(), folder: folder.to_owned(), key: Some(KEY.to_owned()) }
    }

    pub(crate) fn ledger(&self) -> PathBuf {
        self.folder.join("ledger")
    }

    /// Starts nodes side by side.
    pub(crate) fn start(&self, count: usize) -> Vec<Node> {
        let spawned: Vec<Spawned> = (0..count).map(|number| self.spawn(number)).collect();
        spawned.into_iter().map(Spawned::wait).collect()
    }

    fn spawn(&self, number: usize) -> Spawned {
        let log = self.folder.join(format!("node-{number}.log"));
        let mut command = Command::new(program());
        clean(&mut command).args([
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
        // One key for all of them, as for every site with several nodes.
        command.arg("--seal-key-file").arg(self.folder.join("seal.key"));
        command.env("LEDGER", self.ledger()).env("HOLDPOINT_TEST_LEASE_MS", LEASE.as_millis().to_string());
        command.stdout(Stdio::piped()).stderr(File::options().append(true).create(true).open(&log).unwrap());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        // Read to its end, whoever listens: what it says later must not fill the pipe.
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
        });
        Spawned(Node { site: self.clone(), number, child, url: String::new(), said: Vec::new(), log }, lines)
    }
}

/// A process that has not said yet that it is ready.
pub(crate) struct Spawned(Node, mpsc::Receiver<String>);

impl Spawned {
    pub(crate) fn wait(self) -> Node {
        let Self(mut node, lines) = self;
        let began = Instant::now();
        // The greeting ends with what to try first, or with how to get in.
        let is_last = |line: &String| line.contains(" answer ") || line.contains(" inbox --link");
        while !node.said.last().is_some_and(is_last) {
            match lines.recv_timeout(START_MAX.saturating_sub(began.elapsed())) {
                Ok(line) => node.said.push(line),
                Err(_) => panic!("node {} does not start:\n{}", node.number, node.last_words()),
            }
        }
        node.url = node.said[0].rsplit(' ').next().unwrap().to_owned();
        node
    }
}

pub(crate) struct Node {
    site: Site,
    number: usize,
    child: Child,
    pub url: String,
    /// What it printed when it started.
    pub said: Vec<String>,
    log: PathBuf,
}

impl Node {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.site.folder.join(format!("node-{}", self.number))
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.url, self.site.key.as_deref())
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Another process in its place, on the same data and another port.
    pub(crate) fn start_again(&mut self) {
        *self = self.spawn_again().wait();
    }

    pub(crate) fn spawn_again(&self) -> Spawned {
        self.site.spawn(self.number)
    }

    pub(crate) fn freeze(&self) {
        signal(self.pid(), "STOP");
    }

    pub(crate) fn thaw(&self) {
        signal(self.pid(), "CONT");
    }

    /// Asks it to go down, and waits until it has.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        signal(self.pid(), "TERM");
        self.child.wait().unwrap()
    }

    /// Waits until it says that it can answer; how long that took.
    pub(crate) fn ready(&self) -> Duration {
        let client = Client::patient(&self.url, None, Duration::from_secs(2));
        let ready = || client.try_send("GET", "/readyz", None).is_ok_and(|answer| answer.status == 200);
        until(READY_MAX, ready)
            .unwrap_or_else(|| panic!("node {} is not ready:\n{}", self.number, self.last_words()))
    }

    /// How it ended although nobody killed it.
    pub(crate) fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().unwrap()?;
        Some(format!("node {} ended by itself ({status}):\n{}", self.number, self.last_words()))
    }

    fn last_words(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Already dead is dead enough.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- the last words of node {}:\n{}", self.number, self.last_words());
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

/// The shell's own `kill`: it is everywhere.
pub(crate) fn signal(pid: u32, name: &str) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status().unwrap();
    assert!(sent.success(), "kill -{name} {pid}: {sent}");
}

/// Waits for a condition; how long it took, or nothing when it did not come in time.
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
