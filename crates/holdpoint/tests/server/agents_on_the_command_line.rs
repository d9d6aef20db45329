//! `holdpoint agents`, `holdpoint threads` and `holdpoint runs decide`, mostly without a model.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::harness::{KEY, PROGRAM, Server, gated};

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn agents_are_declared_listed_and_sent_messages() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mailer.json");
    let definition = json!({"agentId": "mailer", "name": "The mailer", "model": {"use": "main"}});
    std::fs::write(&file, definition.to_string()).unwrap();
    let declared = server.run(&["agents", "put", file.to_str().unwrap()]);
    assert_eq!(text(&declared), "declared mailer, revision 1\n");
    let listed = text(&server.run(&["agents", "list"]));
    assert!(listed.contains("mailer  1") && listed.contains("The mailer"), "{listed}");
    let shown = server.run(&["agents", "show", "mailer", "--json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["definition"], definition);

    let output = server.run(&["agents", "run", "mailer", "Write to Bob", "--thread", "bob"]);
    assert!(output.status.success() && text(&output).contains("in thread bob"), "{output:?}");
    let queue = text(&server.run(&["mailbox", "list", "latest"]));
    assert!(queue.contains("DISPATCH") && queue.lines().count() >= 2, "{queue}");
    assert_eq!(text(&server.run(&["mailbox", "list", "bob"])).lines().count(), queue.lines().count());
    let sent = server.run(&["threads", "say", "bob", "And to Ann", "--json"]);
    let sent: Value = serde_json::from_slice(&sent.stdout).unwrap();
    assert_eq!(sent["threadId"], "bob", "{sent}");
    let messages = text(&server.run(&["threads", "messages", "bob"]));
    let lines: Vec<&str> = messages.lines().collect();
    assert_eq!(lines.len(), 2, "{messages}");
    assert!(lines[0].ends_with(": Write to Bob") && lines[1].ends_with(": And to Ann"), "{messages}");
    let limited = server.run(&["threads", "messages", "bob", "--limit", "1", "--json"]);
    let limited: Value = serde_json::from_slice(&limited.stdout).unwrap();
    let cursor = limited["nextCursor"].as_str().unwrap();
    let rest = text(&server.run(&["threads", "messages", "bob", "--after", cursor]));
    assert_eq!(rest.trim_end(), lines[1]);
    let runs = text(&server.run(&["threads", "runs", "bob"]));
    assert!(runs.contains("mailer"), "{runs}");
    let nothing = text(&server.run(&["threads", "interrupt", "unknown"]));
    assert_eq!(nothing, "thread unknown has no open run\n");
}

#[test]
fn events_of_a_thread_are_listed_and_followed() {
    let server = Server::start();
    let model = json!({"provider": "scripted", "steps": [{"text": "Yes."}]});
    server.client.put("/v1/agents/clerk", &json!({"model": model}));
    let say = |words: &str| {
        let output = server.run(&["threads", "say", "bob", words, "--agent", "clerk", "--json"]);
        let output: Value = serde_json::from_slice(&output.stdout).unwrap();
        let run = output["runId"].as_str().unwrap().to_owned();
        server.client.wait_for_end(&run);
        run
    };
    let (first, second) = (say("one"), say("two"));
    let listed = text(&server.run(&["threads", "events", "bob"]));
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines[0], format!("run {first}"));
    assert!(lines[1].starts_with("   0  ") && lines[1].contains("run.started"), "{listed}");
    assert_eq!(lines.iter().filter(|line| **line == format!("run {second}")).count(), 1, "{listed}");
    let whole = server.run(&["threads", "events", "bob", "--json"]);
    let whole: Value = serde_json::from_slice(&whole.stdout).unwrap();
    let events = whole["events"].as_array().unwrap();
    assert_eq!(events.len() + 2, lines.len(), "a line for each event and each run");
    let after = events[3]["cursor"].as_str().unwrap();
    let rest = server.run(&["threads", "events", "bob", "--after", after, "--json"]);
    let rest: Value = serde_json::from_slice(&rest.stdout).unwrap();
    assert_eq!(rest["events"].as_array().unwrap()[..], events[4..]);

    let mut command = Command::new(PROGRAM);
    command.args(["threads", "events", "bob", "--follow", "--json", "--after", after]);
    command.env("HOLDPOINT_SERVER", &server.url).env("HOLDPOINT_KEY", KEY).stdout(Stdio::piped());
    let mut following = command.spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    let seen: Vec<Value> = events[4..].iter().map(|_| next()).collect();
    assert_eq!(seen[..], events[4..]);
    let third = say("three");
    assert_eq!(next()["runId"], json!(third), "it follows runs that start later");
    following.kill().unwrap();
    following.wait().unwrap();

    let unknown = server.run(&["threads", "events", "unknown"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(
        text(&unknown).contains("thread not found") && text(&unknown).contains("threads say"),
        "{unknown:?}"
    );
    let wrong = server.run(&["threads", "events", "bob", "--after", "x", "--follow"]);
    assert!(text(&wrong).contains("after: is not a cursor"), "{wrong:?}");
    for command in [&["agents", "show", "unknown"][..], &["threads", "say", "t", "hi", "--agent", "unknown"]]
    {
        let output = text(&server.run(command));
        assert!(output.contains("holdpoint agents list") && !output.contains("workflows"), "{output}");
    }
}

#[test]
fn wrong_usage_is_reported_before_a_request_is_sent() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nameless.json");
    std::fs::write(&file, "{}").unwrap();
    let refused = server.run(&["agents", "put", file.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused).contains("it has no `agentId`"), "{refused:?}");
    assert_eq!(server.run(&["agents", "show", "unknown"]).status.code(), Some(1));
    server.client.put("/v1/workflows/gated", &gated("gated"));
    let run = server.client.start_run("gated");
    for flags in [&["--call", "c1"][..], &["--call", "c1", "--resume", "--cancel"], &["--resume"]] {
        let arguments = [&["runs", "decide", run.as_str()][..], flags].concat();
        assert_eq!(server.run(&arguments).status.code(), Some(2), "{flags:?}");
    }
    let unknown = server.run(&["runs", "decide", &run, "--call", "c1", "--resume"]);
    assert_eq!(unknown.status.code(), Some(1), "{unknown:?}");
    assert!(text(&unknown).contains("ticket not found"), "{unknown:?}");
}
