//! Executes the first example of docs/agents.md line by line and compares the output with the page.

use std::process::{Command, Stdio};

use crate::harness::{ANY_PORT, PROGRAM, clear_env};

const PAGE: &str = include_str!("../../../../docs/agents.md");
/// Values of the page that differ in every execution.
const RUN: &str = "01a1e1b7-7dce-706e-98e6-7d8513e2713e";
const AGE: &str = "8s ";
const PORT: &str = "9025";

/// Returns the commands under the heading, with here-documents, and the lines that they print.
fn first_five_minutes() -> (Vec<String>, Vec<&'static str>) {
    let page = PAGE.split_once("## The first five minutes").unwrap().1.split_once("\n## ").unwrap().0;
    let (mut commands, mut printed): (Vec<String>, Vec<&str>) = (Vec::new(), Vec::new());
    for block in page.split("```console\n").skip(1) {
        let mut document = false;
        for line in block.split_once("```").unwrap().0.lines() {
            if document {
                let command = commands.last_mut().unwrap();
                command.push('\n');
                command.push_str(line);
                document = line != "END";
            } else if let Some(command) = line.strip_prefix("$ ") {
                document = command.ends_with("<<'END'");
                commands.push(command.to_owned());
            } else {
                printed.push(line);
            }
        }
    }
    (commands, printed)
}

/// Returns a command with a wait for its effect. A reader of the page takes a moment before the next line.
fn with_wait(command: &str, port: &str) -> String {
    let wait = if command.ends_with("post_office.py &") {
        format!("until (exec 3<> /dev/tcp/127.0.0.1/{port}) 2> /dev/null; do sleep 0.02; done")
    } else if command.starts_with("holdpoint serve") {
        "until holdpoint pending > /dev/null 2>&1; do sleep 0.02; done".to_owned()
    } else if command.starts_with("kill ") {
        command.replace("kill -9", "wait") + " || true"
    } else {
        String::new()
    };
    format!("{}\n{wait}\n", command.replace(PORT, port))
}

/// Returns a port that servers of other tests do not use: the system chooses those from a higher range.
fn free_port() -> String {
    let mut bytes = [0; 2];
    getrandom::fill(&mut bytes).unwrap();
    (20_000 + u16::from_le_bytes(bytes) % 10_000).to_string()
}

#[test]
fn the_commands_of_the_agents_page_print_what_the_page_shows() {
    let folder = tempfile::tempdir().unwrap();
    let (commands, printed) = first_five_minutes();
    let port = free_port();
    let lines: String = commands.iter().map(|command| with_wait(command, &port)).collect();
    // Job control as in an interactive shell. The trap ends all jobs.
    let script = format!("set -m\nset -e\ntrap 'kill -9 $(jobs -p)' EXIT\n{lines}");
    let programs = std::path::Path::new(PROGRAM).parent().unwrap().to_str().unwrap();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
    let mut bash = Command::new("timeout");
    bash.args(["60", "bash", "-c", &script]).current_dir(folder.path()).stdin(Stdio::null());
    let ended = clear_env(&mut bash).env("PATH", path).env(ANY_PORT.0, ANY_PORT.1).output().unwrap();
    let stdout = String::from_utf8(ended.stdout).unwrap();
    let stderr = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.success(), "{stdout}\n{stderr}");
    let run = stdout.split_once("sent to run ").unwrap().1.split_once(' ').unwrap().0;
    assert_eq!(printed.len(), 11, "{printed:?}");
    for line in printed {
        let line = line.split_once(AGE).map_or(line, |(before, _)| before).replace(RUN, run);
        assert!(stdout.contains(&line), "{line:?} is not in\n{stdout}");
    }
    assert_eq!(stdout.matches("the post office sends").count(), 1, "{stdout}");
}
