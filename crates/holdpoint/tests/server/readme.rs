//! The README, followed literally: its shell blocks run one after another, and each must succeed.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Client, PROGRAM, accept, clean, keyed};

const README: &str = include_str!("../../../../README.md");
/// The sections that need this server and nothing else. The others build programs, or run for long.
const SECTIONS: [&str; 7] = [
    "## Start",
    "### Take hold of it",
    "### Ask from a script",
    "### Kill it",
    "## From curl",
    "## Your own workflow",
    // Where the last one ends.
    "## Inside your own program",
];

#[test]
fn the_blocks_of_the_readme_work_one_after_another() {
    let mut reader = Reader::new();
    for pair in SECTIONS.windows(2) {
        let section = section(README, pair[0], pair[1]);
        if pair[0] == "### Kill it" {
            reader.stop_the_first_server();
        }
        let blocks = blocks(section);
        assert!(!blocks.is_empty(), "{} has a block", pair[0]);
        for (language, text) in blocks {
            reader.follow(language, text).unwrap_or_else(|wrong| panic!("{}: {wrong}", pair[0]));
        }
    }
    assert!(reader.done > 10, "{} blocks ran", reader.done);
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

/// Somebody who copies every block into one terminal, in a folder of their own.
struct Reader {
    folder: TempDir,
    /// The server of the first section, which is ended with Ctrl-C.
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
        Self { folder, first: None, done: 0 }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn follow(&mut self, language: &str, text: &str) -> Result<(), String> {
        self.done += 1;
        match language {
            // "Save this as `release.json`".
            "json" => std::fs::write(self.path("release.json"), text).map_err(|error| error.to_string()),
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
        let asks = text.contains("holdpoint ask").then(|| self.client());
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

    /// A shell that knows the variables of the blocks before, and fails with the first command that does.
    fn shell(&self, text: &str) -> Command {
        let mut command = Command::new("bash");
        let text = format!(". ./terminal 2> /dev/null\nset -eo pipefail\n{text}\nexport -p > terminal");
        // Exported, so that all variables are there for the next block.
        clean(&mut command).args(["-a", "-c", &text]).current_dir(self.folder.path());
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", self.path("target/debug").display()));
        // A free port; everything else finds it in the data folder.
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

    fn stop_the_first_server(&mut self) {
        let mut first = self.first.take().expect("a server was started");
        signal("-INT", &first.id().to_string());
        assert!(first.wait().unwrap().success(), "Ctrl-C ends it well");
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(mut first) = self.first.take() {
            // Already dead is dead enough.
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

/// "Once it says that it is ready": the first line.
fn wait_until_ready(child: &mut Child) {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next().expect("the server says that it is ready").unwrap();
    // What it says later must not fill the pipe.
    std::thread::spawn(move || lines.for_each(drop));
}

/// Approves the question of the script that waits.
fn answer_in_the_browser(client: &Client) {
    let ann = keyed(client, &json!({"principal": "ann"}));
    loop {
        let found = client.get("/v1/interrupts?kind=approval&workflowId=holdpoint-hold").body;
        if let Some(id) = found["interrupts"][0]["runId"].as_str() {
            assert_eq!(ann.answer(id, "hold", &accept()).status, 200);
            return;
        }
    }
}

fn section<'a>(text: &'a str, heading: &str, next: &str) -> &'a str {
    let from = text.find(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("{heading} is missing"));
    let rest = &text[from..];
    &rest[..rest.find(&format!("\n{next}\n")).unwrap_or_else(|| panic!("{next} must follow {heading}"))]
}

/// Language and text of each block.
fn blocks(section: &str) -> Vec<(&str, &str)> {
    let inside = section.split("```").skip(1).step_by(2);
    inside.map(|block| block.split_once('\n').expect("a block has lines")).collect()
}
