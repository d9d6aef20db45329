//! Does what docs/agents.md tells a newcomer to do first, line by line, and sees what the page says is to be seen.

use std::process::{Command, Stdio};

use crate::harness::{ANY_PORT, PROGRAM, clean};

const PAGE: &str = include_str!("../../../../docs/agents.md");
/// What is another one each time.
const RUN: &str = "01a1e1b7-7dce-706e-98e6-7d8513e2713e";
const AGE: &str = "8s ";
const PORT: &str = "9025";

/// The blocks under the heading: commands, here documents included, and what they print.
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

/// A reader takes a moment before the next line; here what the line needs is waited for.
fn patiently(command: &str, port: &str) -> String {
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

/// A port that no server of other tests is given: those come from the range above.
fn free_port() -> String {
    let mut bytes = [0; 2];
    getrandom::fill(&mut bytes).unwrap();
    (20_000 + u16::from_le_bytes(bytes) % 10_000).to_string()
}

#[test]
fn the_first_five_minutes_with_agents_go_as_the_page_says() {
    let folder = tempfile::tempdir().unwrap();
    let (commands, printed) = first_five_minutes();
    let port = free_port();
    let lines: String = commands.iter().map(|command| patiently(command, &port)).collect();
    // With jobs, as in a shell that somebody sits at, and none of them left behind.
    let script = format!("set -m\nset -e\ntrap 'kill -9 $(jobs -p)' EXIT\n{lines}");
    let programs = std::path::Path::new(PROGRAM).parent().unwrap().to_str().unwrap();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
    let mut bash = Command::new("timeout");
    bash.args(["60", "bash", "-c", &script]).current_dir(folder.path()).stdin(Stdio::null());
    let ended = clean(&mut bash).env("PATH", path).env(ANY_PORT.0, ANY_PORT.1).output().unwrap();
    let said = String::from_utf8(ended.stdout).unwrap();
    let complaints = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.success(), "{said}\n{complaints}");
    let run = said.split_once("told run ").unwrap().1.split_once(' ').unwrap().0;
    assert_eq!(printed.len(), 11, "{printed:?}");
    for line in printed {
        let line = line.split_once(AGE).map_or(line, |(before, _)| before).replace(RUN, run);
        assert!(said.contains(&line), "{line:?} is not in\n{said}");
    }
    assert_eq!(said.matches("the post office sends").count(), 1, "once: {said}");
}
