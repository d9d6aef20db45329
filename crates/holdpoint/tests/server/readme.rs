//! README.md and docs/tour.md, followed literally: their shell blocks run one after another, and each must succeed.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Client, PROGRAM, accept, clear_env, client_with_key};

const README: &str = include_str!("../../../../README.md");
const TOUR: &str = include_str!("../../../../docs/tour.md");
/// The section before which the reader stops the first server.
const KILL: &str = "## Kill the server";

#[test]
fn the_blocks_of_the_readme_and_of_the_tour_work_one_after_another() {
    let mut reader = Reader::new();
    let (before, after) = TOUR.split_once(KILL).expect("the tour kills the server");
    for (name, text) in [("README.md", README), ("docs/tour.md", before)] {
        reader.follow_all(name, text);
    }
    reader.stop_first_server();
    reader.follow_all("docs/tour.md", after);
    assert!(reader.done > 15, "{} blocks ran", reader.done);
}

#[test]
fn a_block_that_fails_is_noticed() {
    let mut reader = Reader::new();
    for good in ["true", "A=1", "test \"$A\" = 1", "# only a comment"] {
        reader.follow("sh", good).unwrap();
    }
    for bad in
        ["false\ntrue", "no-such-program", "A=$(false)", "false | cat", "holdpoint answer latest review"]
    {
        let wrong = reader.follow("sh", bad).unwrap_err();
        assert!(wrong.contains(bad.lines().next().unwrap()), "{wrong}");
    }
}

/// A reader that copies every block into one terminal, in a fresh clone.
struct Reader {
    folder: TempDir,
    /// The server of the first section. Ctrl-C stops it.
    first: Option<Child>,
    done: usize,
}

impl Reader {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let built = folder.path().join("target/debug");
        std::fs::create_dir_all(&built).unwrap();
        symlink(PROGRAM, built.join("holdpoint")).unwrap();
        std::fs::write(folder.path().join("terminal"), "").unwrap();
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        symlink(examples.canonicalize().unwrap(), folder.path().join("examples")).unwrap();
        let commit = "git init -q && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first";
        let made = Command::new("sh").args(["-c", commit]).current_dir(folder.path()).status().unwrap();
        assert!(made.success(), "git is installed");
        Self { folder, first: None, done: 0 }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Follows every block of a document.
    fn follow_all(&mut self, name: &str, document: &str) {
        for block in blocks(document) {
            let followed = match block.language {
                "json" => {
                    std::fs::write(self.path(block.file()), block.text).map_err(|error| error.to_string())
                }
                // A quotation, and a part of a program.
                "text" | "rust" => continue,
                language => self.follow(language, block.text),
            };
            followed.unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
        }
    }

    fn follow(&mut self, language: &str, text: &str) -> Result<(), String> {
        self.done += 1;
        match language {
            "sh" if text.trim() == "cargo run -- serve" => {
                // Ctrl-C reaches the program, not the shell alone.
                let mut child =
                    self.shell("exec holdpoint serve").spawn().map_err(|error| error.to_string())?;
                wait_until_ready(&mut child);
                self.first = Some(child);
                Ok(())
            }
            "sh" => self.run(text),
            other => Err(format!("a block of {other}")),
        }
    }

    fn run(&self, text: &str) -> Result<(), String> {
        let starts_server = text.contains("serve &");
        let waits = |line: &str| line.contains("holdpoint ask") && !line.contains("--detach");
        let asks = text.lines().any(waits).then(|| self.client());
        let mut command = self.shell(text);
        if !starts_server {
            command.stdout(self.file("output")).stderr(self.file("output"));
        }
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        if starts_server {
            wait_until_ready(&mut child);
        }
        if let Some(client) = asks {
            answer_in_the_browser(&client);
        }
        let status = child.wait().map_err(|error| error.to_string())?;
        if status.success() {
            return Ok(());
        }
        let mut wrong = format!("this block ended with {status}:\n{text}");
        let told = std::fs::read_to_string(self.path("output")).unwrap_or_default();
        write!(wrong, "\n---\n{told}").map_err(|error| error.to_string())?;
        Err(wrong)
    }

    /// Returns a shell with the variables of the blocks before, which exits at the first command that fails.
    fn shell(&self, text: &str) -> Command {
        let mut command = Command::new("bash");
        let text = format!(". ./terminal 2> /dev/null\nset -eo pipefail\n{text}\nexport -p > terminal");
        // `-a` exports all variables, for the next block.
        clear_env(&mut command).args(["-a", "-c", &text]).current_dir(self.folder.path());
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", self.path("target/debug").display()));
        // The server takes a free port; the other commands find it in the data folder.
        command.env("HOLDPOINT_LISTEN", "127.0.0.1:0").env("no_proxy", "127.0.0.1");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command
    }

    fn file(&self, name: &str) -> std::fs::File {
        std::fs::File::options().create(true).append(true).open(self.path(name)).unwrap()
    }

    fn client(&self) -> Client {
        let left = std::fs::read(self.path("holdpoint-data/client.json")).unwrap();
        let left: Value = serde_json::from_slice(&left).unwrap();
        Client::new(left["server"].as_str().unwrap(), left["key"].as_str())
    }

    fn stop_first_server(&mut self) {
        let mut first = self.first.take().expect("a server was started");
        signal("-INT", &first.id().to_string());
        assert!(first.wait().unwrap().success(), "Ctrl-C ends it well");
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(mut first) = self.first.take() {
            // The process may have exited already.
            let _ = first.kill();
            let _ = first.wait();
        }
        if let Some(pid) = last_server(&self.path("terminal")) {
            let _ = Command::new("kill").args(["-9", &pid]).stderr(Stdio::null()).status();
        }
    }
}

fn last_server(terminal: &Path) -> Option<String> {
    let variables = std::fs::read_to_string(terminal).ok()?;
    let line = variables.lines().find_map(|line| line.strip_prefix("declare -x SERVER="))?;
    Some(line.trim_matches('"').to_owned())
}

fn signal(name: &str, pid: &str) {
    assert!(Command::new("kill").args([name, pid]).status().unwrap().success());
}

/// Waits for the first line, which reports that the server is ready.
fn wait_until_ready(child: &mut Child) {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next().expect("the server says that it is ready").unwrap();
    // Later lines are read too, so that the pipe does not fill up.
    std::thread::spawn(move || lines.for_each(drop));
}

/// Approves the hold of the command that waits.
fn answer_in_the_browser(client: &Client) {
    let ann = client_with_key(client, &json!({"principal": "ann"}));
    loop {
        let found = client.get("/v1/interrupts?kind=approval&workflowId=holdpoint-hold").body;
        if let Some(id) = found["interrupts"][0]["runId"].as_str() {
            assert_eq!(ann.answer(id, "hold", &accept()).status, 200);
            return;
        }
    }
}

/// A block of a document.
struct Block<'a> {
    /// The text between the block before and this one.
    introduction: &'a str,
    language: &'a str,
    text: &'a str,
}

impl Block<'_> {
    /// Returns the name in "Save this as `NAME`:".
    fn file(&self) -> &str {
        let named = self.introduction.rsplit("Save this as `").next().and_then(|rest| rest.split('`').next());
        named.expect("a JSON block is saved as a file")
    }
}

fn blocks(document: &str) -> Vec<Block<'_>> {
    let parts: Vec<&str> = document.split("```").collect();
    let pairs = parts.chunks_exact(2);
    pairs
        .map(|pair| {
            let (language, text) = pair[1].split_once('\n').expect("a block has lines");
            Block { introduction: pair[0], language, text }
        })
        .collect()
}
